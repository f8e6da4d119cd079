"""Evaluations during training, passed to `train`.

Each entry is (section of the config, function of (recipe, section)). The function returns
None if the section asks for no evaluation, and otherwise an object with

    every                  steps between evaluations
    run(params, network)   {metric: value}
    why_not(network)       why the evaluation does not apply to a network; '' if it does
"""

from jepa_text.training.evals import geometry, heldout

EVALUATIONS = (('evaluate', heldout.make), ('geometry', geometry.make))
