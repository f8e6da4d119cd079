"""A sample of a corpus on disk: documents chosen by the hash of their text.

The sample of at most `size` bytes is

    all documents whose h(text) < t,      h = sha256 as a number in [0, 1),

with the largest t of 1, 2^(-1/8), 2^(-2/8), ... for which they fit. So it depends on
which documents there are and on nothing else: neither on their order nor on how they lie
in files. A document goes to the file of its step of t, and the step that no longer fits
is deleted: memory holds one document, the disk `size` bytes and one document. Of a very
long document only the beginning is taken, so that none takes the place of all others.
"""

import contextlib
import dataclasses
import errno
import hashlib
import math
import pathlib

STEPS = 8  # of t, each time it halves
LAST = 25 * STEPS  # so many files are open at once
PARTS = 16  # of the sample: what one document may take


@dataclasses.dataclass(frozen=True)
class Sample:
    """Texts on disk, read anew whenever one iterates, and what they are a sample of.

    documents   in the sample; of these, `cut` are there with their beginning only
    bytes       in UTF-8
    share       the t above: that of the documents read which is in the sample
    read        {'documents', 'bytes'} that were read
    is_all      was the corpus read to its end?
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
        """The counts, for a report."""
        return {key: value for key, value in vars(self).items() if key != 'folder'}


def draw(texts, folder, size, limit=0):
    """The Sample of at most `size` bytes of some texts, in files of a new folder.

    Blank texts are left out. Reading ends after `limit` bytes, if not 0. Raises OSError
    for a full disk.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    steps, first, read, is_all = {}, 0, {'documents': 0, 'bytes': 0}, True
    with _clear_disk_errors(folder), contextlib.ExitStack() as opened:
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
    documents, cut, kept = map(sum, zip((0, 0, 0), *counts))
    return Sample(folder, documents, cut, kept, 2 ** (-first / STEPS), read, is_all)


def _step(data):
    """The first step of t at which a document falls out, from 0 on."""
    # Other bytes of the hash than those that say what is held out.
    number = int.from_bytes(hashlib.sha256(data).digest()[-8:], 'little')
    return min(LAST, math.floor(-STEPS * math.log2((number + 1) / 2**64)))


class _Step:
    """The documents of a step of t, in a file."""

    def __init__(self, file, path):
        self._file, self._path = file, path
        self.documents = self.cut = self.bytes = 0

    def add(self, data, longest):
        if len(data) > longest:
            # A character may be cut, too: what is left of it is dropped.
            data = data[:longest].decode('utf-8', 'ignore').encode('utf-8')
            self.cut += 1
        self._file.write(len(data).to_bytes(8, 'little') + data)
        self.documents, self.bytes = self.documents + 1, self.bytes + len(data)

    def delete(self):
        self._file.close()
        self._path.unlink()


@contextlib.contextmanager
def _clear_disk_errors(folder):
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OSError(
            error.errno,
            f'The disk of {folder} was full while a sample of the corpus was written '
            f'there ({error.strerror}). Free some space, name a workdir on another disk, '
            'or take a smaller sample (sample.bytes).',
        ) from error
