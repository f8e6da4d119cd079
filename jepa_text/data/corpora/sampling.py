"""Random samples of a corpus in memory, chosen by the hashes of the texts.

The sample of at most `size` bytes is

    all documents whose h(text) < t,      h = sha256 as a number in [0, 1),

with the largest t of 1, 2^(-1/8), 2^(-2/8), ... for which they fit. So it depends only on
the set of documents, not on their order or on the layout of files. Memory is bounded by
`size` bytes and one document: what no longer fits as t falls is dropped. A very long
document is truncated, so that it does not displace all others.
"""

import collections
import dataclasses
import hashlib
import math

STEPS = 8  # of t, per halving
LAST = 25 * STEPS  # the last step
PARTS = 16  # a document takes at most 1 / PARTS of the sample


@dataclasses.dataclass(frozen=True)
class Sample:
    """A sample of texts.

    texts       their UTF-8
    documents   in the sample, of which `cut` are truncated
    bytes       of UTF-8
    share       t above: the expected share of documents that is in the sample
    read        {'documents', 'bytes'} that were read
    is_all      whether the corpus was read to its end
    """

    texts: list = dataclasses.field(repr=False, compare=False)
    documents: int
    cut: int
    bytes: int
    share: float
    read: dict
    is_all: bool

    def __iter__(self):
        return (data.decode('utf-8') for data in self.texts)

    def about(self):
        """Returns the counts, for a report."""
        return {key: value for key, value in vars(self).items() if key != 'texts'}


def draw(texts, size, limit=0):
    """Returns a Sample of at most `size` bytes of some texts.

    Skips blank texts, and stops reading after `limit` bytes unless it is 0.
    """
    # {step of t: [(UTF-8, whether it is truncated), ...]}
    steps, first, used = collections.defaultdict(list), 0, 0
    read, is_all, longest = {'documents': 0, 'bytes': 0}, True, max(1, size // PARTS)
    for text in texts:
        if not text or text.isspace():
            continue
        if limit and read['bytes'] >= limit:
            is_all = False
            break
        data = text.encode('utf-8')
        read['documents'] += 1
        read['bytes'] += len(data)
        number, is_cut = _step(data), len(data) > longest
        if number < first:
            continue
        if is_cut:
            # A character that was cut in the middle is dropped.
            data = data[:longest].decode('utf-8', 'ignore').encode('utf-8')
        steps[number].append((data, is_cut))
        used += len(data)
        while used > size:
            first = min(steps) + 1
            used -= sum(len(data) for data, _ in steps.pop(first - 1))
    kept = [pair for number in sorted(steps) for pair in steps[number]]
    return Sample(
        texts=[data for data, _ in kept],
        documents=len(kept),
        cut=sum(is_cut for _, is_cut in kept),
        bytes=used,
        share=2 ** (-first / STEPS),
        read=read,
        is_all=is_all,
    )


def _step(data):
    """The last step of t, from 0, at which a document is in the sample."""
    # The last bytes of the hash, as the first ones decide what is held out.
    number = int.from_bytes(hashlib.sha256(data).digest()[-8:], 'little')
    return min(LAST, math.floor(-STEPS * math.log2((number + 1) / 2**64)))
