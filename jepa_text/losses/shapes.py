"""Checks of arrays that would otherwise broadcast or wrap around silently."""

import jax.numpy as jnp


def check(name, x, shape):
    """Raises ValueError unless an array has this shape, to which it might broadcast."""
    if jnp.shape(x) != tuple(shape):
        raise ValueError(
            f'{name} has the shape {jnp.shape(x)}, but must have {tuple(shape)}. Select '
            'or repeat its entries before the call (jnp.broadcast_to).'
        )


def check_mask(name, where, shape):
    """Raises ValueError unless an array is bool and has this shape."""
    check(name, where, shape)
    if not jnp.issubdtype(jnp.result_type(where), jnp.bool_):
        raise ValueError(
            f'{name} is {jnp.result_type(where)}, but must have bool values: compare it '
            'with a number (x > 0). Multiply values by weights instead.'
        )


def labels(x):
    """Returns labels in a type that also holds the size of a vocabulary, unlike uint8."""
    return x.astype(jnp.promote_types(x.dtype, jnp.int32))
