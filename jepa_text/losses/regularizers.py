"""Against collapse: how far a set of vectors is from an isotropic Gaussian.

    random_directions   what sigreg and visreg look along           -> directions_DR
    sigreg              their characteristic function is a Gaussian's
    vicreg_variance     no coordinate is narrow
    vicreg_covariance   no two coordinates are alike
    visreg              place, width, and sorted values are a Gaussian's

Needs only jax. Each but the first maps embeddings_ND, and optionally which of the N
count, to one float32 number; bfloat16 may come in. The N must be independent: pooled
rows, or a few tokens a row, as neighbors are alike and would pass for evidence. All are
safe under jit, grad and vmap; what false rows hold, NaN too, reaches nothing, and with
no true row the number is 0 with zero gradients.

A low value does not say that a vector holds what it should: keep a loss on words too.
"""

import jax
import jax.numpy as jnp


def random_directions(key, count, width):
    """directions_DR: `count` unit vectors as columns, uniform on the sphere, float32.

    Take a new key every step (fold the step into one), the same on every device.

    >>> directions_DR = random_directions(jax.random.key(0), count=5, width=3)
    >>> directions_DR.shape, jnp.linalg.norm(directions_DR, axis=0).round(4).tolist()
    ((3, 5), [1.0, 1.0, 1.0, 1.0, 1.0])
    """
    directions_DR = jax.random.normal(key, (width, count))
    return directions_DR / jnp.linalg.norm(directions_DR, axis=0, keepdims=True)


def sigreg(embeddings_ND, directions_DR, where_N=None, knots=17, limit=3.0):
    """SIGReg of LeJEPA (arXiv 2511.08544): the Epps-Pulley test along R directions.

    Mean over u of N * integral |mean_n exp(i t u.x_n) - exp(-t^2 / 2)|^2 exp(-t^2 / 2) dt
    over [-limit, limit], by the trapezoid rule on `knots` points of [0, limit], twice.
    LeJEPA weighs it 0.02 to 0.1 and draws 256 to 1,024 directions a step.

    Near 1 for standard normal vectors whatever N; in proportion to N for one vector N
    times, where its slope vanishes. Raises ValueError for fewer than 2 knots.

    >>> print(sigreg(jnp.zeros((10, 4)), jnp.eye(4)).round(3))
    4.02
    """
    if knots < 2:
        raise ValueError(f'sigreg: knots={knots}; a trapezoid has at least 2.')
    x_ND, keep_N1, count = _kept(embeddings_ND, where_N)
    x_NR = x_ND @ directions_DR.astype(jnp.float32)
    t_T = jnp.linspace(0, limit, knots)
    # One knot at a time, and again in the backward pass: [N, R] is all that is held.
    error_TR = jax.lax.map(
        jax.checkpoint(lambda t: _distance_at(t, x_NR, keep_N1, count)), t_T
    )
    width_T = jnp.full(knots, 2 * limit / (knots - 1)).at[jnp.array([0, -1])].mul(0.5)
    return count * jnp.mean((width_T * _phi(t_T)) @ error_TR)


def vicreg_variance(embeddings_ND, where_N=None, target=1.0, eps=1e-4):
    """Mean over D of max(0, target - sqrt(Var + eps)) (VICReg, arXiv 2105.04906, eq. 1).

    Var divides by N - 1; of fewer than two vectors there is none, and this is 0. VICReg
    weighs it 25, against 1 for the covariance.

    >>> print(vicreg_variance(jnp.array([[1.0, 0.0], [1.0, 9.0]])))
    0.495
    """
    x_ND, keep_N1, count = _kept(embeddings_ND, where_N)
    _, centered_ND = _centered(x_ND, keep_N1, count)
    variance_D = jnp.sum(centered_ND**2, axis=0) / jnp.maximum(count - 1, 1)
    missing_D = jnp.maximum(target - jnp.sqrt(variance_D + eps), 0)
    return jnp.where(count > 1, jnp.mean(missing_D), 0.0)


def vicreg_covariance(embeddings_ND, where_N=None):
    """Sum over i != j of Cov_ij^2, over D (VICReg, eq. 3 and 4); Cov divides by N - 1.

    >>> print(vicreg_covariance(jnp.array([[1.0, 1.0], [-1.0, -1.0]])))
    4.0
    """
    x_ND, keep_N1, count = _kept(embeddings_ND, where_N)
    _, centered_ND = _centered(x_ND, keep_N1, count)
    covariance_DD = centered_ND.T @ centered_ND / jnp.maximum(count - 1, 1)
    width = x_ND.shape[1]
    off_DD = jnp.where(jnp.eye(width, dtype=bool), 0, covariance_DD)
    return jnp.sum(off_DD**2) / width


def visreg(embeddings_ND, directions_DR, where_N=None, eps=1e-6):
    """VISReg (arXiv 2606.02572): where the cloud lies, how wide it is, and its shape.

    mean_D mean^2 + mean_D (1 - std)^2 + mean over directions and ranks n = 1..N of
    (the n-th smallest u.x' - Gaussian quantile n / (N + 1))^2, where
    x' = (x - mean) / std with no gradient through std = sqrt(Var + eps^2), and Var
    divides by N. Unlike that of `sigreg`, its slope grows as the vectors become one.

    >>> x_ND = jnp.array([[-1.0], [1.0], [3.0]])
    >>> print(visreg(x_ND, jnp.eye(1)).round(3))
    1.603
    """
    x_ND, keep_N1, count = _kept(embeddings_ND, where_N)
    mean_1D, centered_ND = _centered(x_ND, keep_N1, count)
    variance_1D = jnp.sum(centered_ND**2, axis=0, keepdims=True) / jnp.maximum(count, 1)
    # Not sqrt alone: its slope at 0 is infinite.
    std_1D = jnp.sqrt(variance_1D + eps**2)
    shape = _shape(
        centered_ND / jax.lax.stop_gradient(std_1D), directions_DR, keep_N1, count
    )
    placed = jnp.mean(mean_1D**2) + jnp.mean((1 - std_1D) ** 2)
    return jnp.where(count > 0, placed + shape, 0.0)


def _shape(x_ND, directions_DR, keep_N1, count):
    """Squared distance of sorted projections from Gaussian quantiles, as a mean."""
    x_NR = x_ND @ directions_DR.astype(jnp.float32)
    # False rows come last, whatever they hold.
    sorted_NR = jnp.sort(jnp.where(keep_N1, x_NR, jnp.inf), axis=0)
    rank_N1 = jnp.arange(1, len(x_ND) + 1)[:, None]
    real_N1 = rank_N1 <= count
    # From the nearer end: 1 - 1e-5 has two digits less than 1e-5.
    lower_N1 = 2 * rank_N1 <= count + 1
    tail_N1 = jnp.where(lower_N1, rank_N1, count + 1 - rank_N1) / (count + 1)
    quantile_N1 = jax.scipy.special.ndtri(jnp.where(real_N1, tail_N1, 0.5))
    quantile_N1 = jnp.where(lower_N1, quantile_N1, -quantile_N1)
    gap_NR = jnp.where(real_N1, sorted_NR, 0) - quantile_N1
    return jnp.sum(jnp.mean(gap_NR**2, axis=1)) / jnp.maximum(count, 1)


def _distance_at(t, x_NR, keep_N1, count):
    """|empirical - Gaussian characteristic function|^2 at t, for every direction."""

    def mean(wave_NR):
        return jnp.sum(jnp.where(keep_N1, wave_NR, 0), axis=0) / jnp.maximum(count, 1)

    return (mean(jnp.cos(t * x_NR)) - _phi(t)) ** 2 + mean(jnp.sin(t * x_NR)) ** 2


def _phi(t):
    return jnp.exp(-(t**2) / 2)


def _kept(embeddings_ND, where_N):
    """float32 vectors with 0 in false rows, keep_N1, and the count of true rows."""
    if where_N is None:
        where_N = jnp.ones(len(embeddings_ND), bool)
    keep_N1 = where_N[:, None]
    x_ND = jnp.where(keep_N1, embeddings_ND, 0).astype(jnp.float32)
    return x_ND, keep_N1, jnp.sum(where_N, dtype=jnp.float32)


def _centered(x_ND, keep_N1, count):
    """mean_1D, and the vectors less it, 0 in false rows."""
    mean_1D = jnp.sum(x_ND, axis=0, keepdims=True) / jnp.maximum(count, 1)
    return mean_1D, jnp.where(keep_N1, x_ND - mean_1D, 0)
