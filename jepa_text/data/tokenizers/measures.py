"""Fit of a tokenizer to a text: fertility, unknown tokens, use of the vocabulary.

tokens per word    tokens / words, which are separated by whitespace
bytes per token    bytes in UTF-8 / tokens: the compression
used               entries, without specials, that occur in the text
"""

import collections
import json

import numpy as np

from jepa_text.data import tokenizing
from jepa_text.data.tokenizers import training


def measure(tokenizer, texts):
    """Returns the measures of an iterable of texts as plain numbers.

    counts         documents, bytes, characters, words, tokens
    fertility      tokens_per_word, bytes_per_token
    unknown        count, share (of tokens)
    vocabulary     entries, without specials; used, share_used

    Raises ValueError if the texts have no tokens.
    """
    counts_V = np.zeros(tokenizer.vocab_size, np.int64)
    total = collections.Counter()

    def parts():  # bounds the memory of a long text, also of one that cannot be cut
        for text in texts:
            total['documents'] += 1
            yield from ({'text': part} for part in training.pieces(text))

    for part, ids in tokenizing.encoded(parts(), tokenizer):
        text = part['text']
        np.add.at(counts_V, ids, 1)
        total.update(
            bytes=len(text.encode('utf-8')),
            characters=len(text),
            words=len(text.split()),
            tokens=len(ids),
        )
    if not total['tokens']:
        raise ValueError('There is no text to measure tokenizers on.')
    unknown_id = unknown_id_of(tokenizer)
    unknown = 0 if unknown_id is None else int(counts_V[unknown_id])
    special = [*tokenizer.special_ids, -1 if unknown_id is None else unknown_id]
    ids = tokenizer.backend.get_vocab(with_added_tokens=True).values()
    entries = np.setdiff1d(list(ids), special)
    used = int(np.count_nonzero(counts_V[entries]))
    return {
        'counts': dict(total),
        'fertility': {
            'tokens_per_word': total['tokens'] / max(1, total['words']),
            'bytes_per_token': total['bytes'] / total['tokens'],
        },
        'unknown': {'count': unknown, 'share': unknown / total['tokens']},
        'vocabulary': {
            'entries': len(entries),
            'used': used,
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
