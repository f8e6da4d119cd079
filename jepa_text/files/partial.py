"""A folder that is filled in parts, and goes on where a killed process left it.

    .rows.partial/plan.json       what it is to become; another plan begins anew
                 /part-00002.json what was made of part 2, once it is on the disk
                 /...
    rows/                         the same folder, when all is there

One process at a time fills it: a second one waits, then finds it whole.
"""

import contextlib
import errno
import json
import os
import shutil
import sys
from pathlib import Path

from jepa_text.files import atomic, locks

PLAN, LOCK, PART = 'plan.json', 'lock', 'part-'


@contextlib.contextmanager
def filled(path, plan, worth=''):
    """The folder to fill, which takes the name `path` unless something is raised.

    When something is, the parts that were marked stay for the next call with an equal
    `plan`, a dict of JSON; without one nothing stays, unless a file fits the pattern
    `worth`. Raises OSError if the name is taken by then, but by an empty folder.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.parent / f'.{path.name}.partial'
    with _locked(partial):
        if path.exists() and any(path.iterdir()):
            shutil.rmtree(partial, ignore_errors=True)
            raise FileExistsError(errno.EEXIST, 'is there by now', str(path))
        _agree(partial, plan)
        try:
            yield partial
            for name in (PLAN, LOCK, *(file.name for file in _parts(partial))):
                (partial / name).unlink(missing_ok=True)
            for parent, _, names in os.walk(partial, topdown=False):
                for name in (*names, ''):
                    atomic.flush(Path(parent, name))
            os.rename(partial, path)
        finally:
            if not _parts(partial) and not (worth and any(partial.glob(worth))):
                shutil.rmtree(partial, ignore_errors=True)
        atomic.flush(path.parent)


def mark(partial, number, made):
    """Says that a part is on the disk; `made` is what `marked` will tell of it."""
    name = f'{PART}{number:05d}.json'
    atomic.write(Path(partial, name), json.dumps(made) + '\n')


def marked(partial):
    """{number: what was made} of the parts that are done."""
    return {
        int(file.stem.removeprefix(PART)): json.loads(file.read_text(encoding='utf-8'))
        for file in _parts(partial)
    }


def forget(partial):
    """Takes back all that was marked: it is not worth keeping."""
    for file in _parts(partial):
        file.unlink()


def plan_of(partial):
    """The plan of a folder that is being filled."""
    return json.loads(Path(partial, PLAN).read_text(encoding='utf-8'))


def _parts(partial):
    return sorted(partial.glob(f'{PART}*.json'))


def _agree(partial, plan):
    """Leaves what is there of this plan; empties the folder of another one."""
    text = json.dumps(plan, indent=1) + '\n'
    file = partial / PLAN
    if file.is_file() and file.read_text(encoding='utf-8') == text:
        return
    for entry in partial.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != LOCK:
            entry.unlink()
    atomic.write(file, text)


@contextlib.contextmanager
def _locked(partial):
    """Holds the lock of the folder, which is made if need be."""
    while True:
        partial.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(partial / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
            _take(descriptor, partial)
            # Whoever held it may have removed or renamed the folder meanwhile.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(partial / LOCK)):
                    break
            os.close(descriptor)
    try:
        yield
    finally:
        os.close(descriptor)


def _take(descriptor, partial):
    try:
        locks.take(descriptor, wait=False)
    except BlockingIOError:
        print(f'{partial}: another process fills it; waiting for it.', file=sys.stderr)
        locks.take(descriptor)
