"""Eigenvalues of a symmetric matrix, by programs that compile in seconds everywhere."""

import jax
import jax.numpy as jnp


def eigenvalues(matrix_DD):
    """All D of them, ascending, float32; exact to about 1e-6 of the largest.

    By LAPACK or cuSOLVER on CPUs and GPUs. XLA's own method on TPUs (QDWH) takes four
    minutes to compile for D = 2,048; there it is `bisected`, which takes two seconds.
    """
    return jax.lax.platform_dependent(
        matrix_DD.astype(jnp.float32), tpu=bisected, default=jnp.linalg.eigvalsh
    )


def bisected(matrix_DD):
    """Eigenvalues by Householder's tridiagonal form and Sturm sequences.

    Of D - 2 reflections H = I - 2 v v^T, each brings one column into the form by H A H =
    A - v w^T - w v^T, with w = 2 A v - 2 (v^T A v) v (Golub and Van Loan 2013, 8.3.1).
    """
    rows_D = jnp.arange(len(matrix_DD))
    # Of entries near 1, or squares of small ones vanish: a collapsed encoder has them.
    size = jnp.max(jnp.abs(matrix_DD))
    size = jnp.where(size > 0, size, 1.0)

    def reflect(column, matrix_DD):
        below_D = jnp.where(rows_D > column, matrix_DD[:, column], 0.0)
        # Far below float32's precision of the largest; their squares may vanish.
        below_D = jnp.where(jnp.abs(below_D) < 1e-15, 0.0, below_D)
        first = below_D[column + 1]
        length = jnp.where(first < 0, -1.0, 1.0) * jnp.linalg.norm(below_D)
        v_D = below_D.at[column + 1].add(length)
        # A column of zeros has its form already: v = 0 changes nothing.
        v_D = v_D / jnp.maximum(jnp.linalg.norm(v_D), 1e-30)
        product_D = jnp.dot(matrix_DD, v_D, precision='highest')
        w_D = 2 * product_D - 2 * jnp.vdot(v_D, product_D, precision='highest') * v_D
        return matrix_DD - v_D[:, None] * w_D[None] - w_D[:, None] * v_D[None]

    matrix_DD = jax.lax.fori_loop(0, len(matrix_DD) - 2, reflect, matrix_DD / size)
    return size * jax.scipy.linalg.eigh_tridiagonal(
        jnp.diag(matrix_DD), jnp.diag(matrix_DD, -1), eigvals_only=True
    )
