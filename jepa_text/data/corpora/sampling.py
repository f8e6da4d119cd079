"""Random samples of a corpus in memory, chosen by the hashes of the texts.

The sample of at most `size` bytes is

    all documents whose h(text) < t,      h = sha256 as a number in [0, 1),

with the largest t for which they fit. So it depends only on the set of documents, not on
their order or on the layout of files. Memory is bounded by `size` bytes and one document:
what no longer fits as t falls is dropped. A very long document is truncated, so that it
does not displace all others.
"""

import dataclasses
import hashlib
import heapq

PARTS = 16  # a document takes at most 1 / PARTS of the sample


@dataclasses.dataclass(frozen=True)
class Sample:
    """A sample of texts, as UTF-8; `share` is t above, the expected share of documents
    that is in it, `read` are the bytes that were read, of all if `is_all`."""

    texts: list = dataclasses.field(repr=False, compare=False)
    documents: int
    bytes: int
    share: float
    read: int
    is_all: bool

    def __iter__(self):
        return (data.decode('utf-8') for data in self.texts)

    def about(self):
        return {key: value for key, value in vars(self).items() if key != 'texts'}


def draw(texts, size, limit=0, is_wanted=None):
    """Returns a Sample of at most `size` bytes of some texts.

    Skips blank texts and those that are not `is_wanted(text)`, if given. Stops reading
    after `limit` bytes, also of these, unless it is 0.
    """
    # [(-hash, UTF-8), ...]: the largest hash is the first to be dropped.
    kept, below, used, read, is_all = [], 2**64, 0, 0, True
    for text in texts:
        if not text or text.isspace():
            continue
        if limit and read >= limit:
            is_all = False
            break
        data = text.encode('utf-8')
        read += len(data)
        if is_wanted and not is_wanted(text):
            continue
        # The last bytes of the hash, as the first ones decide what is held out.
        number = int.from_bytes(hashlib.sha256(data).digest()[-8:], 'little')
        if number >= below:
            continue
        # A character that is cut in the middle is dropped.
        data = data[: max(1, size // PARTS)].decode('utf-8', 'ignore').encode('utf-8')
        heapq.heappush(kept, (-number, data))
        used += len(data)
        while used > size:
            number, data = heapq.heappop(kept)
            below, used = -number, used - len(data)
    chosen = [data for _, data in sorted(kept, reverse=True)]
    return Sample(chosen, len(chosen), used, below / 2**64, read, is_all)
