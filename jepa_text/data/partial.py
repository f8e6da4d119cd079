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
def open_folder(path, plan):
    """Yields a folder to fill, and renames it to `path` unless an error is raised.

    After an error, what is in it is kept for the next call with an equal `plan`, a JSON
    dict. Raises OSError if `path` exists by then and is not an empty folder.
    """
    path = Path(path).resolve()  # of a link, the folder is replaced
    atomic.check_writable(path.parent)
    partial = path.parent / f'.{path.name}.partial'
    partial.mkdir(parents=True, exist_ok=True)
    with open(partial / LOCK, 'a', encoding='utf-8') as lock:
        try:
            locks.take(lock, wait=False)
        except BlockingIOError:
            print(f'{partial}: waiting for another process to fill it.', file=sys.stderr)
            locks.take(lock)
        # By now, the other one may have renamed the folder.
        if path.exists() and any(path.iterdir()):
            shutil.rmtree(partial, ignore_errors=True)
            raise FileExistsError(errno.EEXIST, 'exists by now', str(path))
        _start_or_resume(partial, plan)
        yield partial
        atomic.flush_tree(partial)
        # Not before all is on disk: without them, the next call would start over.
        for file in (partial / PLAN, *_records(partial)):
            file.unlink(missing_ok=True)
        atomic.flush(partial)
        os.rename(partial, path)
        # Not before: another process would lock a new file of this name, and start over.
        (path / LOCK).unlink()
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
