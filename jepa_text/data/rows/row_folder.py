"""On-disk format of a folder of rows: manifest, checksums and records.

    rows/manifest.json                        settings, counts, checksums; sealed
         tokenizer.json
         train-00000-of-00004.array_record    one record = one row
         ...

A record is little-endian unsigned integers of the manifest's `dtype`: L tokens, then the
lengths of the pieces of documents in the row. Tokens beyond these lengths are padding:

    tokens       17 4 9 2 17 5 2 0 | 4 3
    segment_ids   1 1 1 1  2 2 2 0          0 = padding
    positions     0 1 2 3  0 1 2 0

ArrayRecord reads only files: a folder at an address is copied to this machine first.
"""

import json
import os
import pathlib

import numpy as np

from jepa_text.data.rows import packing
from jepa_text.files import addresses, atomic, checksums, copies, paths

FORMAT = 1
MANIFEST = 'manifest.json'
CHUNK = 2**22  # tokens laid out at a time
REMEDY = 'Delete the folder and run `jepa-text prepare` again, or copy it again.'


def dtype_for(vocab_size, row_length):
    """Returns the smallest dtype for all ids and lengths: '<u2' or '<u4'."""
    return '<u2' if max(vocab_size, row_length) < 65536 else '<u4'


def records(ids, starts, packed, order, pad_id, row_length):
    """Yields the records of rows `order` of a packing.Packed; document d begins at
    ids[starts[d]]."""
    step = max(1, CHUNK // row_length)
    for begin in range(0, len(order), step):
        count, document, start, length = packed.rows(order[begin : begin + step])
        ends = np.cumsum(length)
        row = np.repeat(np.arange(len(count)), count)
        # Where a piece begins in its row: the tokens before it in the row.
        before = ends - length
        first = before[np.cumsum(count) - count]
        place = row * row_length + before - first[row]
        tokens = np.full(len(count) * row_length, pad_id, ids.dtype)
        source = packing.ranges(starts[document] + start, length)
        tokens[packing.ranges(place, length)] = ids[source]
        lengths = np.split(length.astype(ids.dtype), np.cumsum(count)[:-1])
        for tokens_L, lengths_P in zip(tokens.reshape(-1, row_length), lengths):
            yield tokens_L.tobytes() + lengths_P.tobytes()


def from_record(record, row_length, dtype, vocab_size):
    """Returns tokens, segment_ids and positions of a record, int32 [L] each.

    Raises ValueError if the bytes cannot be a row of this length, and for an id that is
    not below `vocab_size`.
    """
    values = np.frombuffer(record, dtype)
    lengths = values[row_length:].astype(np.int64)
    ends = np.cumsum(lengths)
    if not len(ends) or ends[-1] > row_length:
        raise ValueError(f'{len(record)} bytes are not a row of {row_length} tokens')
    tokens_L = values[:row_length].astype(np.int32)
    if (highest := tokens_L.max()) >= vocab_size:
        raise ValueError(f'it has the id {highest}, the vocabulary has {vocab_size}')
    segment_ids_L = np.zeros(row_length, np.int32)
    positions_L = np.zeros(row_length, np.int32)
    filled = ends[-1]
    numbers = np.arange(1, len(lengths) + 1, dtype=np.int32)
    segment_ids_L[:filled] = np.repeat(numbers, lengths)
    starts = (ends - lengths).astype(np.int32)
    positions_L[:filled] = np.arange(filled, dtype=np.int32) - np.repeat(starts, lengths)
    return dict(tokens=tokens_L, segment_ids=segment_ids_L, positions=positions_L)


def entry(path):
    """Returns the manifest entry of a file: name, bytes, sha256."""
    return {'name': path.name, **checksums.file_entry(path)}


def write_manifest(folder, manifest):
    """Writes manifest.json with its checksum, and returns the manifest as read back."""
    content = manifest | {'checksum': checksums.checksum(manifest)}
    atomic.write(pathlib.Path(folder, MANIFEST), json.dumps(content, indent=2) + '\n')
    return json.loads(json.dumps(manifest))


def read_manifest(folder):
    """Returns the manifest of a folder of rows, after checking its checksum.

    Raises FileNotFoundError if it does not exist, ValueError if it was changed or has
    another format.
    """
    path = pathlib.Path(paths.local('The folder of rows', folder), MANIFEST)
    if not path.is_file():
        raise FileNotFoundError(
            f'There are no prepared rows in {folder}: it has no {MANIFEST}. Create them '
            'with `jepa-text prepare`, or give the folder that has it.'
        )
    try:
        manifest = json.loads(path.read_text(encoding='utf-8'))
        is_intact = manifest.pop('checksum') == checksums.checksum(manifest)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_intact = False
    if not is_intact:
        raise ValueError(
            f'{path} is damaged or was edited: its content does not match its checksum. '
            f'{REMEDY}'
        )
    if manifest['format'] != FORMAT:
        raise ValueError(
            f'{path} has format {manifest["format"]}, this version of jepa_text reads '
            f'{FORMAT}. Prepare the rows again with this version.'
        )
    return manifest


def files(manifest, splits=None):
    """Returns [(name, entry)] of the tokenizer and the shards of `splits` (None: all)."""
    entries = [*manifest['files']]
    for split in manifest['splits'] if splits is None else splits:
        entries += manifest['splits'][split]['files']
    return [(entry['name'], entry) for entry in entries]


def check_sizes(folder, manifest, splits=None):
    """Raises ValueError, naming the file, if one is missing or has the wrong size."""
    for name, entry in files(manifest, splits):
        path = pathlib.Path(folder, name)
        if not path.is_file():
            raise ValueError(f'{path} is missing, but the manifest lists it. {REMEDY}')
        if path.stat().st_size != entry['bytes']:
            raise ValueError(
                f'{path} has {path.stat().st_size} bytes, the manifest says '
                f'{entry["bytes"]}: it was truncated or replaced. {REMEDY}'
            )


def check_sums(folder, manifest):
    """Raises ValueError, naming the file, if one has the wrong size or sha256."""
    check_sizes(folder, manifest)
    for name, entry in files(manifest):
        path = pathlib.Path(folder, name)
        if (digest := checksums.sha256(path)) != entry['sha256']:
            raise ValueError(
                f'{path} is damaged: its sha256 is {digest[:16]}..., the manifest says '
                f'{entry["sha256"][:16]}.... {REMEDY}'
            )


def fetch(folder, shards=True):
    """Returns the local path of a folder of rows. One at an address is copied first: the
    manifest, the tokenizer and, with `shards`, all rows, compared with their checksums.

    Raises FileNotFoundError if there is no manifest, ValueError if it or a file is
    damaged, and what `copies.copy_files` raises.
    """
    if not addresses.is_address(folder):
        return pathlib.Path(paths.local('data.folder', folder))
    folder = os.fspath(folder).rstrip('/')
    try:
        listed = {MANIFEST: addresses.stat(f'{folder}/{MANIFEST}')}
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f'There are no prepared rows in {folder}: it has no {MANIFEST} ({error})'
        ) from error
    try:
        manifest = read_manifest(copies.copy_files(folder, listed))
    except ValueError as error:
        raise ValueError(f'{folder}: {error}') from error
    entries = files(manifest, None if shards else ())
    listed |= {
        name: addresses.File(f'{folder}/{name}', entry['bytes'])
        for name, entry in entries
    }
    sums = {name: entry['sha256'] for name, entry in entries}
    return copies.copy_files(folder, listed, sums)


def exists(folder, name=MANIFEST):
    """Whether a local or remote folder of rows has a file with this name."""
    if not addresses.is_address(folder):
        return pathlib.Path(paths.local('data.folder', folder), name).is_file()
    try:
        path = f'{os.fspath(folder).rstrip("/")}/{name}'
        return addresses.stat(path) is not None
    except FileNotFoundError:
        return False
