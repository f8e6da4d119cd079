"""A set of vectors with what its measures share: moments, spectrum, pairs and blocks.

Measures are functions of a Cloud (geometry.py), which computes each shared quantity once,
so ten of them cost one eigenvalue decomposition and one pass over pairs. Lists, integers
and float64 become float64, other floats float32. Products of pairs are computed in that
dtype; moments, eigenvalues and all sums in float64. Besides the rows, at most one block
of them is in memory at a time.

Pairs: up to BLOCK rows, all pairs are used. More rows are divided at random into blocks
of equal size, and the pairs within blocks are used in place of all N^2 / 2: N * BLOCK / 2
pairs at a proportional cost. Each row has the same number of partners, so the remaining
error is that of a mean of that many samples, std(kernel) / sqrt(pairs).

Neighbors: searched among exactly BLOCK rows at a time, for at most NEIGHBOR_ROWS rows.
The distance to the nearest row depends on the number of rows, so measures of neighbors
are comparable between two clouds if both have at least BLOCK rows. Below that, and for
ranks at any size, only clouds of the same number of rows are comparable.
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

BLOCK = 2048
NEIGHBOR_ROWS = 4096
CHUNK = 4096  # rows that are converted to float64 at a time


class Pairs(NamedTuple):
    """Statistics of the pairs within blocks: their number; the mean of exp(-2 |z_i -
    z_j|^2) of unit rows; the mean distance of unit rows with the same label and with
    different ones, NaN without such pairs or without labels."""

    count: int
    kernel: float
    same: float
    other: float


def as_cloud(rows_ND, labels_N=None, seed=0):
    """Returns the Cloud of an array of embeddings; `seed` determines the random blocks.

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
    return Cloud(rows_ND, labels_N, seed)


@dataclasses.dataclass(frozen=True, eq=False)
class Cloud:
    """Validated embeddings and their cached statistics, created by `as_cloud`; `labels_N`
    are integers 0, 1, ... or None."""

    rows_ND: np.ndarray
    labels_N: np.ndarray | None = None
    seed: int = 0

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

    def centered(self):
        """Yields blocks of centered rows, float64; rounding errors are 0."""
        largest_D = np.maximum(self.rows_ND.max(axis=0), -self.rows_ND.min(axis=0))
        error_D = len(self) * np.finfo(np.float64).eps * largest_D
        for start in range(0, len(self), CHUNK):
            centered_CD = self.rows_ND[start : start + CHUNK] - self.mean_D
            # Differences of equal coordinates are rounding errors, without a direction.
            centered_CD[np.abs(centered_CD) <= error_D] = 0.0
            yield centered_CD

    @functools.cached_property
    def scatter(self):
        """sum_n (x_n - mean)(x_n - mean)^T, [D, D], or [N, N] Gram matrix if smaller."""
        if len(self) < self.width:
            centered_ND = np.concatenate(list(self.centered()))
            return centered_ND @ centered_ND.T
        scatter_DD = np.zeros((self.width, self.width))
        for centered_CD in self.centered():
            scatter_DD += centered_CD.T @ centered_CD
        return scatter_DD

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
            blocks = list(self.centered())
            vectors = np.concatenate(blocks).T @ vectors / np.sqrt(values_K)
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

    @functools.cached_property
    def blocks(self):
        """Row indices in random blocks of at most BLOCK; a single block is in order."""
        count = -(-len(self) // BLOCK)
        if count == 1:
            return [np.arange(len(self))]
        order_N = np.random.default_rng(self.seed).permutation(len(self))
        return np.array_split(order_N, count)

    def unit(self, index_M):
        """Returns these rows at length 1, in the rows' dtype; zero rows stay zero."""
        norm_M1 = self.norm_N[index_M][:, None]
        safe_M1 = np.where(norm_M1 > 0, norm_M1, 1.0).astype(self.rows_ND.dtype)
        return self.rows_ND[index_M] / safe_M1

    @functools.cached_property
    def pairs(self):
        """The `Pairs`, from one pass over the products of unit rows within each block."""
        sums = np.zeros(5)
        for index_M in self.blocks:
            square_MM = squared_distances(self.unit(index_M))
            kernel_MM = np.exp(-2 * square_MM)
            np.fill_diagonal(kernel_MM, 0.0)  # a row does not pair with itself
            size = len(index_M)
            sums[0] += size * (size - 1)
            sums[1] += kernel_MM.sum(dtype=np.float64)
            if self.labels_N is not None:
                sums[2:] += _by_label(np.sqrt(square_MM), self.labels_N[index_M])
        count, kernel, same, same_count, other = sums
        is_labeled = self.labels_N is not None and count > same_count
        with np.errstate(divide='ignore', invalid='ignore'):
            return Pairs(
                int(count) // 2,
                kernel / count,
                same / same_count if same_count else np.nan,
                other / (count - same_count) if is_labeled else np.nan,
            )

    @functools.cached_property
    def neighbor_blocks(self):
        """Indices of BLOCK rows each, or of all if fewer, to search for neighbors."""
        if len(self.blocks) == 1:
            return self.blocks
        order_N = np.concatenate(self.blocks)
        count = min(len(self), NEIGHBOR_ROWS) // BLOCK
        return [order_N[i * BLOCK : (i + 1) * BLOCK] for i in range(max(1, count))]


def squared_distances(rows_MD):
    """Returns |x_i - x_j|^2 of all pairs in the dtype of the rows, with a diagonal of 0.

    Rows are centered first, which changes no distance: products of rows with a large
    common component would lose the digits in which the rows differ.

    >>> squared_distances(np.array([[1.0, 0.0], [1.0, 2.0]])).tolist()
    [[0.0, 4.0], [4.0, 0.0]]
    """
    rows_MD = rows_MD - rows_MD.mean(axis=0)
    square_M = np.einsum('MD,MD->M', rows_MD, rows_MD)
    distance_MM = rows_MD @ rows_MD.T
    distance_MM *= -2
    distance_MM += square_M[:, None]
    distance_MM += square_M[None, :]
    np.maximum(distance_MM, 0, out=distance_MM)
    np.fill_diagonal(distance_MM, 0.0)
    return distance_MM


def _by_label(distance_MM, labels_M):
    """Returns the sum over pairs of one label, their count, the sum over other pairs."""
    present, labels_M = np.unique(labels_M, return_inverse=True)
    member_MC = np.zeros((len(labels_M), len(present)), distance_MM.dtype)
    member_MC[np.arange(len(labels_M)), labels_M] = 1
    sums_MC = (distance_MM @ member_MC).astype(np.float64)
    same = sums_MC[np.arange(len(labels_M)), labels_M].sum()
    sizes_C = np.bincount(labels_M).astype(np.float64)
    return np.array([same, np.sum(sizes_C * (sizes_C - 1)), sums_MC.sum() - same])
