"""The update of Muon for matrices: momentum, then orthogonalization by Newton-Schulz.

    orthogonal   moves singular values close to 1
    like_adamw   the same, scaled to the root mean square of AdamW's updates
    nesterov     Nesterov momentum, stored in any dtype

After Jordan (kellerjordan.github.io/posts/muon, 2024). optimizers.py selects the leaves
that it applies to. optax.contrib's version is not used because its vmap gives stacked
layers other bits than single layers (differences of 1e-6).
"""

import jax
import jax.numpy as jnp
import optax


def orthogonal(x_XIO, steps=5):
    """Returns approximately U V^T of x = U S V^T for each matrix [I, O] of `x_XIO`.

    Newton-Schulz iteration: x / |x|, then `steps` times a x + (b A + c A^2) x with A = x
    x^T. The coefficients are Jordan's, which are steep at 0: after 5 steps, singular
    values that were at least 0.002 |x| lie between 0.68 and 1.21. Float32; 0 stays 0.

    >>> x_IO = jnp.array([[3.0, 0.0, 0.0], [0.0, 0.0, 0.5]])
    >>> print(jnp.linalg.svdvals(orthogonal(x_IO)).round(1))
    [1.  0.7]
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    is_tall = x_XIO.shape[-2] > x_XIO.shape[-1]

    def iterate(_, x_IO):
        # The Gram matrix of the shorter side is smaller.
        gram = x_IO.T @ x_IO if is_tall else x_IO @ x_IO.T
        power = b * gram + c * (gram @ gram)
        return a * x_IO + (x_IO @ power if is_tall else power @ x_IO)

    def orthogonalize(x_IO):
        unit_IO = x_IO / jnp.maximum(jnp.linalg.norm(x_IO), 1e-7)
        return jax.lax.fori_loop(0, steps, iterate, unit_IO)

    # One matrix after the other, so that stacked layers give the bits of single ones.
    x_NIO = x_XIO.astype(jnp.float32).reshape(-1, *x_XIO.shape[-2:])
    return jax.lax.map(orthogonalize, x_NIO).reshape(x_XIO.shape)


def like_adamw(x_XIO, steps=5):
    """Returns 0.2 sqrt(max(I, O)) orthogonal(x), whose root mean square is AdamW's, 0.2.

    >>> print(jnp.mean(like_adamw(jnp.eye(16)) ** 2).round(2))
    0.02
    """
    return 0.2 * max(x_XIO.shape[-2:]) ** 0.5 * orthogonal(x_XIO, steps)


def nesterov(decay, dtype):
    """Nesterov momentum: (1 - decay) g + decay m, with m <- (1 - decay) g + decay m.

    m is stored in `dtype`. There is no bias correction for the age of a leaf, because
    `orthogonal` does not depend on the scale of its input.

    >>> optimizer = nesterov(0.5, jnp.float32)
    >>> print(optimizer.update(jnp.ones(1), optimizer.init(jnp.ones(1)))[0])
    [0.75]
    """

    def init(params):
        return optax.TraceState(trace=optax.tree.zeros_like(params, dtype=dtype))

    def update(grads, state, params=None):
        mean = optax.tree.update_moment(grads, state.trace, decay, 1)
        lookahead = optax.tree.update_moment(grads, mean, decay, 1)
        return lookahead, optax.TraceState(trace=optax.tree.cast(mean, dtype))

    return optax.GradientTransformation(init, update)
