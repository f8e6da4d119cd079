"""hidden states of L positions -> one vector per example.

    mean, max_, cls, last, position     of hidden states and mask alone: POOLINGS
    weighted                            with a weight for every position
    inverse_frequency, learned          such weights: rare words count more; as trained
    attention                           with one query
    average_layers, counted             what comes before: which layers, which positions

By name a pooling is over all tokens of a text, special ones among them, as that of
sentence-transformers: what is measured can be shipped. NAME-specials is without them.

Every pooling takes `hidden_BLD` and `valid_BL` (True where a position counts), computes
in float32 whatever the type of the hidden states, and returns float32 [B, D]. What
stands at other positions has no influence, not even NaN, and gets no gradient. A row
without any valid position gives zeros. Queries and weights are trained, on the training
split of a probe, by trained_pooling.py; untrained weights are the mean.
"""

import jax.numpy as jnp
import numpy as np

WITHOUT_SPECIALS = '-specials'


def mean(hidden_BLD, valid_BL):
    """sum_l valid_l h_l / sum_l valid_l.

    >>> hidden_BLD = jnp.array([[[1.0], [3.0], [9.0]]])
    >>> mean(hidden_BLD, jnp.array([[True, True, False]])).tolist()
    [[2.0]]
    """
    kept_BLD = _kept(hidden_BLD, valid_BL, 0.0)
    count_B1 = jnp.sum(valid_BL, axis=1, keepdims=True, dtype=jnp.float32)
    return jnp.sum(kept_BLD, axis=1) / jnp.maximum(count_B1, 1.0)


def max_(hidden_BLD, valid_BL):
    """max over the valid positions, per coordinate.

    >>> hidden_BLD = jnp.array([[[1.0], [3.0], [9.0]]])
    >>> max_(hidden_BLD, jnp.array([[True, True, False]])).tolist()
    [[3.0]]
    """
    lowest = jnp.finfo(jnp.float32).min
    top_BD = jnp.max(_kept(hidden_BLD, valid_BL, lowest), axis=1)
    return jnp.where(jnp.any(valid_BL, axis=1)[:, None], top_BD, 0.0)


def cls(hidden_BLD, valid_BL):
    """The first valid position, where BERT-like models put their sentence token: `check`
    tells whether there is one.

    >>> hidden_BLD = jnp.array([[[1.0], [3.0], [9.0]]])
    >>> cls(hidden_BLD, jnp.array([[False, True, True]])).tolist()
    [[3.0]]
    """
    return _at(hidden_BLD, valid_BL, jnp.argmax(valid_BL, axis=1))


def last(hidden_BLD, valid_BL):
    """The last valid position: in a causal model, the one that has seen everything.

    >>> hidden_BLD = jnp.array([[[1.0], [3.0], [9.0]]])
    >>> last(hidden_BLD, jnp.array([[True, True, False]])).tolist()
    [[3.0]]
    """
    length = valid_BL.shape[1]
    return _at(hidden_BLD, valid_BL, length - 1 - jnp.argmax(valid_BL[:, ::-1], axis=1))


def position(hidden_BLD, valid_BL):
    """sum_l l h_l / sum_l l over the valid positions l = 1, 2, ... (SGPT, 2202.08904).

    For causal models: later positions have read more.

    >>> position(jnp.array([[[1.0], [4.0], [9.0]]]), jnp.array([[True, True, False]]))
    Array([[3.]], dtype=float32)
    """
    return weighted(hidden_BLD, valid_BL, jnp.cumsum(valid_BL, axis=1))


POOLINGS = {'mean': mean, 'max': max_, 'cls': cls, 'last': last, 'position': position}


def weighted(hidden_BLD, valid_BL, weight_BL):
    """sum_l w_l h_l / sum_l w_l over the valid positions; weights are not negative.

    >>> hidden_BLD, valid_BL = jnp.array([[[1.0], [4.0]]]), jnp.ones((1, 2), bool)
    >>> weighted(hidden_BLD, valid_BL, jnp.array([[2.0, 1.0]])).tolist()
    [[2.0]]
    """
    kept_BLD = _kept(hidden_BLD, valid_BL, 0.0)
    weight_BL = jnp.where(valid_BL, jnp.asarray(weight_BL, jnp.float32), 0.0)
    total_B1 = jnp.sum(weight_BL, axis=1, keepdims=True)
    sum_BD = jnp.einsum('BLD,BL->BD', kept_BLD, weight_BL, precision='highest')
    return sum_BD / jnp.where(total_B1 > 0, total_B1, 1.0)


def inverse_frequency(tokens_BL, counts_V, smoothing=1e-3):
    """weight_BL = a / (a + p(token)), p the share of the token (SIF, Arora et al. 2017).

    `counts_V` are occurrences in some corpus, the same for all models that are compared.

    >>> inverse_frequency(jnp.array([[0, 1]]), jnp.array([999, 1])).round(3).tolist()
    [[0.0010000000474974513, 0.5]]
    """
    counts_V = jnp.asarray(counts_V, jnp.float32)
    share_V = counts_V / jnp.maximum(jnp.sum(counts_V), 1.0)
    return smoothing / (smoothing + share_V[tokens_BL])


def learned(logit_L, valid_BL):
    """weight_BL: exp of the learned logit of each position; all 0 is the mean.

    >>> learned(jnp.zeros(2), jnp.array([[True, False]])).tolist()
    [[1.0, 0.0]]
    """
    logit_BL = jnp.broadcast_to(jnp.asarray(logit_L)[None], valid_BL.shape)
    return _softmax(logit_BL, valid_BL)


def attention(hidden_BLD, valid_BL, query_D):
    """sum_l a_l h_l, a = softmax over the valid positions of q.h_l / sqrt(D).

    A query of zeros is the mean.

    >>> hidden_BLD, valid_BL = jnp.array([[[0.0], [9.0]]]), jnp.ones((1, 2), bool)
    >>> attention(hidden_BLD, valid_BL, jnp.array([9.0])).tolist()
    [[9.0]]
    """
    kept_BLD = _kept(hidden_BLD, valid_BL, 0.0)
    query_D = jnp.asarray(query_D, jnp.float32)
    score_BL = jnp.einsum('BLD,D->BL', kept_BLD, query_D, precision='highest')
    weight_BL = _softmax(score_BL / jnp.sqrt(float(query_D.size)), valid_BL)
    return weighted(kept_BLD, valid_BL, weight_BL)


def average_layers(layers, count=4):
    """[B, L, D]: the mean of the last `count` of a list of hidden states, float32.

    >>> average_layers([jnp.array([[[i]]]) for i in (9.0, 1.0, 3.0)], count=2).tolist()
    [[[2.0]]]
    """
    if not 1 <= count <= len(layers):
        raise ValueError(
            f'The last {count} layers cannot be averaged: there are {len(layers)}.'
        )
    total_BLD = sum(hidden.astype(jnp.float32) for hidden in layers[-count:])
    return total_BLD / count


def base(name):
    """The pooling of a name, with special tokens or without.

    >>> base('mean'), base('mean-specials')
    ('mean', 'mean')
    """
    return name.removesuffix(WITHOUT_SPECIALS)


def counted(name, real_BL, tokens_BL, special_ids):
    """valid_BL for the pooling of this name: all that are real, or without specials.

    >>> real_BL, tokens_BL = jnp.array([[True, True, False]]), jnp.array([[1, 7, 0]])
    >>> counted('mean', real_BL, tokens_BL, [0, 1]).tolist()
    [[True, True, False]]
    >>> counted('mean-specials', real_BL, tokens_BL, [0, 1]).tolist()
    [[False, True, False]]
    """
    real_BL = jnp.asarray(real_BL, bool)
    if name == base(name):
        return real_BL
    return real_BL & ~jnp.isin(tokens_BL, jnp.asarray(special_ids))


def check(name, begin, rows, special_ids):
    """Raises ValueError where rows of ids have nothing for the pooling of this name.

    'cls' is the special token that `begin`, the ids before each text, begins with; and
    without special tokens, another one must be left of each row.

    >>> check('cls', (1,), [[1, 7]], (1,))
    """
    if base(name) == 'cls' and (name != 'cls' or not begin):
        why = 'leaves that token out' if begin else 'but this tokenizer puts none there'
        raise ValueError(
            f'pool={name!r}: cls is the special token before a text, {why}. Take '
            "'mean', or 'last' of a model that is causal."
        )
    if name == base(name):
        return
    for number, row in enumerate(rows):
        if np.isin(row, special_ids).all():
            raise ValueError(
                f'pool={name!r}: text {number} has special tokens only. Leave it out, or '
                f'take {base(name)!r}, which counts them.'
            )


def _softmax(score_BL, valid_BL):
    """0 where not valid, and everywhere if nothing is; no NaN, nor in gradients."""
    lowest = jnp.finfo(jnp.float32).min
    top_B1 = jnp.max(
        jnp.where(valid_BL, score_BL, lowest), axis=1, keepdims=True, initial=lowest
    )
    weight_BL = jnp.where(
        valid_BL, jnp.exp(jnp.where(valid_BL, score_BL - top_B1, 0.0)), 0
    )
    return weight_BL / jnp.maximum(jnp.sum(weight_BL, axis=1, keepdims=True), 1e-30)


def _kept(hidden_BLD, valid_BL, other):
    if hidden_BLD.ndim != 3 or hidden_BLD.shape[:2] != valid_BL.shape:
        raise ValueError(
            'Pooling needs hidden states [B, L, D] and a mask [B, L], but the shapes are '
            f'{hidden_BLD.shape} and {valid_BL.shape}.'
        )
    hidden_BLD = jnp.asarray(hidden_BLD, jnp.float32)
    return jnp.where(jnp.asarray(valid_BL, bool)[:, :, None], hidden_BLD, other)


def _at(hidden_BLD, valid_BL, index_B):
    kept_BLD = _kept(hidden_BLD, valid_BL, 0.0)
    return jnp.take_along_axis(kept_BLD, index_B[:, None, None], axis=1)[:, 0]
