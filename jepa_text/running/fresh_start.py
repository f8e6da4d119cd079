"""A run that has saved a state never begins again at step 0 unless it is asked to."""

from pathlib import Path

from jepa_text.files import checksums
from jepa_text.parallel import exits
from jepa_text.running import metrics, restore, workdir

ASIDE = 'before-restart'


def check(folder, restart=False):
    """Refuses to begin anew where something was saved, and none of it can be used.

    `folder` is a workdir that is locked. With `restart`, all that lies in it moves to the
    folder before-restart, or before-restart-2, ..., which is printed; where a step can
    be used, the run goes on from it all the same, so that a launcher may repeat the
    command. Raises ConfigError, and OSError when the disk does not say what is there.
    """
    folder = Path(folder)
    steps = folder / 'checkpoints'
    if restore.newest_good_step(steps) is not None:
        if restart:
            print(f'--restart: not needed, {steps} holds a good checkpoint to go on from')
        return
    reason = _lost(folder, steps)
    if reason is None:
        return
    if not restart:
        raise exits.ConfigError(
            f'{reason}. The run would begin again at step 0 and its metrics would be '
            'written over, so it does not begin. Bring the files back, or say `jepa-text '
            'train --restart ...`: it begins anew and keeps the old files in '
            f'{folder / ASIDE}. (For a run of a study, move its folder away.)'
        )
    aside = checksums.free_name(folder / ASIDE)
    stays = {workdir.LOCK, workdir.CONFIG}
    moved = [
        path
        for path in sorted(folder.iterdir())
        if path.name not in stays and not path.name.startswith(ASIDE)
    ]
    aside.mkdir()
    for path in moved:
        path.rename(aside / path.name)
    print(f'--restart: {reason}. The run begins anew; the old files are in {aside}')


def _lost(folder, steps):
    """What was saved and cannot be used, in words; None where nothing ever was."""
    if steps.is_dir():
        complete = sorted(steps.glob(f'*/{checksums.NAME}'))
        if not complete:
            return None
        why = restore.why_not(complete[-1].parent)
        because = f' ({complete[-1].parent}: {why})' if why else ''
        return (
            f'{steps} holds {len(complete)} saved checkpoints, and none is good{because}'
        )
    log = folder / metrics.FILE
    if log.is_file() and log.stat().st_size:
        return f'{log} tells of a run, but its folder {steps} is gone'
    return None
