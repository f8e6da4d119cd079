"""Three sentences in a row that stand earlier in the corpus: the last of C4's rules.

    earlier   a b c d     spans abc bcd         stays   a b c d
    later     x b c d y   spans xbc bcd cdy     stays   x       y

"We discarded all but one of any three-sentence span occurring more than once in the data
set" (Raffel et al. 2020, section 2.2). The one that stays is the first in the corpus: by
the number of its part, of the document, and its own. A sentence that falls in a span that
goes is left out, and stands in an earlier document, or earlier in this one. Case and
white space do not count.

A part writes the hashes of its spans beside the fingerprints of its documents, 16 bytes
each; `decide` sorts them into files by hash, so that equal ones meet in memory.
"""

import hashlib

import numpy as np

from jepa_text.data.cleaning import buckets, c4
from jepa_text.files import atomic

LENGTH = 3  # sentences
SPAN = np.dtype([('hash', '<u8'), ('document', '<u4'), ('index', '<u4')])
PLACED = np.dtype([*SPAN.descr, ('part', '<u4')])
REPEATED = np.dtype([('document', '<u4'), ('index', '<u4')])
ROW_BYTES = 96  # of an entry, while it is sorted
REASON, NOTE = 'c4: repeated sentences', 'c4: repeated sentences left out'


def of_text(text):
    """uint64 [spans]: the hash of each of a text, in order."""
    sentences = [' '.join(one.lower().split()) for line in _lines(text) for one in line]
    joined = ('\n'.join(sentences[i : i + LENGTH]) for i in range(len(sentences) - 2))
    digests = [hashlib.blake2b(one.encode(), digest_size=8).digest() for one in joined]
    return np.frombuffer(b''.join(digests), '<u8')


def without(text, spans):
    """The text without the sentences of the spans of these numbers; '' if it is left with
    fewer sentences than C4 wants."""
    gone = {number + offset for number in spans for offset in range(LENGTH)}
    kept, place, count = [], 0, 0
    for line in _lines(text):
        stays = [one for i, one in enumerate(line, place) if i not in gone]
        place, count = place + len(line), count + len(stays)
        kept.append(''.join(stays).strip())
    if count < c4.MIN_SENTENCES:
        return ''
    return '\n'.join(line for line in kept if line)


def records(number, text):
    """SPAN [spans] of a document of this number in its part."""
    hashes = of_text(text)
    made = np.empty(len(hashes), SPAN)
    made['hash'], made['document'], made['index'] = hashes, number, range(len(hashes))
    return made


def decide(parts, out, scratch, memory):
    """Writes which spans of each of the fingerprints.Part are repeated, and returns how
    many; `out` are functions that give the documents of each that are left out as copies.

    At most about `memory` bytes are held. What is written is the same whenever it runs.
    """
    room = max(memory // ROW_BYTES, 1)
    total = sum(len(part.spans()) for part in parts)
    bits = buckets.bits_for(total, room)
    found = buckets.Buckets(scratch, 'spans', PLACED)
    repeated = buckets.Buckets(scratch, 'repeated', REPEATED)
    for part, numbers in zip(parts, out, strict=True):
        spans, left_out = part.spans(), numbers()
        for start in range(0, len(spans), room):
            some = spans[start : start + room]
            placed = np.empty(len(some), PLACED)
            for name in SPAN.names:
                placed[name] = some[name]
            placed['part'] = part.number
            # What is in a document that goes is no first one.
            placed = placed[~np.isin(placed['document'], left_out)]
            # So that a span with many copies fills no bucket.
            first, later = _apart(placed)
            found.append(buckets.first_bits(first['hash'], bits), first)
            _add(repeated, later)
    for number in range(2**bits):
        _add(repeated, _apart(found.read_all(number))[1])
        found.delete(number)
    return sum(_write(part, repeated) for part in parts)


def _apart(placed):
    """(the first entry of each hash, the others), by hash."""
    keys = ('index', 'document', 'part', 'hash')
    ordered = placed[np.lexsort([placed[key] for key in keys])]
    again = np.zeros(len(ordered), bool)
    again[1:] = ordered['hash'][1:] == ordered['hash'][:-1]
    return ordered[~again], ordered[again]


def _add(repeated, placed):
    made = np.empty(len(placed), REPEATED)
    for name in REPEATED.names:
        made[name] = placed[name]
    if len(made):
        repeated.append(placed['part'].astype(np.int64), made)


def _write(part, repeated):
    """Writes the repeated spans of a part, in order; returns how many."""
    mine = repeated.read_all(part.number)
    mine = mine[np.lexsort([mine['index'], mine['document']])]
    atomic.write(part.path('repeated'), mine.tobytes())
    repeated.delete(part.number)
    return len(mine)


def repeated(part):
    """{number of a document: numbers of its spans that are repeated} of a
    fingerprints.Part; FileNotFoundError before `decide` has run."""
    mine = np.frombuffer(part.path('repeated').read_bytes(), REPEATED)
    if not len(mine):
        return {}
    numbers, starts = np.unique(mine['document'], return_index=True)
    groups = np.split(mine['index'], starts[1:])
    return {int(n): some.tolist() for n, some in zip(numbers, groups)}


def _lines(text):
    """The sentences of each line, which together are the line."""
    for line in text.split('\n'):
        ends = [found.end() for found in c4.BOUNDARY.finditer(line)]
        cuts = [0, *ends, len(line)]
        yield [line[a:b] for a, b in zip(cuts, cuts[1:]) if b > a]
