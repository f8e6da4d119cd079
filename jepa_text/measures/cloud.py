"""A cloud of vectors, one a row, and what its measures share: spectrum, pairs, blocks.

    of          rows -> Cloud; a Cloud stays as it is
    Cloud       each part is computed once, when first asked for

Measures are functions of a Cloud (geometry.py), so ten of them cost one eigenvalue
problem and one pass over pairs. The rows are kept as float64 if they come so, else as
float32; products of pairs are in that type, while moments, eigenvalues and all sums are
float64. Beside the rows no more than a block of them is held at a time.

Pairs: up to BLOCK rows, all of them. More rows are dealt at random into equal blocks, and
the pairs within blocks stand for all: N * BLOCK / 2 pairs at the cost of as many, instead
of N^2 / 2. Every row has the same number of partners, so what is left of the error is
that of a mean of so many draws, std(kernel) / sqrt(pairs).

Neighbors: among exactly BLOCK rows at a time, NEIGHBOR_ROWS rows at most. How near the
next row is depends on how many there are, so what neighbors say of two clouds compares
if both have BLOCK rows or more. Below, and for ranks at any size, only clouds of as many
rows as each other compare: hubness of one distribution is 1.4 at 200 rows, 3.3 at 2,048.
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

BLOCK = 2048
NEIGHBOR_ROWS = 4096
CHUNK = 4096  # rows that are copied to float64 at a time


class Pairs(NamedTuple):
    """Sums over the pairs of the blocks. `same` and `other`: mean distance of unit rows
    of one label and of two; NaN where there is no such pair, or no labels."""

    count: int
    kernel: float
    same: float
    other: float


def of(rows_ND, labels_N=None, seed=0):
    """The Cloud of an array of embeddings; `seed` deals the blocks.

    Raises ValueError for another shape than [N, D], fewer than one row, values that are
    not finite, or another number of labels.

    >>> of([[3.0, 0.0], [0.0, 4.0]]).mean_D.tolist()
    [1.5, 2.0]
    """
    if isinstance(rows_ND, Cloud):
        if labels_N is not None:
            raise ValueError('A Cloud keeps its own labels: give rows, or no labels.')
        return rows_ND
    rows_ND = np.asarray(rows_ND)
    # float32 is exact for what is narrower; lists and whole numbers become float64.
    narrow = rows_ND.dtype.kind not in 'iub' and rows_ND.dtype != np.float64
    rows_ND = rows_ND.astype(np.float32 if narrow else np.float64, copy=False)
    if rows_ND.ndim != 2 or not rows_ND.size:
        raise ValueError(
            'Geometry needs embeddings [N, D] with at least 1 row, but their shape is '
            f'{rows_ND.shape}.'
        )
    bad_N = ~np.isfinite(rows_ND.sum(axis=1, dtype=np.float64))
    if bad_N.any():
        raise ValueError(
            f'{bad_N.sum()} of {len(bad_N)} embeddings hold NaN or infinity, the first '
            f'is row {bad_N.argmax()}. Look at the model before its geometry.'
        )
    if labels_N is not None:
        labels_N = np.unique(np.asarray(labels_N), return_inverse=True)[1]
        if labels_N.shape != rows_ND.shape[:1]:
            raise ValueError(
                f'{len(rows_ND)} embeddings need as many labels, but there are '
                f'{labels_N.size}.'
            )
    return Cloud(rows_ND, labels_N, seed)


@dataclasses.dataclass(frozen=True, eq=False)
class Cloud:
    """Rows that are checked; make one with `of`. `labels_N` are 0, 1, ... or None.

    `shared` holds what `once` computed: what a measure wants to share with another.
    """

    rows_ND: np.ndarray
    labels_N: np.ndarray | None = None
    seed: int = 0
    shared: dict = dataclasses.field(default_factory=dict)

    def once(self, name, compute):
        """compute(self), which is done for the first caller of this name only."""
        if name not in self.shared:
            self.shared[name] = compute(self)
        return self.shared[name]

    def __len__(self):
        return len(self.rows_ND)

    @property
    def width(self):
        """D."""
        return self.rows_ND.shape[1]

    def pairs_needed(self, what):
        """Raises ValueError unless there are two rows."""
        if len(self) < 2:
            raise ValueError(
                f'{what} needs embeddings [N, D] with at least 2 rows, but their shape '
                f'is {self.rows_ND.shape}.'
            )
        return self

    @functools.cached_property
    def mean_D(self):
        """The mean row, float64."""
        return self.rows_ND.mean(axis=0, dtype=np.float64)

    @functools.cached_property
    def norm_N(self):
        """The length of each row, float64."""
        rows_ND = self.rows_ND
        return np.sqrt(np.einsum('ND,ND->N', rows_ND, rows_ND, dtype=np.float64))

    def centered(self):
        """Blocks of the rows minus their mean, float64; rounding error is set to zero."""
        largest_D = np.maximum(self.rows_ND.max(axis=0), -self.rows_ND.min(axis=0))
        error_D = len(self) * np.finfo(np.float64).eps * largest_D
        for start in range(0, len(self), CHUNK):
            centered_CD = self.rows_ND[start : start + CHUNK] - self.mean_D
            # What is left of equal coordinates is rounding error, and has no direction.
            centered_CD[np.abs(centered_CD) <= error_D] = 0.0
            yield centered_CD

    @functools.cached_property
    def scatter(self):
        """sum_n (x_n - mean)(x_n - mean)^T, [D, D], or the [N, N] products if fewer."""
        if len(self) < self.width:
            centered_ND = np.concatenate(list(self.centered()))
            return centered_ND @ centered_ND.T
        scatter_DD = np.zeros((self.width, self.width))
        for centered_CD in self.centered():
            scatter_DD += centered_CD.T @ centered_CD
        return scatter_DD

    @functools.cached_property
    def axes(self):
        """(values_K, vectors_DK): scatter's eigenvalues, largest first, and directions.

        Directions whose eigenvalue is rounding error are left out.
        """
        values_K, vectors = np.linalg.eigh(self.scatter)
        values_K = self._without_error(values_K[::-1])
        kept_K = values_K > 0
        values_K, vectors = values_K[kept_K], vectors[:, ::-1][:, kept_K]
        if len(self) < self.width:
            blocks = list(self.centered())
            vectors = np.concatenate(blocks).T @ vectors / np.sqrt(values_K)
        return values_K, vectors

    @functools.cached_property
    def values_K(self):
        """Squared singular values of the centered rows, largest first; min(N, D)."""
        if 'axes' in self.__dict__:
            kept_K = self.axes[0]
            return np.pad(kept_K, (0, min(len(self), self.width) - len(kept_K)))
        return self._without_error(np.linalg.eigvalsh(self.scatter)[::-1])

    @functools.cached_property
    def raw_values_K(self):
        """Squared singular values of the rows as they are, largest first; min(N, D)."""
        if len(self) < self.width:
            rows_ND = self.rows_ND.astype(np.float64)
            moment = rows_ND @ rows_ND.T
        else:
            # Exact, and steadier than subtracting the mean from the second moment.
            moment = self.scatter + len(self) * np.outer(self.mean_D, self.mean_D)
        return self._without_error(np.linalg.eigvalsh(moment)[::-1])

    def _without_error(self, values_K):
        eps = max(self.rows_ND.shape) * np.finfo(np.float64).eps
        error = max(eps * values_K[0], (eps * np.linalg.norm(self.norm_N)) ** 2)
        return np.where(values_K > error, values_K, 0.0)

    @functools.cached_property
    def blocks(self):
        """Indices of the rows, dealt into blocks of at most BLOCK; in order if one."""
        count = -(-len(self) // BLOCK)
        if count == 1:
            return [np.arange(len(self))]
        order_N = np.random.default_rng(self.seed).permutation(len(self))
        return np.array_split(order_N, count)

    def unit(self, index_M):
        """Those rows at length 1, in the type of the rows; zero rows stay zero."""
        norm_M1 = self.norm_N[index_M][:, None]
        safe_M1 = np.where(norm_M1 > 0, norm_M1, 1.0).astype(self.rows_ND.dtype)
        return self.rows_ND[index_M] / safe_M1

    @functools.cached_property
    def pairs(self):
        """Pairs: one pass over the products of unit rows within each block."""
        sums = np.zeros(5)
        for index_M, square_MM in zip(self.blocks, self.unit_distances()):
            kernel_MM = np.exp(-2 * square_MM)
            np.fill_diagonal(kernel_MM, 0.0)  # a row is no pair with itself
            size = len(index_M)
            sums[0] += size * (size - 1)
            sums[1] += kernel_MM.sum(dtype=np.float64)
            if self.labels_N is not None:
                sums[2:] += _by_label(np.sqrt(square_MM), self.labels_N[index_M])
        count, kernel, same, same_count, other = sums
        with np.errstate(divide='ignore', invalid='ignore'):
            return Pairs(
                int(count) // 2,
                kernel / count,
                same / same_count if same_count else np.nan,
                other / (count - same_count) if count > same_count > 0 else np.nan,
            )

    def unit_distances(self):
        """Squared distances of unit rows, block by block; not to be written to."""
        if len(self.blocks) == 1:
            yield from self.near_distances()
            return
        for index_M in self.blocks:
            yield squared_distances(self.unit(index_M))

    def near_distances(self):
        """The same of `neighbor_blocks`, kept for who asks next."""
        return self.once('near_distances', _near_distances)

    @functools.cached_property
    def neighbor_blocks(self):
        """Indices of BLOCK rows each, within which neighbors are looked for; of all rows
        if these are fewer."""
        if len(self.blocks) == 1:
            return self.blocks
        order_N = np.concatenate(self.blocks)
        count = min(len(self), NEIGHBOR_ROWS) // BLOCK
        return [order_N[i * BLOCK : (i + 1) * BLOCK] for i in range(max(1, count))]


def squared_distances(rows_MD):
    """|x_i - x_j|^2 of all pairs, in the type of the rows; exactly 0 on the diagonal.

    Rows are centered first, which changes no distance: products of rows that share a long
    common part would lose the digits in which they differ.

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


def _near_distances(rows):
    return [squared_distances(rows.unit(index_M)) for index_M in rows.neighbor_blocks]


def _by_label(distance_MM, labels_M):
    """Sum over pairs of one label, their number, sum over pairs of two labels."""
    present, labels_M = np.unique(labels_M, return_inverse=True)
    member_MC = np.zeros((len(labels_M), len(present)), distance_MM.dtype)
    member_MC[np.arange(len(labels_M)), labels_M] = 1
    sums_MC = (distance_MM @ member_MC).astype(np.float64)
    same = sums_MC[np.arange(len(labels_M)), labels_M].sum()
    sizes_C = np.bincount(labels_M).astype(np.float64)
    return np.array([same, np.sum(sizes_C * (sizes_C - 1)), sums_MC.sum() - same])
