"""The command `jepa-text train`: training with all evaluations, then a summary."""

import jax

from jepa_text.evaluation.during_training import EVALUATIONS
from jepa_text.files import addresses
from jepa_text.running import mirror, next_steps
from jepa_text.training import train


def run(config, workdir, **keywords):
    """Runs `train`, then prints what was written and the next steps."""
    train.train(config, workdir, EVALUATIONS, **keywords)
    is_remote = addresses.is_address(workdir)
    folder = mirror.folder_of(workdir) if is_remote else workdir
    address = workdir.rstrip('/') if is_remote else None
    if jax.process_index() == 0 and (lines := next_steps.lines(folder, address=address)):
        print('\n'.join(lines))
