"""Rows on disk to batches, by index: a stream that can be entered at any step.

    rows --shuffled anew each epoch, for ever--> stream     i = epoch * len(rows) + place
         --corrupt(row, rng(seed, i))--> examples           i <-> (epoch, row), one to one
         --batches of B / P, every P-th, from `start`--> this process's part of each step

    step         0                     1
    i            0  1  2  3  4  5      6  7  8  9 10 11     B = 6
    process      0  0  0  1  1  1      0  0  0  1  1  1     P = 2

Everything is a function of (seed, i). So the global batch of a step is the same on any
number of processes and threads, the only state is the number of steps taken, and to go
on after a kill costs nothing. What the number means depends on the rows, the batch size
and the seed: `fingerprint` says which, and is kept beside it.
"""

import bisect
import dataclasses
import functools
import hashlib
import itertools
import json
import operator
import os
import pathlib

import grain
import numpy as np
from array_record.python.array_record_data_source import ArrayRecordDataSource

from jepa_text.config import resolve, schema
from jepa_text.data import rows as rows_on_disk
from jepa_text.data import tokenizers
from jepa_text.files import checksums, paths


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `data`."""

    folder: str = schema.field('', 'the prepared rows; made where `prepare` says how')
    row_length: int = schema.field(doc='tokens in a row', minimum=1, maximum=2**24)
    batch_size: int = schema.field(
        0, 'rows of a step, of all devices together; or', minimum=0, maximum=2**24
    )
    batch_per_device: int = schema.field(
        0, 'rows of a step on each device', minimum=0, maximum=2**24
    )
    threads: int = schema.field(
        0, 'that read; 0: as many as there are cores, up to 4', minimum=0, maximum=4096
    )


class Rows:
    """The rows of one split of a prepared folder, read by index.

    `rows[i]` is a dict of tokens, segment_ids (from 1; 0 is padding) and positions, int32
    [L] each. Opening checks the manifest and the sizes of the files; `verify(folder)`
    reads them whole. Raises FileNotFoundError without a manifest, ValueError for another
    split or a damaged folder.
    """

    def __init__(self, folder, split):
        folder = paths.local('data.folder', folder)
        self.folder, self.split = pathlib.Path(folder), split
        self.manifest = rows_on_disk.read_manifest(folder)
        if split not in self.manifest['splits']:
            known = self.manifest['splits']
            raise ValueError(
                f'{folder} has no split {split!r}.{resolve.nearest(str(split), known)}'
            )
        rows_on_disk.check_sizes(folder, self.manifest, [split])
        self.row_length = self.manifest['row_length']
        entries = self.manifest['splits'][split]['files']
        self._paths = [str(self.folder / entry['name']) for entry in entries]
        self._ends = list(itertools.accumulate(entry['rows'] for entry in entries))
        self._records = self._open()
        identity = [entry['sha256'] for entry in entries]
        identity += [
            self.manifest[key] for key in ('tokenizer_fingerprint', 'row_length')
        ]
        self.fingerprint = hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def _open(self):
        try:
            records = ArrayRecordDataSource(self._paths)
        except RuntimeError as error:
            raise ValueError(
                f'{self._damaged()} cannot be opened, it is damaged ({error}). '
                f'{rows_on_disk.REMEDY}'
            ) from error
        if len(records) != len(self):
            raise ValueError(
                f'{self._damaged()} is damaged: the shards of {self.split!r} hold '
                f'{len(records)} rows, the manifest says {len(self)}. '
                f'{rows_on_disk.REMEDY}'
            )
        return records

    def _damaged(self):
        """The first shard whose checksum is not the manifest's; the folder if none."""
        for entry in self.manifest['splits'][self.split]['files']:
            path = self.folder / entry['name']
            if checksums.sha256(path) != entry['sha256']:
                return path
        return self.folder

    def __len__(self):
        return self._ends[-1]

    def __getitem__(self, index):
        index = range(len(self))[operator.index(index)]
        try:
            record = self._records[index]
            return rows_on_disk.from_record(
                record, self.row_length, self.manifest['dtype']
            )
        except (RuntimeError, ValueError) as error:
            path = self._paths[bisect.bisect_right(self._ends, index)]
            raise ValueError(
                f'Row {index} cannot be read: the shard {path} is damaged ({error}). '
                f'{rows_on_disk.REMEDY}'
            ) from error


def verify(folder):
    """Reads all files of a prepared folder and compares them with their checksums.

    Returns the manifest. Raises ValueError that names the first file that differs.
    """
    manifest = rows_on_disk.read_manifest(folder)
    rows_on_disk.check_sums(folder, manifest)
    return manifest


def prepared_otherwise(section, folder):
    """What the rows in a folder were prepared with, and a config's `prepare` asks for
    otherwise, each in words. What that leaves out, or leaves empty, asks for nothing."""
    before = _flat(rows_on_disk.read_manifest(folder)['settings'])
    now = _flat(json.loads(json.dumps(section)))
    name = now.pop('tokenizer', None)
    path = tokenizers.BUNDLED if name == 'bundled' else pathlib.Path(name or '')
    if path.is_file():
        now['tokenizer'] = tokenizers.load(path).fingerprint
    return [
        f'{key} was {before.get(key)!r} and is now {value!r}'
        for key, value in now.items()
        if value not in ('', None) and value != before.get(key)
    ]


def _flat(settings):
    source = settings.get('source') or {}
    source = {f'source.{key}': value for key, value in source.items()}
    return {key: value for key, value in settings.items() if key != 'source'} | source


def check_tokenizer(manifest, tokenizer):
    """Raises ValueError when the rows were made with another tokenizer."""
    if tokenizer.fingerprint != manifest['tokenizer_fingerprint']:
        raise ValueError(
            f'The rows were made with another tokenizer: theirs has the fingerprint '
            f'{manifest["tokenizer_fingerprint"][:16]}... and {manifest["vocab_size"]} '
            f'entries, this one {tokenizer.fingerprint[:16]}... and '
            f'{tokenizer.vocab_size}. Use the tokenizer.json in the folder of the rows, '
            'or prepare the rows again.'
        )


def check_row_length(manifest, length):
    """Raises ValueError when the rows are not of the length that the config asks for."""
    if manifest['row_length'] != length:
        raise ValueError(
            f'The rows have {manifest["row_length"]} tokens, the config asks for '
            f'{length}. Set config.data.row_length={manifest["row_length"]}, or prepare '
            f'rows of {length} in another folder.'
        )


def fingerprint(rows, batch_size, seed):
    """What a step number means, in 48 hex digits: 16 each for rows, batch size, seed."""
    parts = (rows.fingerprint, batch_size, seed)
    digests = (hashlib.sha256(repr(part).encode()).hexdigest() for part in parts)
    return ''.join(digest[:16] for digest in digests)


def check_fingerprint(saved, now):
    """Raises ValueError in words when a checkpoint was trained on another stream."""
    if saved == now:
        return
    names = ('rows', 'batch size', 'seed')
    spans = [slice(start, start + 16) for start in (0, 16, 32)]
    changed = [name for name, span in zip(names, spans) if saved[span] != now[span]]
    raise ValueError(
        'This checkpoint was trained on another stream of data: other '
        f'{" and other ".join(changed)} (fingerprint {saved}, now {now}). To resume, use '
        'what it was started with; to start anew from its weights, take a new workdir.'
    )


def batches(
    rows,
    corrupt,
    *,
    batch_size,
    seed,
    start=0,
    process_index=0,
    process_count=1,
    threads=None,
):
    """Endless batches of this process from step `start` on: dicts of [B / P, ...].

    `corrupt(row, rng, step)` gets a generator of (seed, position in the stream), and the
    step whose batch the row is in. Close the
    iterator when done. Raises ValueError for a batch size that the processes cannot
    share evenly.
    """
    local = _local_batch_size(batch_size, process_index, process_count)
    if start < 0 or seed < 0:
        raise ValueError(f'start={start} and seed={seed} must not be negative.')
    corrupt_at = functools.partial(_corrupt_at, corrupt, seed, batch_size)
    dataset = (
        grain.MapDataset.source(rows)
        .seed(seed)
        .shuffle()
        .repeat()
        .map_with_index(corrupt_at)
        # An endless stream has no remainder, but its rounded-up length would overflow.
        .batch(local, drop_remainder=True)
    )
    # Only the batches that are asked for are read: a slice costs nothing.
    dataset = dataset[process_index + start * process_count :: process_count]
    threads = threads or min(4, _cores())
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=2 * threads)
    return _iterate(dataset.to_iter_dataset(options))


def _iterate(dataset):
    iterator = iter(dataset)
    try:
        yield from iterator
    finally:
        iterator.close()


def heldout_batches(
    rows, corrupt, *, batch_size, seed, max_rows=None, process_index=0, process_count=1
):
    """One pass over the rows (or the first `max_rows`) in order, in full batches.

    The last batch is filled up with rows of zeros: segment_ids 0, masks False. The
    generator of row i is that of (seed, i), the same in every pass.
    """
    local = _local_batch_size(batch_size, process_index, process_count)
    count = len(rows) if max_rows is None else min(max_rows, len(rows))
    first = process_index * local
    for begin in range(first, count + first, batch_size):
        indices = range(begin, min(begin + local, count))
        # A process whose part of the last batch is empty needs the shapes all the same.
        examples = [_corrupt_at(corrupt, seed, count, i, rows[i]) for i in indices]
        like = examples[0] if examples else _corrupt_at(corrupt, seed, count, 0, rows[0])
        blank = {key: np.zeros_like(value) for key, value in like.items()}
        examples += [blank] * (local - len(examples))
        yield {key: np.stack([example[key] for example in examples]) for key in blank}


def _corrupt_at(corrupt, seed, batch_size, position, row):
    rng = np.random.default_rng([seed, position])
    return corrupt(row, rng, position // batch_size)


def _local_batch_size(batch_size, process_index, process_count):
    if batch_size < 1 or batch_size % process_count:
        raise ValueError(
            f'batch_size {batch_size} cannot be shared evenly by {process_count} '
            f'processes. Take a multiple of {process_count}.'
        )
    if not 0 <= process_index < process_count:
        raise ValueError(
            f'process_index {process_index} must be from 0 to {process_count - 1}.'
        )
    return batch_size // process_count


def _cores():
    """Cores that this process may use (a container often has fewer than the machine)."""
    if hasattr(os, 'sched_getaffinity'):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
