"""Writing of one split of a unit: documents to windows, packed and shuffled, to shards.

    ids --> window of some millions of tokens --packed, shuffled--> rows --> shards

So memory is bounded however long the unit is. The output depends only on the documents,
the settings and the unit's number.
"""

import collections
import hashlib
import os

import numpy as np
from array_record.python import array_record_module

from jepa_text.data.rows import packing, row_folder
from jepa_text.files import atomic

WINDOW = 2**24  # tokens
SAMPLED = 16  # words are counted in one document in SAMPLED
COUNTED = ('documents', 'bytes', 'sampled_words', 'sampled_tokens', 'tokens', 'rows')


class Writer:
    """Writes at most `share` shards of a split into a folder.

    `seed` is a list of integers that seeds the order of rows; the last is the unit's
    number.
    """

    def __init__(self, folder, split, seed, share, tokenizer, settings):
        self._folder, self._split, self._share = folder, split, share
        self._seed, self._pad_id = seed, tokenizer.pad_id
        self._length, self._pack = settings['row_length'], settings['packing']
        self._dtype = row_folder.dtype_for(tokenizer.vocab_size, self._length)
        self._before = np.array([tokenizer.bos_id] * settings['add_bos'], self._dtype)
        self._after = np.array([tokenizer.eos_id] * settings['add_eos'], self._dtype)
        self._ids, self._lengths, self._pending = bytearray(), [], 0
        self._digest, self._writers, self._windows = hashlib.sha256(), [], 0
        self._counts = collections.Counter(dict.fromkeys(COUNTED, 0))
        self._histogram = np.zeros(64, np.int64)
        self._max_documents = 0

    def add(self, text, ids):
        data = text.encode('utf-8')
        self._digest.update(data + b'\0')
        if self._counts['documents'] % SAMPLED == 0:
            words = len(text.split())
            self._counts.update(sampled_words=words, sampled_tokens=len(ids))
        self._counts.update(documents=1, bytes=len(data))
        for part in (self._before, ids.astype(self._dtype), self._after):
            self._ids.extend(part.tobytes())
        self._lengths.append(len(self._before) + len(ids) + len(self._after))
        self._pending += self._lengths[-1]
        if self._pending >= WINDOW:
            self._write()

    def _write(self):
        """Packs the pending documents, and distributes their shuffled rows to shards."""
        ids = np.frombuffer(self._ids, self._dtype)
        lengths = np.array(self._lengths, np.int64)
        self._ids, self._lengths, self._pending = bytearray(), [], 0
        rng = np.random.default_rng([*self._seed, self._windows])
        packed = packing.PACKINGS[self._pack](lengths, self._length, rng)
        # Packing puts full rows first; after shuffling, all shards are alike and the
        # first n rows are a fair sample.
        order = rng.permutation(len(packed))
        self._windows += 1
        if not self._writers:
            self._writers = [
                _Shard(self._folder / f'{self._split}.{self._seed[-1]}.{number}')
                for number in range(min(self._share, len(order)))
            ]
        starts = np.cumsum(lengths) - lengths
        for writer, part in zip(
            self._writers, np.array_split(order, len(self._writers)), strict=True
        ):
            writer.extend(
                row_folder.records(ids, starts, packed, part, self._pad_id, self._length)
            )
        self._counts.update(tokens=int(packed.length.sum()), rows=len(packed))
        largest = int(np.diff(packed.splits).max())
        self._max_documents = max(self._max_documents, largest)
        self._histogram += np.bincount(np.frexp(lengths)[1] - 1, minlength=64)

    def close(self, first, count):
        """Writes the rest, and returns the counts and files of the split: its shards from
        number `first` of `count`."""
        if self._lengths:
            self._write()
        # A corpus of a single unit gets no more shards than rows.
        if first == 0 and count == self._share:
            count = max(len(self._writers), 1)
        files = []
        for number, writer in enumerate(self._writers):
            name = f'{self._split}-{first + number:05d}-of-{count:05d}.array_record'
            writer.close(name)
            files.append(row_folder.entry(self._folder / name) | {'rows': writer.rows})
        return {
            **self._counts,
            'lengths': np.trim_zeros(self._histogram, 'b').tolist(),
            # Of a row; pieces of documents count.
            'max_documents': self._max_documents,
            'text_sha256': self._digest.hexdigest(),
            'files': files,
        }


class _Shard:
    """Writes records to an ArrayRecord file, each readable by itself.

    `rows` counts them. The file has a temporary name until `close` renames it.
    """

    def __init__(self, path):
        self._path, self.rows = path.with_name(f'.{path.name}'), 0
        self._writer = array_record_module.ArrayRecordWriter(
            os.fspath(self._path), 'group_size:1'
        )

    def extend(self, records):
        for record in records:
            self._writer.write(record)
            self.rows += 1

    def close(self, name):
        self._writer.close()
        atomic.flush(self._path)
        os.replace(self._path, self._path.with_name(name))
