"""A set of vectors with what its measures share: moments, spectrum, pairs and blocks.

Measures are functions of a Cloud (geometry.py), which computes each shared quantity once,
so ten of them cost one eigenvalue decomposition and one pass over pairs. Lists, integers
and float64 become float64, other floats float32. Products of pairs are computed in that
dtype; moments, eigenvalues and all sums in float64. All pairs are used, some rows at a
time.
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

_DISTANCES = 4_000_000  # computed at a time


class Pairs(NamedTuple):
    """Statistics of the pairs: the mean of exp(-2 |z_i - z_j|^2) of unit rows; the mean
    distance of unit rows with the same label and with different ones, NaN without such
    pairs or without labels."""

    kernel: float
    same: float
    other: float


def as_cloud(rows_ND, labels_N=None):
    """Returns the Cloud of an array of embeddings.

    Raises ValueError if the shape is not [N, D] with N at least 1, if values are not
    finite, or if the number of labels is not N. A Cloud is returned unchanged; passing
    labels with it raises ValueError.

    >>> as_cloud([[3.0, 0.0], [0.0, 4.0]]).mean_D.tolist()
    [1.5, 2.0]
    """
    if isinstance(rows_ND, Cloud):
        if labels_N is not None:
            raise ValueError('A Cloud has its own labels: pass rows, or no labels.')
        return rows_ND
    rows_ND = np.asarray(rows_ND)
    # float32 represents narrower floats exactly; lists and integers become float64.
    narrow = rows_ND.dtype.kind not in 'iub' and rows_ND.dtype != np.float64
    rows_ND = rows_ND.astype(np.float32 if narrow else np.float64, copy=False)
    if rows_ND.ndim != 2 or not rows_ND.size:
        raise ValueError(
            'Geometry needs embeddings [N, D] with at least 1 row, but the shape is '
            f'{rows_ND.shape}.'
        )
    bad_N = ~np.isfinite(rows_ND.sum(axis=1, dtype=np.float64))
    if bad_N.any():
        raise ValueError(
            f'{bad_N.sum()} of {len(bad_N)} embeddings contain NaN or infinity, first in '
            f'row {bad_N.argmax()}. Check the model before measuring its geometry.'
        )
    if labels_N is not None:
        labels_N = np.unique(np.asarray(labels_N), return_inverse=True)[1]
        if labels_N.shape != rows_ND.shape[:1]:
            raise ValueError(
                f'{len(rows_ND)} embeddings need one label each, but there are '
                f'{labels_N.size}.'
            )
    return Cloud(rows_ND, labels_N)


@dataclasses.dataclass(frozen=True, eq=False)
class Cloud:
    """Validated embeddings and their cached statistics, created by `as_cloud`; `labels_N`
    are integers 0, 1, ... or None."""

    rows_ND: np.ndarray
    labels_N: np.ndarray | None = None

    def __len__(self):
        return len(self.rows_ND)

    @property
    def width(self):
        """The width D of the embeddings."""
        return self.rows_ND.shape[1]

    def require_pairs(self, what):
        """Returns self; raises ValueError, naming `what`, for fewer than two rows."""
        if len(self) < 2:
            raise ValueError(
                f'{what} needs embeddings [N, D] with at least 2 rows, but the shape is '
                f'{self.rows_ND.shape}.'
            )
        return self

    @functools.cached_property
    def mean_D(self):
        """The mean of the rows, float64."""
        return self.rows_ND.mean(axis=0, dtype=np.float64)

    @functools.cached_property
    def norm_N(self):
        """The length of each row, float64."""
        rows_ND = self.rows_ND
        return np.sqrt(np.einsum('ND,ND->N', rows_ND, rows_ND, dtype=np.float64))

    @functools.cached_property
    def centered_ND(self):
        """The centered rows, float64; rounding errors are 0."""
        largest_D = np.maximum(self.rows_ND.max(axis=0), -self.rows_ND.min(axis=0))
        error_D = len(self) * np.finfo(np.float64).eps * largest_D
        centered_ND = self.rows_ND - self.mean_D
        # Differences of equal coordinates are rounding errors, without a direction.
        centered_ND[np.abs(centered_ND) <= error_D] = 0.0
        return centered_ND

    @functools.cached_property
    def scatter(self):
        """sum_n (x_n - mean)(x_n - mean)^T, [D, D], or [N, N] Gram matrix if smaller."""
        rows_ND = self.centered_ND
        return rows_ND @ rows_ND.T if len(self) < self.width else rows_ND.T @ rows_ND

    @functools.cached_property
    def axes(self):
        """(values_K, vectors_DK): eigenvalues of `scatter`, descending, and directions.

        Directions whose eigenvalue is within rounding error are omitted.
        """
        values_K, vectors = np.linalg.eigh(self.scatter)
        values_K = self._without_rounding(values_K[::-1])
        kept_K = values_K > 0
        values_K, vectors = values_K[kept_K], vectors[:, ::-1][:, kept_K]
        if len(self) < self.width:
            vectors = self.centered_ND.T @ vectors / np.sqrt(values_K)
        return values_K, vectors

    @functools.cached_property
    def values_K(self):
        """Squared singular values of the centered rows, descending; K = min(N, D)."""
        if 'axes' in self.__dict__:
            kept_K = self.axes[0]
            return np.pad(kept_K, (0, min(len(self), self.width) - len(kept_K)))
        return self._without_rounding(np.linalg.eigvalsh(self.scatter)[::-1])

    @functools.cached_property
    def raw_values_K(self):
        """Squared singular values of the raw rows, descending; K = min(N, D)."""
        if len(self) < self.width:
            rows_ND = self.rows_ND.astype(np.float64)
            moment = rows_ND @ rows_ND.T
        else:
            # Exact, and numerically more stable than computing the raw second moment.
            moment = self.scatter + len(self) * np.outer(self.mean_D, self.mean_D)
        return self._without_rounding(np.linalg.eigvalsh(moment)[::-1])

    def _without_rounding(self, values_K):
        eps = max(self.rows_ND.shape) * np.finfo(np.float64).eps
        error = max(eps * values_K[0], (eps * np.linalg.norm(self.norm_N)) ** 2)
        return np.where(values_K > error, values_K, 0.0)

    def unit(self, index_M):
        """Returns these rows at length 1, in the rows' dtype; zero rows stay zero."""
        norm_M1 = self.norm_N[index_M][:, None]
        safe_M1 = np.where(norm_M1 > 0, norm_M1, 1.0).astype(self.rows_ND.dtype)
        return self.rows_ND[index_M] / safe_M1

    @functools.cached_property
    def pairs(self):
        """The `Pairs`, from one pass over the products of unit rows."""
        count, kernel, same, other = len(self), 0.0, 0.0, 0.0
        for start, square_MN in _square_distances(self.unit(np.arange(count))):
            kernel_MN = np.exp(-2 * square_MN)
            np.fill_diagonal(kernel_MN[:, start:], 0.0)  # a row does not pair with itself
            kernel += kernel_MN.sum(dtype=np.float64)
            if self.labels_N is not None:
                distance_MN = np.sqrt(square_MN)
                labels_M = self.labels_N[start : start + len(square_MN)]
                is_same_MN = labels_M[:, None] == self.labels_N
                same += distance_MN.sum(where=is_same_MN, dtype=np.float64)
                other += distance_MN.sum(where=~is_same_MN, dtype=np.float64)
        pairs = count * (count - 1)
        if self.labels_N is None:
            return Pairs(kernel / pairs, np.nan, np.nan)
        sizes = np.bincount(self.labels_N)
        same_pairs = np.sum(sizes * (sizes - 1))
        other_pairs = pairs - same_pairs
        return Pairs(
            kernel / pairs,
            same / same_pairs if same_pairs else np.nan,
            other / other_pairs if other_pairs else np.nan,
        )


def _square_distances(rows_ND):
    """Yields (start, |x_i - x_j|^2 of some rows from there to all rows, [M, N]), in the
    dtype of the rows, 0 from a row to itself.

    Rows are centered first, which changes no distance: products of rows with a large
    common component would lose the digits in which the rows differ.
    """
    rows_ND = rows_ND - rows_ND.mean(axis=0)
    square_N = np.einsum('ND,ND->N', rows_ND, rows_ND)
    step = max(1, _DISTANCES // len(rows_ND))
    for start in range(0, len(rows_ND), step):
        part_MD = rows_ND[start : start + step]
        square_MN = -2 * part_MD @ rows_ND.T
        square_MN += square_N[start : start + step, None]
        square_MN += square_N
        np.maximum(square_MN, 0, out=square_MN)
        at_M = np.arange(len(part_MD))
        square_MN[at_M, start + at_M] = 0.0
        yield start, square_MN
