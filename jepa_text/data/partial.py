"""Folders that are filled part by part and can be resumed after an interruption.

    .rows.partial/plan.json       what it will contain; another plan starts over
                 /part-00002.json record of part 2, written once part 2 is on disk
                 /...
    rows/                         the same folder, renamed when it is complete

One process at a time fills a folder. A second one waits and then finds it complete.
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
def open_folder(path, plan, worth=''):
    """Yields a folder to fill, and renames it to `path` unless an error is raised.

    After an error, the finished parts are kept for the next call with an equal `plan`, a
    JSON dict. If no part is finished, the folder is deleted unless it has a file that
    matches the pattern `worth`. Raises OSError if `path` exists by then and is not an
    empty folder.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.parent / f'.{path.name}.partial'
    with _locked(partial):
        if path.exists() and any(path.iterdir()):
            shutil.rmtree(partial, ignore_errors=True)
            raise FileExistsError(errno.EEXIST, 'exists by now', str(path))
        _start_or_resume(partial, plan)
        try:
            yield partial
            for name in (PLAN, LOCK, *(file.name for file in _records(partial))):
                (partial / name).unlink(missing_ok=True)
            atomic.flush_tree(partial)
            os.rename(partial, path)
        finally:
            if not _records(partial) and not (worth and any(partial.glob(worth))):
                shutil.rmtree(partial, ignore_errors=True)
        atomic.flush(path.parent)


def mark_done(partial, number, record):
    """Records that a part is on disk. `record` is a JSON value."""
    name = f'{PART}{number:05d}.json'
    atomic.write(Path(partial, name), json.dumps(record) + '\n')


def done_parts(partial):
    """Returns {number: record} of the finished parts."""
    return {
        int(file.stem.removeprefix(PART)): json.loads(file.read_text(encoding='utf-8'))
        for file in _records(partial)
    }


def discard_done(partial):
    """Deletes the records of all parts, so that the next call starts over."""
    for file in _records(partial):
        file.unlink()


def read_plan(partial):
    """Returns the plan of a folder that is being filled."""
    return json.loads(Path(partial, PLAN).read_text(encoding='utf-8'))


def _records(partial):
    return sorted(partial.glob(f'{PART}*.json'))


def _start_or_resume(partial, plan):
    """Keeps the content of a folder with the same plan; empties one with another plan."""
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
    """Holds the lock of the folder, creating the folder if needed."""
    while True:
        partial.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(partial / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
            _take(descriptor, partial)
            # The previous holder may have deleted or renamed the folder in the meantime.
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
        print(f'{partial}: waiting for another process to fill it.', file=sys.stderr)
        locks.take(descriptor)
