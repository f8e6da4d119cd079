"""Guards against restarting a run at step 0 when its saved checkpoints are unusable."""

from pathlib import Path

from jepa_text.files import checksums
from jepa_text.parallel import exits
from jepa_text.running import metrics, restore, workdir

ASIDE = 'before-restart'


def check(folder, restart=False):
    """Raises ConfigError if the run has saved checkpoints, but none is usable.

    `folder` is a locked workdir. With `restart`, its files are moved to the folder
    before-restart, or before-restart-2, ..., which is printed, and the run starts from
    scratch. If a checkpoint is usable, the run resumes from it even with `restart`, so
    that a launcher may repeat the command. Raises OSError if the disk cannot be read.
    """
    folder = Path(folder)
    steps = folder / 'checkpoints'
    if restore.newest_good_step(steps) is not None:
        if restart:
            print(f'--restart: not needed, the run resumes from a checkpoint in {steps}')
        return
    reason = _unusable(folder, steps)
    if reason is None:
        return
    if not restart:
        raise exits.ConfigError(
            f'{reason}. The run would start again at step 0 and overwrite its metrics, '
            'so it was not started. Restore the files from a backup, or use `jepa-text '
            'train --restart ...` to start from scratch; the old files are then kept in '
            f'{folder / ASIDE}. (For a run of a study, move its folder away.)'
        )
    aside = checksums.free_name(folder / ASIDE)
    unmoved = {workdir.LOCK, workdir.CONFIG}
    moved = [
        path
        for path in sorted(folder.iterdir())
        if path.name not in unmoved and not path.name.startswith(ASIDE)
    ]
    aside.mkdir()
    for path in moved:
        path.rename(aside / path.name)
    print(f'--restart: {reason}. Starting from scratch; the old files are in {aside}')


def _unusable(folder, steps):
    """Describes saved state that is not usable; None if nothing was ever saved."""
    if steps.is_dir():
        complete = sorted(steps.glob(f'*/{checksums.NAME}'))
        if not complete:
            return None
        problem = restore.problem(complete[-1].parent)
        detail = f' ({complete[-1].parent}: {problem})' if problem else ''
        return f'{steps} has {len(complete)} saved checkpoints, and none is good{detail}'
    log = folder / metrics.FILE
    if log.is_file() and log.stat().st_size:
        return f'{log} records a run, but its folder {steps} is missing'
    return None
