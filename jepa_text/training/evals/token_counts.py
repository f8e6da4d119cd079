"""Token frequencies of rows, and the number of bytes of each token."""

import json

import numpy as np


def token_bytes(tokenizer, rows):
    """Returns the number of UTF-8 bytes that each token stands for, [V].

    Special tokens have none. For byte-level BPE the counts are exact, int32: the tokens
    of a text add up to its bytes. Other tokenizers lose some bytes (case, spaces, unknown
    words); for them the letters of a token are counted, float32, and scaled so that all
    tokens of the split of `rows` add up to its bytes.
    """
    content = json.loads(tokenizer.content)
    by_byte = 'ByteLevel' in json.dumps(content.get('decoder'))
    bytes_V = np.zeros(tokenizer.vocab_size, np.int32)
    added = tokenizer.backend.get_added_tokens_decoder()
    for token, i in tokenizer.backend.get_vocab(with_added_tokens=True).items():
        # A byte-level vocabulary writes each byte as one character.
        is_bytes = by_byte and i not in added
        bytes_V[i] = len(token) if is_bytes else len(_letters(token).encode())
    bytes_V[list(tokenizer.special_ids)] = 0
    if by_byte:
        return bytes_V
    split = rows.manifest['splits'][rows.split]
    total = (
        of_rows(rows, tokenizer.special_ids, len(rows)) * bytes_V.astype(np.int64)
    ).sum()
    return (bytes_V * (split['bytes'] / max(total, 1))).astype(np.float32)


def _letters(token):
    """The text that a token of another vocabulary stands for, approximately."""
    if len(token) == 6 and token.startswith('<0x') and token.endswith('>'):
        return ' '
    return token.removeprefix('##').replace('▁', ' ')


def of_rows(rows, special_ids, max_rows):
    """Returns the count of each token in the first `max_rows` rows, int64 [V].

    It is 0 for special tokens, which are never predicted, and for padding.
    """
    counts = np.zeros(rows.manifest['vocab_size'], np.int64)
    for index in range(min(max_rows, len(rows))):
        row = rows[index]
        counts += np.bincount(
            row['tokens'][row['segment_ids'] > 0], minlength=len(counts)
        )
    counts[list(special_ids)] = 0
    return counts


def unigram_entropy(rows, special_ids, max_rows):
    """Returns the entropy of non-special tokens in the first rows, in nats per token."""
    return entropy(of_rows(rows, special_ids, max_rows))


def entropy(counts_V):
    """Returns -sum p log p of the token frequencies, in nats per token.

    This is the loss of a model that only knows the frequencies.
    """
    share = counts_V[counts_V > 0] / counts_V.sum()
    return float(-(share * np.log(share)).sum())
