"""How often tokens are in held-out rows, and the bytes that they stand for."""

import json

import numpy as np


def token_bytes(tokenizer, rows=None):
    """Bytes of UTF-8 that each token stands for, [V]; specials stand for none.

    Exact, int32, where the tokens of any text add up to it: byte-level BPE. Other
    tokenizers lose some (case, spaces, unknown words): of theirs the tokens' letters
    count, float32, scaled so that all tokens of the split of `rows` have its bytes.
    """
    content = json.loads(tokenizer.content)
    by_byte = 'ByteLevel' in json.dumps(content.get('decoder'))
    bytes_V = np.zeros(tokenizer.vocab_size, np.int32)
    added = tokenizer.backend.get_added_tokens_decoder()
    for token, i in tokenizer.backend.get_vocab(with_added_tokens=True).items():
        # In a byte-level vocabulary, a byte is written as one character.
        whole = by_byte and i not in added
        bytes_V[i] = len(token) if whole else len(_letters(token).encode())
    bytes_V[list(tokenizer.special_ids)] = 0
    if by_byte or rows is None:
        return bytes_V
    split = rows.manifest['splits'][rows.split]
    seen = (of_rows(rows, len(rows)) * bytes_V.astype(np.int64)).sum()
    return (bytes_V * (split['bytes'] / max(seen, 1))).astype(np.float32)


def _letters(token):
    """What a token of another vocabulary adds to a text, about."""
    if len(token) == 6 and token.startswith('<0x') and token.endswith('>'):
        return ' '
    return token.removeprefix('##').replace('▁', ' ')


def of_rows(rows, max_rows):
    """How often each token is in the first rows, int64 [V]."""
    counts = np.zeros(rows.manifest['vocab_size'], np.int64)
    for index in range(min(max_rows, len(rows))):
        row = rows[index]
        counts += np.bincount(
            row['tokens'][row['segment_ids'] > 0], minlength=len(counts)
        )
    return counts


def scored(rows, special_ids, max_rows):
    """The same of the tokens that are not special, which alone are scored."""
    counts = of_rows(rows, max_rows)
    counts[list(special_ids)] = 0
    return counts


def unigram_entropy(rows, special_ids, max_rows):
    """The entropy of the tokens of the first rows that are not special."""
    return entropy(scored(rows, special_ids, max_rows))


def entropy(counts_V):
    """-sum p log p of tokens under their own frequencies, in nats.

    What a model that knows the frequencies and reads nothing else would score, per token.
    """
    share = counts_V[counts_V > 0] / counts_V.sum()
    return float(-(share * np.log(share)).sum())
