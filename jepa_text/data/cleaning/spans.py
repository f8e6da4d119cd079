"""Repeated spans of three sentences, removed across a corpus: the last of C4's rules.

    earlier   a b c d     spans abc bcd         kept   a b c d
    later     x b c d y   spans xbc bcd cdy     kept   x       y

"We discarded all but one of any three-sentence span occurring more than once in the data
set" (Raffel et al. 2020, section 2.2). The first in corpus order is kept: by the number
of its part, of the document, and its own. All sentences of a repeated span are removed;
they still occur earlier in the corpus or in the same document, unless too few sentences
of an earlier document remain and it is dropped. Case and whitespace are ignored.

A part stores the hashes of its spans alongside the fingerprints of its documents, 16
bytes each; `decide` partitions them into files by hash, so that equal hashes can be
compared in memory.
"""

import hashlib

import numpy as np

from jepa_text.data.cleaning import buckets, c4
from jepa_text.files import atomic

LENGTH = 3  # sentences
SPAN = np.dtype([('hash', '<u8'), ('document', '<u4'), ('index', '<u4')])
PLACED = np.dtype([*SPAN.descr, ('part', '<u4')])
REPEATED = np.dtype([('document', '<u4'), ('index', '<u4')])
ROW_BYTES = 96  # memory per entry while sorting
REASON, NOTE = 'c4: repeated sentences', 'c4: repeated sentences left out'


def of_text(text):
    """Returns uint64 [spans], the hash of each span of a text, in order."""
    sentences = [' '.join(one.lower().split()) for line in _lines(text) for one in line]
    joined = ('\n'.join(sentences[i : i + LENGTH]) for i in range(len(sentences) - 2))
    digests = [hashlib.blake2b(one.encode(), digest_size=8).digest() for one in joined]
    return np.frombuffer(b''.join(digests), '<u8')


def remove(text, spans):
    """Returns the text without the sentences of the spans with these numbers; '' if fewer
    sentences remain than C4 requires."""
    removed = {number + offset for number in spans for offset in range(LENGTH)}
    lines, first, count = [], 0, 0
    for line in _lines(text):
        kept = [sentence for i, sentence in enumerate(line, first) if i not in removed]
        first, count = first + len(line), count + len(kept)
        lines.append(''.join(kept).strip())
    if count < c4.MIN_SENTENCES:
        return ''
    return '\n'.join(filter(None, lines))


def records(number, text):
    """Returns SPAN [spans] of a document with this number in its part."""
    hashes = of_text(text)
    found = np.empty(len(hashes), SPAN)
    found['hash'], found['document'], found['index'] = hashes, number, range(len(hashes))
    return found


def decide(parts, out, scratch, memory):
    """Writes which spans of each fingerprints.Part are repeated.

    `out` has a function for each part that returns the numbers of its dropped documents,
    whose spans are ignored. Uses about `memory` bytes at most. Running it again writes
    the same files.
    """
    room = max(memory // ROW_BYTES, 1)
    total = sum(len(part.spans()) for part in parts)
    bits = buckets.bits_for(total, room)
    found = buckets.Buckets(scratch, 'spans', PLACED)
    repeated = buckets.Buckets(scratch, 'repeated', REPEATED)
    for part, numbers in zip(parts, out, strict=True):
        spans, left_out = part.spans(), numbers()
        for start in range(0, len(spans), room):
            chunk = spans[start : start + room]
            placed = np.empty(len(chunk), PLACED)
            for name in SPAN.names:
                placed[name] = chunk[name]
            placed['part'] = part.number
            # A span in a dropped document is not a first occurrence.
            placed = placed[~np.isin(placed['document'], left_out)]
            # Splitting early keeps a span with many copies from filling a bucket.
            first, later = _split(placed)
            found.append(buckets.first_bits(first['hash'], bits), first)
            _add(repeated, later)
    for number in range(2**bits):
        _add(repeated, _split(found.read_all(number))[1])
        found.delete(number)
    for part in parts:
        _write(part, repeated)


def _split(placed):
    return buckets.split_repeats(placed, ('hash',), ('part', 'document', 'index'))


def _add(repeated, placed):
    if len(placed):
        entries = np.empty(len(placed), REPEATED)
        for name in REPEATED.names:
            entries[name] = placed[name]
        repeated.append(placed['part'].astype(np.int64), entries)


def _write(part, repeated):
    """Writes the repeated spans of a part in order."""
    entries = repeated.read_all(part.number)
    entries = entries[np.lexsort([entries['index'], entries['document']])]
    atomic.write(part.path('repeated'), entries.tobytes())
    repeated.delete(part.number)


def repeated(part):
    """Returns {document number: numbers of its repeated spans} of a fingerprints.Part.
    Raises FileNotFoundError before `decide` has run."""
    entries = np.frombuffer(part.path('repeated').read_bytes(), REPEATED)
    if not len(entries):
        return {}
    numbers, starts = np.unique(entries['document'], return_index=True)
    groups = np.split(entries['index'], starts[1:])
    return {int(number): group.tolist() for number, group in zip(numbers, groups)}


def _lines(text):
    """Yields the sentences of each line; joined, they are the line."""
    for line in text.split('\n'):
        ends = [found.end() for found in c4.BOUNDARY.finditer(line)]
        cuts = [0, *ends, len(line)]
        yield [line[a:b] for a, b in zip(cuts, cuts[1:]) if b > a]
