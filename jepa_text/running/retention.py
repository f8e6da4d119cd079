"""A folder of checkpoints: freed of what a crash left, and of what is old."""

import logging
import shutil

from jepa_text.files import checksums
from jepa_text.running import restore

_log = logging.getLogger(__name__)


def opened(folder):
    """Makes the folder or frees it of what a crash left; the newest good step or None."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in leavings(folder):
            shutil.rmtree(path)
        newest = restore.newest_good_step(folder)
        for step in restore.steps(folder):
            complete = (folder / str(step) / checksums.NAME).exists()
            if newest is None or step > newest or not complete:
                aside = checksums.free_name(folder / f'damaged-{step}')
                (folder / str(step)).rename(aside)
                _log.warning('Checkpoint %s is now %s.', folder / str(step), aside.name)
    except OSError as error:
        if error.filename is None:  # in words already
            raise
        raise type(error)(
            error.errno,
            f'The checkpoint folder {folder} cannot be used ({error.strerror}: '
            f'{error.filename}). Make it writable, or use another folder.',
        ) from error
    return newest


def leavings(folder):
    """What a kill left of a save, or of a removal: [path]."""
    named = [
        path
        for path in folder.iterdir()
        if '.orbax-checkpoint-tmp' in path.name or 'deleting-' in path.name
    ]
    return [path for path in named if path.is_dir()]


def complete(folder):
    """The steps that are complete, in rising order, whether they are good or not."""
    return [
        s for s in restore.steps(folder) if (folder / str(s) / checksums.NAME).exists()
    ]


def retain(folder, keep, keep_every, keep_at=()):
    """Removes old complete steps. Runs just after a save is complete, so the newest of
    them is good."""
    for step in old(complete(folder), keep, keep_every, keep_at):
        # Renamed first: a crash half way must not leave half a step under its number.
        doomed = checksums.free_name(folder / f'deleting-{step}')
        try:
            (folder / str(step)).rename(doomed)
            shutil.rmtree(doomed)
        except OSError as error:
            _log.warning('The old checkpoint %s could not be removed: %s.', doomed, error)


def old(steps, keep, keep_every, keep_at=()):
    """Those of complete steps, in rising order, that need not stay."""
    return [
        step
        for step in steps[:-keep]
        if not (keep_every and step % keep_every == 0) and step not in keep_at
    ]


def discard(folder, step):
    """Gives back the space of a save that failed."""
    shutil.rmtree(folder / f'{step}.orbax-checkpoint-tmp', ignore_errors=True)
    if not (folder / str(step) / checksums.NAME).exists():
        shutil.rmtree(folder / str(step), ignore_errors=True)
