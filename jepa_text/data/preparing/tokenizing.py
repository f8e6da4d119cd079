"""Documents to token arrays, in bounded memory however long one of them is.

The `tokenizers` library holds some 170 bytes for each character that it encodes at once.
So a long document goes through it in pieces, cut where no word reaches over:

    ... and the sea| and the whale ...      after a letter or a digit, before white space
    ... 城市在海边|。鲸鱼 ...                   or else before a mark

A tokenizer with a pre-tokenizer looks at one word at a time, and these places lie between
two. That is not taken on trust: each cut is tried on the text around it, where

    words(left + right) = words(left) + words(right), and so their ids,

must hold, or another place is looked for. Without a pre-tokenizer nothing is cut.
"""

import re
from concurrent import futures

import numpy as np

# Characters: of what is encoded at once, so that all cores have work; of a piece, from
# which on a cut is looked for, and within which there must be one; around a cut.
BATCH, PIECE, LONGEST, AROUND = 1_000_000, 65_536, 1_000_000, 256
# Before an apostrophe a word may go on.
PLACES = (
    re.compile(r'(?<=[^\W_])(?=\s)'),
    re.compile(r'(?<=[^\W_])(?=[.,;:!?)。、，；：！？」』）])'),
)
TRIES = 32


def encoded(documents, tokenizer):
    """(document, its ids) of each dict with a `text`, in order; ids int32, no specials.

    While one batch is encoded, by all cores, the next one is read. Raises ValueError for
    a long document in which no place can be cut.
    """
    parts = []
    for batch, ids_of_pieces in _ahead(_batched(documents, tokenizer), tokenizer):
        for (document, _), ids in zip(batch, ids_of_pieces):
            parts.append(ids)
            if document is not None:
                yield document, parts[0] if len(parts) == 1 else np.concatenate(parts)
                parts = []


def _ahead(batches, tokenizer):
    """(batch, ids of its pieces), each encoded while the next one is made."""
    with futures.ThreadPoolExecutor(1) as thread:
        before = None
        for batch in batches:
            texts = [piece for _, piece in batch]
            following = batch, thread.submit(tokenizer.encode_many, texts)
            if before is not None:
                yield before[0], before[1].result()
            before = following
        if before is not None:
            yield before[0], before[1].result()


def _batched(documents, tokenizer):
    """Lists of (the document that ends here or None, piece), about BATCH long."""
    batch, characters = [], 0
    for document in documents:
        text, end = document['text'], 0
        for piece in pieces(text, tokenizer):
            end += len(piece)
            batch.append((document if end == len(text) else None, piece))
            characters += len(piece)
            if characters >= BATCH:
                yield batch
                batch, characters = [], 0
    if batch:
        yield batch


def pieces(text, tokenizer):
    """The text in parts whose ids, one after the other, are the ids of the text.

    Raises ValueError when LONGEST characters have no place where it may be cut.
    """
    start = 0
    while len(text) - start > PIECE + AROUND:
        at = _cut(text, start, tokenizer)
        if at is None and len(text) - start <= LONGEST:
            break
        if at is None:
            raise ValueError(
                f'The document that begins with {text[:60]!r} has {len(text):,} '
                f'characters; from number {start:,} on {LONGEST:,} of them cannot be cut '
                'without changing the tokens, and at once the rest would take about '
                f'{(len(text) - start) * 170 / 1e9:.1f} GB. Split the document, for '
                'example at its paragraphs, or take a tokenizer that splits at white '
                'space (byte-level BPE).'
            )
        yield text[start:at]
        start = at
    yield text[start:]


def _cut(text, start, tokenizer):
    """Where a piece that begins at `start` may end; None if nowhere."""
    if tokenizer.backend.pre_tokenizer is None:
        return None
    for pattern in PLACES:
        found = pattern.finditer(text, start + PIECE, start + LONGEST)
        for match, _ in zip(found, range(TRIES)):
            at = match.start()
            left, right = text[max(start, at - AROUND) : at], text[at : at + AROUND]
            if _splits(left, right, tokenizer):
                return at
    return None


def _splits(left, right, tokenizer):
    """Are the words of two texts together, and their ids, those of each?"""
    together, *apart = (_words(t, tokenizer) for t in (left + right, left, right))
    ids, *ids_apart = tokenizer.encode_many([left + right, left, right])
    return together == sum(apart, []) and np.array_equal(ids, np.concatenate(ids_apart))


def _words(text, tokenizer):
    """What the model looks at one by one."""
    backend = tokenizer.backend
    text = backend.normalizer.normalize_str(text) if backend.normalizer else text
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)]
