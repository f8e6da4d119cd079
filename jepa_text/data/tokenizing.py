"""Tokenization of documents in bounded memory, however long a document is.

The `tokenizers` library uses about 170 bytes per character that it encodes at once. So a
long document is encoded in pieces, cut between words:

    ... and the sea| and the whale ...      after a letter or digit, before whitespace
    ... 城市在海边|。鲸鱼 ...                   or else before punctuation

A tokenizer with a pre-tokenizer processes one word at a time, and these places are
between words. Each cut is verified on the text around it:

    words(left + right) = words(left) + words(right), and so their ids,

must hold; otherwise another place is tried. Without a pre-tokenizer nothing is cut.
"""

import itertools
import re
from concurrent import futures

import numpy as np

# Characters: of a batch, which should occupy all cores; of a piece before a cut is
# sought; within which a cut must be found; on each side of a cut to verify.
BATCH, PIECE, LONGEST, AROUND = 1_000_000, 65_536, 1_000_000, 256
# Not before an apostrophe, which may continue a word.
PLACES = (
    re.compile(r'(?<=[^\W_])(?=\s)'),
    re.compile(r'(?<=[^\W_])(?=[.,;:!?)。、，；：！？」』）])'),
)
SPACES = re.compile(r'\s*')
TRIES = 32


def encoded(documents, tokenizer):
    """Yields (document, its ids) for each dict with a `text`, in order. Ids are int32,
    without specials.

    The next batch is read while one is encoded, on all cores. Raises ValueError for a
    long document that cannot be cut.
    """
    parts = []
    for batch, ids_of_pieces in _ahead(_batched(documents, tokenizer), tokenizer):
        for (document, _), ids in zip(batch, ids_of_pieces):
            parts.append(ids)
            if document is not None:
                yield document, parts[0] if len(parts) == 1 else np.concatenate(parts)
                parts = []


def _ahead(batches, tokenizer):
    """Yields (batch, ids of its pieces); each is encoded while the next one is read."""
    with futures.ThreadPoolExecutor(1) as thread:
        submitted = (
            (batch, thread.submit(tokenizer.encode_many, [piece for _, piece in batch]))
            for batch in batches
        )
        # Pairs, so that the next batch is submitted before the result of one is awaited.
        for (batch, ids), _ in itertools.pairwise(itertools.chain(submitted, [None])):
            yield batch, ids.result()


def _batched(documents, tokenizer):
    """Yields lists of (the document if it ends here, else None, piece) of about BATCH
    characters."""
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
    """Yields parts of a text whose concatenated ids are the ids of the text.

    Raises ValueError if LONGEST characters have no place where they can be cut.
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
                'without changing the tokens, and encoding the rest at once would take '
                f'about {(len(text) - start) * 170 / 1e9:.1f} GB. Split the document, '
                'for example at its paragraphs, or use a tokenizer that splits at '
                'whitespace (byte-level BPE).'
            )
        yield text[start:at]
        start = at
    yield text[start:]


def _cut(text, start, tokenizer):
    """Returns where a piece that begins at `start` can end; None if nowhere."""
    if tokenizer.backend.pre_tokenizer is None:
        return None
    for pattern in PLACES:
        matches = pattern.finditer(text, start + PIECE, start + LONGEST)
        for match, _ in zip(matches, range(TRIES)):
            at = match.start()
            # Up to what is visible, as a normalizer may strip the end of a text.
            end = max(at + AROUND, SPACES.match(text, at).end() + 1)
            if _splits(text[max(start, at - AROUND) : at], text[at:end], tokenizer):
                return at
    return None


def _splits(left, right, tokenizer):
    """Whether the words and ids of the joined text are those of its two parts."""
    together, *apart = (_words(t, tokenizer) for t in (left + right, left, right))
    ids, *ids_apart = tokenizer.encode_many([left + right, left, right])
    return together == sum(apart, []) and np.array_equal(ids, np.concatenate(ids_apart))


def _words(text, tokenizer):
    """The words that the tokenizer processes separately."""

    backend = tokenizer.backend
    text = backend.normalizer.normalize_str(text) if backend.normalizer else text
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)]
