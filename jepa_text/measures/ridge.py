"""Ridge regression in closed form, for many targets at the cost of one: one eigenvalue
decomposition serves all penalties and all targets."""

import dataclasses

import numpy as np

from jepa_text.measures import cloud

# Multiplied by N: with standardized features the scatter's mean eigenvalue is N.
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


@dataclasses.dataclass(frozen=True, eq=False)
class Ridge:
    """A fitted map rows_ND -> values_NT; `deviation_T` is the standard deviation of its
    predictions on the training set."""

    mean_D: np.ndarray
    scale_D: np.ndarray
    weights_DT: np.ndarray
    bias_T: np.ndarray
    deviation_T: np.ndarray
    penalty: float

    def predict(self, rows_ND):
        """Returns values_NT, float64."""
        kernel_DT = self.weights_DT / self.scale_D[:, None]
        return rows_ND @ kernel_DT + (self.bias_T - self.mean_D @ kernel_DT)


def fit(train_ND, targets_NT, penalties=PENALTIES):
    """Ridge regression on standardized embeddings, with cross-validated penalty.

    The penalty a minimizes generalized cross-validation (GCV, Golub et al. 1979),

        RSS / (N - 1 - sum l / (l + a))^2

    with the RSS of each target divided by its variance and l the eigenvalues of the
    scatter. It is the same for all targets. Targets [N] are a single target. Raises
    ValueError for shapes that do not match and values that are not finite.

    >>> rows_ND = np.random.default_rng(0).normal(size=(50, 3))
    >>> found = fit(rows_ND, rows_ND @ [1.0, -2.0, 0.0] + 5)
    >>> print(found.predict([[1.0, 1.0, 1.0]]).round(2).tolist())
    [[4.0]]
    """
    rows = cloud.as_cloud(train_ND).require_pairs('A regression')
    targets_NT = _targets(targets_NT, len(rows))
    deviation_D = rows.rows_ND.std(axis=0, dtype=np.float64)
    scale_D = np.where(deviation_D > 0, deviation_D, 1.0)  # constants stay constant
    standard = cloud.as_cloud((rows.rows_ND - rows.mean_D) / scale_D)
    values_K, vectors_DK = standard.axes
    bias_T = targets_NT.mean(axis=0)
    product_KT = vectors_DK.T @ (standard.rows_ND.T @ (targets_NT - bias_T))
    total_T = np.sum((targets_NT - bias_T) ** 2, axis=0)
    chosen = min(
        (_gcv(values_K, product_KT, total_T, len(rows), share * len(rows)), share)
        for share in penalties
    )[1]
    shrunk_KT = product_KT / (values_K + chosen * len(rows))[:, None]
    deviation_T = np.sqrt(np.sum(values_K[:, None] * shrunk_KT**2, axis=0) / len(rows))
    weights_DT = vectors_DK @ shrunk_KT
    return Ridge(rows.mean_D, scale_D, weights_DT, bias_T, deviation_T, float(chosen))


def _gcv(values_K, product_KT, total_T, count, penalty):
    explained_K1 = ((values_K + 2 * penalty) / (values_K + penalty) ** 2)[:, None]
    residual_T = total_T - np.sum(product_KT**2 * explained_K1, axis=0)
    share = np.sum(np.maximum(residual_T, 0) / np.where(total_T > 0, total_T, 1.0))
    freedom = count - 1 - np.sum(values_K / (values_K + penalty))
    return share / max(freedom, 1e-9) ** 2


def _targets(targets_NT, count):
    targets_NT = np.asarray(targets_NT, np.float64)
    targets_NT = targets_NT[:, None] if targets_NT.ndim == 1 else targets_NT
    if targets_NT.ndim != 2 or len(targets_NT) != count:
        raise ValueError(
            f'{count} embeddings need one row of targets each, but the targets have '
            f'shape {targets_NT.shape}.'
        )
    if not np.isfinite(targets_NT).all():
        raise ValueError('The targets of a regression contain NaN or infinity.')
    return targets_NT
