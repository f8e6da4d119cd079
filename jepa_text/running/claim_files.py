"""The history of a work item as files ITEM@1, ITEM@2, ..., each created atomically.

The file system's `link` must atomically create a name on the server or report that it
exists. Local file systems do this, and so does NFS in all versions, unlike O_EXCL before
version 3. The reply of an NFS server can be lost, so the number of links decides.
`rename` overwrites its target, so it cannot decide which worker was first, and locks need
a daemon. Heartbeats are written in place: NFS guarantees that opening a file shows what
was written before another client closed it. Directory listings may be stale; a worker
with a stale listing tries to create an existing file and fails. Nothing is ever removed,
so no number is used twice.
"""

import errno
import json
import os
import re
import socket
import time
import uuid

from jepa_text.files import atomic

ITEM = re.compile(r'[\w.+=-]{1,200}')  # valid item names
_ENTRY = re.compile(r'(?P<item>[\w.+=-]+)@(?P<number>\d+)')
_DIGITS = 12  # of a heartbeat


def check(folder):
    """Creates the folder."""
    folder.mkdir(parents=True, exist_ok=True)


def numbers(folder):
    """{item: number of its last entry}; {} if the folder does not exist."""
    return last_of(os.listdir(folder) if os.path.isdir(folder) else ())


def last_of(names):
    """{item: number of its last entry}, from file names."""
    last = {}
    for name in names:
        if found := _ENTRY.fullmatch(name):
            item, number = found['item'], int(found['number'])
            last[item] = max(number, last.get(item, 0))
    return last


def path_of(folder, item, number):
    """The path of an entry's file."""
    return folder / f'{item}@{number}'


def make(folder, item, number, kind, lease, **more):
    """Creates an entry atomically; returns its path, or None if the entry exists."""
    entry = new(kind, lease, **more)
    path = path_of(folder, item, number)
    own = folder / f'.{item}-{entry["owner"]}'
    try:
        own.write_text(serialize(entry), encoding='utf-8')
        atomic.flush(own)
        made = _link(own, path)
    finally:
        own.unlink(missing_ok=True)
    atomic.flush(folder)
    return path if made else None


def new(kind, lease, **more):
    """An entry of this process, with a unique owner."""
    return {
        'beat': '0' * _DIGITS,
        'kind': kind,
        'owner': uuid.uuid4().hex,
        'host': socket.gethostname(),
        'pid': os.getpid(),
        'time': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime()),
        'lease': lease,
        **more,
    }


def serialize(entry, count=0):
    """The text of an entry's file, with its heartbeat."""
    return json.dumps({**entry, 'beat': f'{count:0{_DIGITS}d}'}) + '\n'


def _link(own, path):
    """Returns whether this call created the second link."""
    try:
        os.link(own, path)
    except FileExistsError:
        # This call may have created it, if the reply to a first attempt was lost.
        return own.stat().st_nlink == 2
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        raise OSError(
            error.errno,
            f'{path.parent} is on a file system without hard links ({error.strerror}), '
            'which workers need to claim items: use a folder on a local disk or NFS, or '
            'for a mounted bucket its address (gs://, s3://).',
        ) from error
    return True


def read(path):
    """The entry in a file, a dict. Raises ValueError, naming the file, if invalid."""
    return parse(path.read_bytes(), path)


def parse(content, path):
    """The entry in the content of a file. Raises as `read` does."""
    try:
        entry = json.loads(content)
        if missing := {'beat', 'kind', 'lease', 'host', 'pid'} - set(entry):
            raise ValueError(f'it lacks {", ".join(sorted(missing))}')
    except ValueError as error:
        raise ValueError(
            f'{path} is damaged ({error}). While no worker is running, delete it and the '
            'other files of its item: the item is then computed again.'
        ) from error
    return entry


def beat(path, count):
    """Overwrites the heartbeat in place; the rest of the file does not change."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        text = f'{{"beat": "{count:0{_DIGITS}d}"'
        os.pwrite(descriptor, text.encode(), 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def owner(entry):
    """Describes the process that created an entry."""
    return f'process {entry["pid"]} on {entry["host"]}'
