"""The command `jepa-text train`: training with all evaluations, and what comes next."""

import jax

from jepa_text.evaluation.beside import EVALUATIONS
from jepa_text.running import ending
from jepa_text.training import train


def run(config, workdir, **keywords):
    """`train`, and then, in lines, what is there and what to do with it."""
    train.train(config, workdir, EVALUATIONS, **keywords)
    if jax.process_index() == 0 and (lines := ending.lines(workdir)):
        print('\n'.join(lines))
