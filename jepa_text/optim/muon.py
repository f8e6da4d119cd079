"""What Muon does to a matrix: momentum, then the nearest orthogonal one.

    orthogonal   singular values near 1
    like_adamw   that, with AdamW's root mean square
    nesterov     momentum that looks one step ahead, kept in any dtype

Jordan's (kellerjordan.github.io/posts/muon, 2024); optimizers.py says for which leaves.
Not optax.contrib's: its vmap gives stacked layers other bits than single ones (1e-6).
"""

import jax
import jax.numpy as jnp
import optax


def orthogonal(x_XIO, steps=5):
    """Nearly U V^T of U S V^T = x, for each matrix [I, O] of x: singular values near 1.

    Newton-Schulz: x / |x|, then `steps` times a x + (b A + c A^2) x with A = x x^T. Its
    coefficients are Jordan's, steep at 0: after 5 steps singular values that were at
    least 0.002 |x| lie between 0.68 and 1.21. Float32; 0 stays 0.

    >>> x_IO = jnp.array([[3.0, 0.0, 0.0], [0.0, 0.0, 0.5]])
    >>> print(jnp.linalg.svdvals(orthogonal(x_IO)).round(1))
    [1.  0.7]
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    is_tall = x_XIO.shape[-2] > x_XIO.shape[-1]

    def sharpen(_, x_IO):
        # The product with itself is smaller on the shorter side.
        gram = x_IO.T @ x_IO if is_tall else x_IO @ x_IO.T
        power = b * gram + c * (gram @ gram)
        return a * x_IO + (x_IO @ power if is_tall else power @ x_IO)

    def one(x_IO):
        unit_IO = x_IO / jnp.maximum(jnp.linalg.norm(x_IO), 1e-7)
        return jax.lax.fori_loop(0, steps, sharpen, unit_IO)

    # One after the other: a stack of layers gives the bits that single ones give.
    x_NIO = x_XIO.astype(jnp.float32).reshape(-1, *x_XIO.shape[-2:])
    return jax.lax.map(one, x_NIO).reshape(x_XIO.shape)


def like_adamw(x_XIO):
    """0.2 sqrt(max(I, O)) orthogonal(x): the root mean square of AdamW's updates, 0.2.

    >>> print(jnp.mean(like_adamw(jnp.eye(16)) ** 2).round(2))
    0.02
    """
    return 0.2 * max(x_XIO.shape[-2:]) ** 0.5 * orthogonal(x_XIO)


def nesterov(decay, dtype):
    """(1 - decay) g + decay m, with m <- (1 - decay) g + decay m kept as `dtype`.

    Without a correction for the age of a leaf: `orthogonal` makes nothing of the length.

    >>> optimizer = nesterov(0.5, jnp.float32)
    >>> print(optimizer.update(jnp.ones(1), optimizer.init(jnp.ones(1)))[0])
    [0.75]
    """

    def init(params):
        return optax.TraceState(trace=optax.tree.zeros_like(params, dtype=dtype))

    def update(grads, state, params=None):
        mean = optax.tree.update_moment(grads, state.trace, decay, 1)
        ahead = optax.tree.update_moment(grads, mean, decay, 1)
        return ahead, optax.TraceState(trace=optax.tree.cast(mean, dtype))

    return optax.GradientTransformation(init, update)
