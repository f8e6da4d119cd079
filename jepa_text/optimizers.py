"""Config section -> optax transformation. The learning rate is applied in step.py,

as a function of the global step, so that it means the same in every phase.
"""

import re

import jax
import jax.numpy as jnp
import optax


def path_name(path):
    """The path of a leaf of a tree as 'encoder/layers/ffn/up/kernel'."""
    return jax.tree_util.keystr(path, simple=True, separator='/')


def mask(params, pattern):
    """True for the leaves whose path matches the regular expression somewhere.

    By path and never by ndim: scanned layers stack norm scales to matrices.
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, _: re.search(pattern, path_name(path)) is not None, params
    )


def adamw(
    b1=0.9,
    b2=0.95,
    eps=1e-8,
    weight_decay=0.1,
    decay_paths=r'(kernel|embedding)$',
    balance_rate=1.0,
    momentum_dtype='float32',
):
    """AdamW (Loshchilov & Hutter 2019) without its learning rate.

    Decay falls on the leaves that match `decay_paths` and never on the learned weight
    of two losses, whose steps are multiplied by `balance_rate`.
    """
    return optax.chain(
        optax.scale_by_adam(b1, b2, eps, mu_dtype=jnp.dtype(momentum_dtype)),
        optax.add_decayed_weights(
            weight_decay, mask=lambda params: mask(params, decay_paths)
        ),
        optax.masked(
            optax.scale(balance_rate), mask=lambda params: mask(params, r'^balance/')
        ),
    )


def sgd(momentum=0.0):
    """Plain gradient descent, with momentum if asked: for tests and comparisons."""
    return optax.trace(momentum) if momentum else optax.identity()


OPTIMIZERS = {'adamw': adamw, 'sgd': sgd}


def make(section):
    """The optimizer that a section names; ValueError for an unknown name or keyword."""
    keywords = dict(section)
    name = keywords.pop('name', None)
    if name not in OPTIMIZERS:
        known = ', '.join(OPTIMIZERS)
        raise ValueError(f'optimizer {name!r} does not exist; there are: {known}.')
    try:
        return OPTIMIZERS[name](**keywords)
    except TypeError as error:
        raise ValueError(f'optimizer {name!r}: {error}.') from error
