"""Evaluations beside the steps of training, which `train` is handed.

Each is made by a function of a Recipe and its section of the config, or is None if that
asks for none. It has

    every              steps from one to the next
    run(params, network)    {metric: value}
    why_not(network)   why a network has none, in words; '' if it has
"""

from jepa_text.training.evals import geometry, heldout

EVALUATIONS = (('evaluate', heldout.make), ('geometry', geometry.make))
