"""The command `jepa-text train`: training with all evaluations, then what to do next."""

import shlex

import jax

from jepa_text.evaluation import during_training
from jepa_text.training import train


def trained(config, workdir, **keywords):
    """Trains with all evaluations; arguments and result are those of `train`."""
    return train.train(config, workdir, during_training.EVALUATIONS, **keywords)


def run(config, workdir, **keywords):
    """Runs `trained`, then prints two commands to continue with."""
    trained(config, workdir, **keywords)
    if jax.process_index() == 0:
        run = shlex.quote(str(workdir).rstrip('/'))
        print(
            f'\nDone: {run}\nNext, for example:\n'
            f'  jepa-text evaluate --model={run} --task=reviews.csv\n'
            f'  jepa-text analyze --model={run}\n'
            f'  jepa-text export --workdir={run} --to={run}-exported'
        )
