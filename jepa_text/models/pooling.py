"""Pooling: hidden states of L positions -> one vector per example.

    mean, max_, cls, last, position     of hidden states and mask alone: POOLINGS
    valid_mask                          the positions that count

POOLINGS by name use all tokens of a text, including special tokens, as in
sentence-transformers, so that what is measured can also be exported. NAME-specials
excludes special tokens.

Each pooling takes `hidden_BLD` and `valid_BL` (True for positions that count), computes
in float32 whatever the dtype of the hidden states, and returns float32 [B, D]. Values at
other positions, even NaN, have no effect and get no gradient. A row without any valid
position gives zeros.
"""

import jax.numpy as jnp
import numpy as np

WITHOUT_SPECIALS = '-specials'


def mean(hidden_BLD, valid_BL):
    """Returns sum_l valid_l h_l / sum_l valid_l.

    >>> hidden_BLD = jnp.array([[[1.0], [3.0], [9.0]]])
    >>> mean(hidden_BLD, jnp.array([[True, True, False]])).tolist()
    [[2.0]]
    """
    masked_BLD = _masked(hidden_BLD, valid_BL, 0.0)
    count_B1 = jnp.sum(valid_BL, axis=1, keepdims=True, dtype=jnp.float32)
    return jnp.sum(masked_BLD, axis=1) / jnp.maximum(count_B1, 1.0)


def max_(hidden_BLD, valid_BL):
    """Returns the maximum over valid positions, per coordinate.

    >>> hidden_BLD = jnp.array([[[1.0], [3.0], [9.0]]])
    >>> max_(hidden_BLD, jnp.array([[True, True, False]])).tolist()
    [[3.0]]
    """
    lowest = jnp.finfo(jnp.float32).min
    max_BD = jnp.max(_masked(hidden_BLD, valid_BL, lowest), axis=1)
    return jnp.where(jnp.any(valid_BL, axis=1)[:, None], max_BD, 0.0)


def cls(hidden_BLD, valid_BL):
    """Returns the first valid position, where BERT-like models have their sentence token.

    `check` raises if there is no such token.

    >>> hidden_BLD = jnp.array([[[1.0], [3.0], [9.0]]])
    >>> cls(hidden_BLD, jnp.array([[False, True, True]])).tolist()
    [[3.0]]
    """
    return _at(hidden_BLD, valid_BL, jnp.argmax(valid_BL, axis=1))


def last(hidden_BLD, valid_BL):
    """Returns the last valid position, which in a causal model has attended to all.

    >>> hidden_BLD = jnp.array([[[1.0], [3.0], [9.0]]])
    >>> last(hidden_BLD, jnp.array([[True, True, False]])).tolist()
    [[3.0]]
    """
    length = valid_BL.shape[1]
    return _at(hidden_BLD, valid_BL, length - 1 - jnp.argmax(valid_BL[:, ::-1], axis=1))


def position(hidden_BLD, valid_BL):
    """Returns sum_l l h_l / sum_l l over valid positions l = 1, 2, ...

    SGPT's pooling (arXiv 2202.08904), for causal models, in which later positions have
    attended to more tokens.

    >>> position(jnp.array([[[1.0], [4.0], [9.0]]]), jnp.array([[True, True, False]]))
    Array([[3.]], dtype=float32)
    """
    masked_BLD = _masked(hidden_BLD, valid_BL, 0.0)
    weight_BL = jnp.where(valid_BL, jnp.cumsum(valid_BL, axis=1), 0).astype(jnp.float32)
    sum_BD = jnp.einsum('BLD,BL->BD', masked_BLD, weight_BL, precision='highest')
    return sum_BD / jnp.maximum(jnp.sum(weight_BL, axis=1, keepdims=True), 1.0)


POOLINGS = {'mean': mean, 'max': max_, 'cls': cls, 'last': last, 'position': position}


def base(name):
    """Returns the pooling that a name refers to, without the suffix '-specials'.

    >>> base('mean'), base('mean-specials')
    ('mean', 'mean')
    """
    return name.removesuffix(WITHOUT_SPECIALS)


def valid_mask(name, real_BL, tokens_BL, special_ids):
    """Returns valid_BL for the pooling `name`: all real tokens, with or without specials.

    >>> real_BL, tokens_BL = jnp.array([[True, True, False]]), jnp.array([[1, 7, 0]])
    >>> valid_mask('mean', real_BL, tokens_BL, [0, 1]).tolist()
    [[True, True, False]]
    >>> valid_mask('mean-specials', real_BL, tokens_BL, [0, 1]).tolist()
    [[False, True, False]]
    """
    real_BL = jnp.asarray(real_BL, bool)
    if name == base(name):
        return real_BL
    return real_BL & ~jnp.isin(tokens_BL, jnp.asarray(special_ids))


def check(name, begin, rows, special_ids):
    """Raises ValueError if rows of token ids lack what the pooling `name` needs.

    'cls' needs the special token that `begin`, the ids before each text, starts with.
    Without special tokens, each row needs at least one other token.

    >>> check('cls', (1,), [[1, 7]], (1,))
    """
    if base(name) == 'cls' and (name != 'cls' or not begin):
        why = 'it excludes that token' if begin else 'this tokenizer does not add one'
        raise ValueError(
            f'pool={name!r}: cls is the special token before a text, but {why}. Use '
            "'mean', or 'last' for a causal model."
        )
    if name == base(name):
        return
    for number, row in enumerate(rows):
        if np.isin(row, special_ids).all():
            raise ValueError(
                f'pool={name!r}: text {number} has only special tokens. Leave it out, or '
                f'use {base(name)!r}, which includes them.'
            )


def _masked(hidden_BLD, valid_BL, other):
    if hidden_BLD.ndim != 3 or hidden_BLD.shape[:2] != valid_BL.shape:
        raise ValueError(
            'Pooling needs hidden states [B, L, D] and a mask [B, L], but the shapes are '
            f'{hidden_BLD.shape} and {valid_BL.shape}.'
        )
    hidden_BLD = jnp.asarray(hidden_BLD, jnp.float32)
    return jnp.where(jnp.asarray(valid_BL, bool)[:, :, None], hidden_BLD, other)


def _at(hidden_BLD, valid_BL, index_B):
    masked_BLD = _masked(hidden_BLD, valid_BL, 0.0)
    return jnp.take_along_axis(masked_BLD, index_B[:, None, None], axis=1)[:, 0]
