"""Document fingerprints, stored until all documents are known: hashes and MinHash.

The parts of a corpus write their files into one shared folder, from any process and in
any order:

    000012.signatures    uint32 [documents, permutations], for near duplicates only
    000012.spans         spans.SPAN [spans], for repeated spans only
    000012.documents     DOCUMENT [documents]; exists once the part is complete

The caller numbers the documents of a part in ascending order.
"""

import hashlib
import os
from pathlib import Path

import numpy as np

from jepa_text.data.cleaning import minhash, spans
from jepa_text.data.corpora import invalid_text

# The 128-bit hash as two halves, so that it can be sorted.
DOCUMENT = np.dtype([('number', '<i8'), ('high', '<u8'), ('low', '<u8')])
SIGNATURE = np.dtype('<u4')
BUFFERED, CHARACTERS = 1024, 2**20  # documents and their characters held at a time


class Writer:
    """Writes the fingerprints of one part: `with Writer(...) as writer: writer.add(...)`.

    The files appear when the block ends without an error, and replace those of an earlier
    attempt.
    """

    def __init__(self, folder, part, config):
        """`part` is its number, `config` a settings.Config with `finds_duplicates`."""
        self._final = {end: _file(folder, part, end) for end in _ends(config)}
        self._partial = {
            end: path.with_name(f'.{path.name}.partial')
            for end, path in self._final.items()
        }
        self._config = config
        self._last = -1

    def __enter__(self):
        self._files = {end: path.open('wb') for end, path in self._partial.items()}
        self._documents, self._texts, self._characters = [], [], 0
        return self

    def add(self, number, text):
        """Adds the cleaned text of a document by its number in the part. Raises
        ValueError unless numbers ascend."""
        if number <= self._last:
            raise ValueError(
                f'Document {number} follows document {self._last}: the numbers within a '
                'part must ascend.'
            )
        self._last = number
        self._documents.append((number, *_halves(text)))
        self._characters += len(text)
        if 'signatures' in self._files:
            self._texts.append(text)
        if 'spans' in self._files:
            self._files['spans'].write(spans.records(number, text).tobytes())
        if len(self._documents) >= BUFFERED or self._characters >= CHARACTERS:
            self._flush()

    def _flush(self):
        if self._documents:
            documents = np.array(self._documents, DOCUMENT)
            self._files['documents'].write(documents.tobytes())
            if self._texts:
                config = self._config
                found = minhash.of_texts(self._texts, config.ngram, config.permutations)
                self._files['signatures'].write(found.astype(SIGNATURE).tobytes())
        self._documents, self._texts, self._characters = [], [], 0

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self._flush()
                for file in self._files.values():
                    file.flush()
                    os.fsync(file.fileno())
        finally:
            for file in self._files.values():
                file.close()
        if kind is not None:
            for path in self._partial.values():
                path.unlink(missing_ok=True)
            return
        # The documents file is renamed last: it marks the part as complete.
        for end, final in self._final.items():
            os.replace(self._partial[end], final)


class Part:
    """The fingerprints of one part, read on demand."""

    def __init__(self, folder, number):
        """Raises ValueError if the documents file is damaged."""
        self.number, self._folder = number, folder
        self.documents = _open(self.path('documents'), DOCUMENT)
        self.count = len(self.documents)

    def path(self, end):
        """The path of the part's file with this suffix."""
        return _file(self._folder, self.number, end)

    def spans(self):
        """spans.SPAN [spans], memory-mapped."""
        return _open(self.path('spans'), spans.SPAN)

    def signatures(self, permutations):
        """uint32 [documents, permutations], memory-mapped. Raises ValueError if the file
        has another size."""
        path = self.path('signatures')
        found, expected = _open(path, SIGNATURE), self.count * permutations
        if len(found) != expected:
            raise ValueError(
                f'{path} has {len(found):,} numbers; {self.count:,} documents of '
                f'{permutations} permutations need {expected:,}. Delete {path.parent} '
                'and start over.'
            )
        return found.reshape(self.count, permutations)


def is_complete(folder, part):
    """Whether a part has written all its fingerprints."""
    return _file(folder, part, 'documents').exists()


def _halves(text):
    """The two halves of a text's 128-bit hash."""
    digest = hashlib.blake2b(digest_size=16)
    for part in invalid_text.encoded(text):
        digest.update(part)
    found = digest.digest()
    return int.from_bytes(found[:8], 'big'), int.from_bytes(found[8:], 'big')


def _file(folder, part, end):
    return Path(folder) / f'{part:06d}.{end}'


def _ends(config):
    """The suffixes of the files of a part, the documents file last."""
    more = {'signatures': config.near_duplicates > 0, 'spans': config.repeated_spans}
    return (*(end for end, is_wanted in more.items() if is_wanted), 'documents')


def _open(path, dtype):
    """Memory-maps a file read-only; an empty file, which cannot be mapped, is read."""
    size = path.stat().st_size
    if size % dtype.itemsize:
        raise ValueError(
            f'{path} has {size:,} bytes, no multiple of {dtype.itemsize}: it is damaged. '
            f'Delete {path.parent} and start over.'
        )
    return np.memmap(path, dtype, 'r') if size else np.zeros(0, dtype)
