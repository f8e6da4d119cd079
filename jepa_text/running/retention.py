"""Checkpoint retention: removes old checkpoints and what a crash left behind."""

import logging
import shutil

from jepa_text.files import checksums
from jepa_text.running import restore

_log = logging.getLogger(__name__)


def prepare(folder):
    """Creates the folder or cleans it up; returns the newest good step or None."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in leftovers(folder):
            shutil.rmtree(path)
        newest = restore.newest_good_step(folder)
        for step in restore.steps(folder):
            is_complete = (folder / str(step) / checksums.NAME).exists()
            if newest is None or step > newest or not is_complete:
                aside = checksums.free_name(folder / f'damaged-{step}')
                (folder / str(step)).rename(aside)
                _log.warning('Checkpoint %s is now %s.', folder / str(step), aside.name)
    except OSError as error:
        if error.filename is None:  # already has a clear message
            raise
        raise type(error)(
            error.errno,
            f'The checkpoint folder {folder} cannot be used ({error.strerror}: '
            f'{error.filename}). Make it writable, or use another folder.',
        ) from error
    return newest


def leftovers(folder):
    """Paths of folders that a killed save or removal left behind."""
    named = [
        path
        for path in folder.iterdir()
        if '.orbax-checkpoint-tmp' in path.name or 'deleting-' in path.name
    ]
    return [path for path in named if path.is_dir()]


def complete(folder):
    """The complete steps, good or not, in increasing order."""
    return [
        s for s in restore.steps(folder) if (folder / str(s) / checksums.NAME).exists()
    ]


def retain(folder, keep, keep_every, keep_at=()):
    """Removes old complete steps. Call it only after a save: then the newest is good."""
    for step in old(complete(folder), keep, keep_every, keep_at):
        # Renamed first: a crash must not leave an incomplete step under its number.
        removed = checksums.free_name(folder / f'deleting-{step}')
        try:
            (folder / str(step)).rename(removed)
            shutil.rmtree(removed)
        except OSError as error:
            _log.warning(
                'The old checkpoint %s could not be removed: %s.', removed, error
            )


def old(steps, keep, keep_every, keep_at=()):
    """The complete steps, given in increasing order, that need not be kept."""
    return [
        step
        for step in steps[:-keep]
        if not (keep_every and step % keep_every == 0) and step not in keep_at
    ]


def discard(folder, step):
    """Removes the files of a failed save."""
    shutil.rmtree(folder / f'{step}.orbax-checkpoint-tmp', ignore_errors=True)
    if not (folder / str(step) / checksums.NAME).exists():
        shutil.rmtree(folder / str(step), ignore_errors=True)
