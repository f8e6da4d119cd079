"""Random samples of a corpus on disk, chosen by the hashes of the texts.

The sample of at most `size` bytes is

    all documents whose h(text) < t,      h = sha256 as a number in [0, 1),

with the largest t of 1, 2^(-1/8), 2^(-2/8), ... for which they fit. So it depends only on
the set of documents, not on their order or on the layout of files. A document is written
to the file of its step of t, and the file of a step that no longer fits is deleted:
memory is bounded by one document, the disk by `size` bytes and one document. A very long
document is truncated, so that it does not displace all others.
"""

import contextlib
import dataclasses
import hashlib
import math
import pathlib

from jepa_text.data.rows import shards

STEPS = 8  # of t, per halving
LAST = 25 * STEPS  # the last step; one file per step is open
PARTS = 16  # a document takes at most 1 / PARTS of the sample


@dataclasses.dataclass(frozen=True)
class Sample:
    """A sample of texts on disk, read again on each iteration.

    documents   in the sample, of which `cut` are truncated
    bytes       of UTF-8
    share       t above: the expected share of documents that is in the sample
    read        {'documents', 'bytes'} that were read
    is_all      whether the corpus was read to its end
    """

    folder: pathlib.Path
    documents: int
    cut: int
    bytes: int
    share: float
    read: dict
    is_all: bool

    def __iter__(self):
        for path in sorted(self.folder.iterdir()):
            with path.open('rb') as file:
                while head := file.read(8):
                    yield file.read(int.from_bytes(head, 'little')).decode('utf-8')

    def about(self):
        """Returns the counts, for a report."""
        return {key: value for key, value in vars(self).items() if key != 'folder'}


def draw(texts, folder, size, limit=0):
    """Writes a Sample of at most `size` bytes of some texts to files in a new folder.

    Skips blank texts, and stops reading after `limit` bytes unless it is 0. Raises
    OSError if the disk is full.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    steps, first, read, is_all = {}, 0, {'documents': 0, 'bytes': 0}, True
    with shards.clear_disk_errors(folder), contextlib.ExitStack() as opened:
        for text in texts:
            if not text or text.isspace():
                continue
            if limit and read['bytes'] >= limit:
                is_all = False
                break
            data = text.encode('utf-8')
            read['documents'] += 1
            read['bytes'] += len(data)
            number = _step(data)
            if number < first:
                continue
            if number not in steps:
                path = folder / f'{number:03}'
                steps[number] = _Step(opened.enter_context(path.open('wb')), path)
            steps[number].add(data, max(1, size // PARTS))
            while sum(step.bytes for step in steps.values()) > size:
                first = min(steps) + 1
                steps.pop(first - 1).delete()
    counts = [(step.documents, step.cut, step.bytes) for step in steps.values()]
    documents, cut, size = map(sum, zip((0, 0, 0), *counts))
    return Sample(folder, documents, cut, size, 2 ** (-first / STEPS), read, is_all)


def _step(data):
    """The last step of t, from 0, at which a document is in the sample."""
    # The last bytes of the hash, as the first ones decide what is held out.
    number = int.from_bytes(hashlib.sha256(data).digest()[-8:], 'little')
    return min(LAST, math.floor(-STEPS * math.log2((number + 1) / 2**64)))


class _Step:
    """The documents of one step of t, in a file."""

    def __init__(self, file, path):
        self._file, self._path = file, path
        self.documents = self.cut = self.bytes = 0

    def add(self, data, longest):
        if len(data) > longest:
            # A character that was cut in the middle is dropped.
            data = data[:longest].decode('utf-8', 'ignore').encode('utf-8')
            self.cut += 1
        self._file.write(len(data).to_bytes(8, 'little') + data)
        self.documents, self.bytes = self.documents + 1, self.bytes + len(data)

    def delete(self):
        self._file.close()
        self._path.unlink()
