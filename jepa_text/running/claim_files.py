"""The history of an item: files ITEM@1, ITEM@2, ..., each made whole and by one worker.

What this asks of a file system: that `link` makes a name or says that it is taken, on the
server and at once. Local ones do, and NFS does in all its versions, unlike O_EXCL before
version 3; its answer may be lost on the way, so the number of links is what counts.
`rename` overwrites, so it can decide nothing, and locks need a daemon. A heartbeat is
written in place, since NFS promises that who opens a file sees what was written before
another closed it, while a listing may be old: by an old one a worker tries to make a
file that is there, in vain. Nothing is ever removed, so no number comes twice.
"""

import errno
import json
import os
import re
import socket
import time
import uuid

from jepa_text.files import atomic

ITEM = re.compile(r'[\w.+=-]{1,200}')  # what an item may be called
_ENTRY = re.compile(r'(?P<item>[\w.+=-]+)@(?P<number>\d+)')
_DIGITS = 12  # of a heartbeat


def check(folder):
    """Makes the folder."""
    folder.mkdir(parents=True, exist_ok=True)


def numbers(folder):
    """{item: the number of its last entry}; {} of a folder that is not there."""
    return last_of(os.listdir(folder) if os.path.isdir(folder) else ())


def last_of(names):
    """The same among names of files."""
    last = {}
    for name in names:
        if found := _ENTRY.fullmatch(name):
            item, number = found['item'], int(found['number'])
            last[item] = max(number, last.get(item, 0))
    return last


def path_of(folder, item, number):
    """The file of an entry."""
    return folder / f'{item}@{number}'


def make(folder, item, number, kind, lease, **more):
    """Makes an entry whole and once: its path, or None if there is one already."""
    entry = new(kind, lease, **more)
    path = path_of(folder, item, number)
    own = folder / f'.{item}-{entry["owner"]}'
    try:
        own.write_text(written(entry), encoding='utf-8')
        atomic.flush(own)
        made = _link(own, path)
    finally:
        own.unlink(missing_ok=True)
    atomic.flush(folder)
    return path if made else None


def new(kind, lease, **more):
    """An entry of this process, as no other is."""
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


def written(entry, count=0):
    """An entry as a file has it, with a heartbeat."""
    return json.dumps({**entry, 'beat': f'{count:0{_DIGITS}d}'}) + '\n'


def _link(own, path):
    """Was it this call that gave the file its second name?"""
    try:
        os.link(own, path)
    except FileExistsError:
        # It may have been, if the answer to a first try was lost.
        return own.stat().st_nlink == 2
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        raise OSError(
            error.errno,
            f'{path.parent} lies in a file system without hard links ({error.strerror}), '
            'by which workers agree: give a folder on a local disk or on NFS, or, of a '
            'mounted bucket, its address (gs://, s3://).',
        ) from error
    return True


def history(folder, item, number):
    """The entries 1 to `number`, dicts. Raises ValueError, with its name, for a file that
    is no entry."""
    return [_read(path_of(folder, item, n)) for n in range(1, number + 1)]


def _read(path):
    return parsed(path.read_bytes(), path)


def parsed(content, path):
    """The entry that a file holds. Raises ValueError, with its name, for what is none."""
    try:
        entry = json.loads(content)
        if {'beat', 'kind', 'lease', 'host', 'pid'} - set(entry):
            raise ValueError('a part of it is missing')
    except ValueError as error:
        raise ValueError(
            f'{path} is damaged ({error}). Delete it and the others of its item while '
            'nobody works here: the item is done anew then.'
        ) from error
    return entry


def beat(path, count):
    """Overwrites the heartbeat in place; the rest of the file stays as it is."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        text = f'{{"beat": "{count:0{_DIGITS}d}"'
        os.pwrite(descriptor, text.encode(), 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def owner(entry):
    """Who made an entry, in words."""
    return f'process {entry["pid"]} on {entry["host"]}'
