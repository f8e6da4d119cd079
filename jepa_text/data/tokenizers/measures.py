"""Fit of a tokenizer to a text: fertility, unknown tokens, use of the vocabulary.

tokens per word    tokens / words, which are separated by whitespace
bytes per token    bytes in UTF-8 / tokens: the compression
used               entries, without specials, that occur in the text
"""

import collections
import json

import numpy as np

BATCH = 1_000_000  # characters encoded at a time
SHOWN = 8


def measure(tokenizer, texts):
    """Returns the measures of an iterable of texts as plain numbers.

    counts         documents, bytes, characters, words, tokens
    fertility      tokens_per_word, bytes_per_token, characters_per_token
    unknown        count, share (of tokens), kinds, characters: [[character, count], ...]
    vocabulary     entries, without specials; used, share_used

    Raises ValueError if the texts have no tokens.
    """
    counts_V = np.zeros(tokenizer.vocab_size, np.int64)
    total, unknown = collections.Counter(), collections.Counter()
    unknown_id = unknown_id_of(tokenizer)
    for batch in _batches(texts):
        for text, encoding in zip(batch, _encoded(tokenizer, batch)):
            ids = np.array(encoding.ids, np.int64)
            np.add.at(counts_V, ids, 1)
            total.update(
                documents=1,
                bytes=len(text.encode('utf-8')),
                characters=len(text),
                words=len(text.split()),
                tokens=len(ids),
            )
            # Comparing with None gives no matches. Offsets are slow: read them only once.
            unknown_at = np.flatnonzero(ids == unknown_id)
            offsets = encoding.offsets if len(unknown_at) else ()
            for at in unknown_at:
                unknown.update(text[slice(*offsets[at])])
    if not total['tokens']:
        raise ValueError('There is no text to measure tokenizers on.')
    special = [*tokenizer.special_ids, -1 if unknown_id is None else unknown_id]
    entries = np.setdiff1d(_entries(tokenizer), special)
    return {
        'counts': dict(total),
        'fertility': {
            'tokens_per_word': total['tokens'] / max(1, total['words']),
            'bytes_per_token': total['bytes'] / total['tokens'],
            'characters_per_token': total['characters'] / total['tokens'],
        },
        'unknown': _unknowns(tokenizer, counts_V, unknown, unknown_id),
        'vocabulary': {
            'entries': len(entries),
            'used': (used := int(np.count_nonzero(counts_V[entries]))),
            'share_used': used / max(1, len(entries)),
        },
    }


def unknown_id_of(tokenizer):
    """Returns the id of the unknown token; None if there is none."""
    model = json.loads(tokenizer.content)['model']
    if model.get('unk_id') is not None:
        return model['unk_id']
    name = model.get('unk_token')
    return None if name is None else tokenizer.backend.token_to_id(name)


def _batches(texts):
    """Yields lists of texts of about BATCH characters in total."""
    batch, size = [], 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _encoded(tokenizer, batch):
    return tokenizer.backend.encode_batch(batch, add_special_tokens=False)


def _entries(tokenizer):
    """Ids of the vocabulary, int64 [n]."""
    ids = tokenizer.backend.get_vocab(with_added_tokens=True).values()
    return np.array(sorted(ids), np.int64)


def _unknowns(tokenizer, counts_V, characters, unknown_id):
    """Counts unknown tokens and characters. An unknown token may cover a whole word: only
    those of its characters count that are unknown by themselves."""
    count = 0 if unknown_id is None else int(counts_V[unknown_id])
    alone = [c for c in characters if not c.isspace()]
    counted = [
        (characters[c], c)
        for c, encoding in zip(alone, _encoded(tokenizer, alone))
        if unknown_id in encoding.ids
    ]
    counted.sort(key=lambda one: (-one[0], one[1]))
    return {
        'count': count,
        'share': count / int(counts_V.sum()),
        'kinds': len(counted),
        'characters': [[c, n] for n, c in counted[:SHOWN]],
    }
