"""The history of a work item in an object store, under the same names as `claim_files`.

The store must support atomic conditional writes, which create an object only if none
exists (If-None-Match in S3, ifGenerationMatch=0 in Google Cloud Storage). A store that
ignores the condition silently overwrites the object, so `check` tests it first.
"""

import posixpath
import uuid

from jepa_text.files import addresses, transfer
from jepa_text.running import claim_files


def check(folder):
    """Raises ValueError if the store ignores the condition of conditional writes.

    Such a store would give one item to two workers. Also raises as `addresses.location`.
    """
    addresses.location('The folder of claims', folder)
    if folder.startswith('file:'):
        raise ValueError(f'{folder} is a folder of this machine: use its path instead.')
    probe = f'.probe-{uuid.uuid4().hex}'
    transfer.create(f'{folder}/{probe}', b'once')
    made_twice = transfer.create(f'{folder}/{probe}', b'twice')
    transfer.delete_files(folder, [probe])
    if made_twice:
        raise ValueError(
            f'{folder} is in a store that overwrites existing objects in spite of '
            'If-None-Match or ifGenerationMatch, which workers need to claim items. '
            'Use a folder on a local disk or NFS, and copy it there when all is done.'
        )


def numbers(folder):
    """{item: number of its last entry}; {} if the folder does not exist."""
    return claim_files.last_of(transfer.list_files(folder))


def path_of(folder, item, number):
    """The address of an entry's object."""
    return posixpath.join(folder, f'{item}@{number}')


def make(folder, item, number, kind, lease, **more):
    """Creates an entry atomically; returns its address, or None if the entry exists."""
    entry = claim_files.new(kind, lease, **more)
    path = path_of(folder, item, number)
    if transfer.create(path, claim_files.serialize(entry).encode()):
        return path
    # This call may have created it, if the reply to a first attempt was lost.
    return path if read(path)['owner'] == entry['owner'] else None


def read(path):
    """The entry in an object, a dict. Raises ValueError, naming it, if invalid."""
    return claim_files.parse(transfer.read(path), path)


def beat(path, count):
    """Overwrites the heartbeat; no other worker writes this entry."""
    transfer.write(path, claim_files.serialize(read(path), count).encode())
