"""The command `jepa-text train`: training with all evaluations, and what comes next."""

import jax

from jepa_text.evaluation.during_training import EVALUATIONS
from jepa_text.files import addresses
from jepa_text.running import mirror, next_steps
from jepa_text.training import train


def run(config, workdir, **keywords):
    """`train`, and then, in lines, what is there and what to do with it."""
    train.train(config, workdir, EVALUATIONS, **keywords)
    away = addresses.is_address(workdir)
    folder = mirror.folder_of(workdir) if away else workdir
    address = workdir.rstrip('/') if away else None
    if jax.process_index() == 0 and (lines := next_steps.lines(folder, address=address)):
        print('\n'.join(lines))
