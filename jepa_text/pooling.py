"""hidden states of L positions -> one vector per example.

Every pooling takes `hidden_BLD` and `valid_BL` (True where a position counts), computes
in float32 whatever the type of the hidden states, and returns float32 [B, D]. What
stands at other positions has no influence, not even NaN, and gets no gradient. A row
without any valid position gives zeros.
"""

import jax.numpy as jnp


def mean(hidden_BLD, valid_BL):
    """sum_l valid_l h_l / sum_l valid_l."""
    kept_BLD = _kept(hidden_BLD, valid_BL, 0.0)
    count_B1 = jnp.sum(valid_BL, axis=1, keepdims=True, dtype=jnp.float32)
    return jnp.sum(kept_BLD, axis=1) / jnp.maximum(count_B1, 1.0)


def max_(hidden_BLD, valid_BL):
    """max over the valid positions, per coordinate."""
    lowest = jnp.finfo(jnp.float32).min
    top_BD = jnp.max(_kept(hidden_BLD, valid_BL, lowest), axis=1)
    return jnp.where(jnp.any(valid_BL, axis=1)[:, None], top_BD, 0.0)


def cls(hidden_BLD, valid_BL):
    """The first valid position: where BERT-like models put their sentence token."""
    return _at(hidden_BLD, valid_BL, jnp.argmax(valid_BL, axis=1))


def last(hidden_BLD, valid_BL):
    """The last valid position: in a causal model, the one that has seen everything."""
    length = valid_BL.shape[1]
    return _at(hidden_BLD, valid_BL, length - 1 - jnp.argmax(valid_BL[:, ::-1], axis=1))


POOLINGS = {'mean': mean, 'max': max_, 'cls': cls, 'last': last}


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
