"""`claim_files` in an object store: the same history, under the same names.

What it asks of the store: to write an object only where none is, in one step
(If-None-Match of S3, ifGenerationMatch=0 of Google Cloud Storage). A store that does not
know the condition writes over what is there without a word, so it is tried out first.
"""

import posixpath
import uuid

from jepa_text.files import addresses, transfer
from jepa_text.running import claim_files


def check(folder):
    """Raises ValueError for an address whose store would give one item to two workers,
    and as addresses.place does."""
    addresses.place('The folder of claims', folder)
    if folder.startswith('file:'):
        raise ValueError(f'{folder} is a folder of this machine: give its path alone.')
    probe = f'.probe-{uuid.uuid4().hex}'
    transfer.create(f'{folder}/{probe}', b'once')
    made_twice = transfer.create(f'{folder}/{probe}', b'twice')
    transfer.remove(folder, [probe])
    if made_twice:
        raise ValueError(
            f'{folder} lies in a store that writes over what is there though asked '
            'not to (If-None-Match, ifGenerationMatch), by which several workers agree. '
            'Give a folder on a local disk or on NFS, and copy it there when all is done.'
        )


def numbers(folder):
    """{item: the number of its last entry}; {} of a folder that is not there."""
    return claim_files.last_of(transfer.listed(folder))


def path_of(folder, item, number):
    """The address of an entry."""
    return posixpath.join(folder, f'{item}@{number}')


def make(folder, item, number, kind, lease, **more):
    """Makes an entry whole and once: its address, or None if there is one already."""
    entry = claim_files.new(kind, lease, **more)
    path = path_of(folder, item, number)
    if transfer.create(path, claim_files.written(entry).encode()):
        return path
    # It may be this one, if the answer to a first try was lost.
    return path if _read(path)['owner'] == entry['owner'] else None


def history(folder, item, number):
    """The entries 1 to `number`, dicts. Raises ValueError, with its name, for what is no
    entry."""
    return [_read(path_of(folder, item, n)) for n in range(1, number + 1)]


def beat(path, count):
    """Overwrites the heartbeat; nobody else writes this entry."""
    transfer.write(path, claim_files.written(_read(path), count).encode())


def _read(path):
    return claim_files.parsed(transfer.read(path), path)
