"""Our summary against a naive one, and the time of a whole analysis; not run by CI.

    python tests/geometry_speed.py            about three minutes on two cores

The naive cell is the method of the reference repository of arXiv 2606.05173 written
plainly in numpy: a whole SVD for each spectral measure, differences of all pairs as
[n, n, D] arrays (a row at a time here, as they would not fit into memory) for class
distances, alignment and uniformity, and no sharing. It computes one form where ours
computes four. Both use one thread.
"""

import time
from concurrent import futures

import numpy as np
from threadpoolctl import threadpool_limits

from jepa_text.measures import forms, geometry


def vectors(rows, width=512, seed=0):
    """Embeddings with a common direction and a decaying spectrum; lengths; labels."""
    rng = np.random.default_rng(seed)
    rows_ND = rng.standard_normal((rows, width), np.float32)
    rows_ND = rows_ND * np.arange(1, width + 1, dtype=np.float32) ** -0.5 + 0.3
    return rows_ND, rng.integers(5, 128, (rows, 2)), rng.integers(0, 3, rows)


def naive(rows_ND, labels_N):
    """The reference's measures of one cell, each on its own; float32."""
    centered_ND = rows_ND - rows_ND.mean(axis=0)
    found = {}

    def spectrum():
        return np.linalg.svd(centered_ND, full_matrices=False)[1]

    share = spectrum() ** 2 / np.sum(spectrum() ** 2)
    found['spectral_entropy'] = -np.sum(share * np.log(share)) / np.log(len(share))
    share = spectrum() / np.sum(spectrum())
    found['effective_rank'] = np.exp(-np.sum(share * np.log(share)))
    share = spectrum() ** 2 / np.sum(spectrum() ** 2)
    found['rank90'] = int(np.searchsorted(np.cumsum(share), 0.9)) + 1
    found['stable_rank'] = np.sum(spectrum() ** 2) / spectrum()[0] ** 2
    unit_ND = rows_ND / np.linalg.norm(rows_ND, axis=1, keepdims=True)
    same, other, kernel, fourth = [], [], [], []
    for n, row_D in enumerate(unit_ND[:-1]):
        distance_M = np.linalg.norm(row_D - unit_ND[n + 1 :], axis=1)
        alike_M = labels_N[n + 1 :] == labels_N[n]
        same.append(distance_M[alike_M].sum())
        other.append(distance_M[~alike_M].sum())
    for n, row_D in enumerate(unit_ND[:-1]):
        kernel.append(np.exp(-2 * np.sum((row_D - unit_ND[n + 1 :]) ** 2, axis=1)).sum())
    for n, row_D in enumerate(unit_ND[:-1]):
        mates_MD = unit_ND[n + 1 :][labels_N[n + 1 :] == labels_N[n]]
        fourth.append(np.sum(np.sum((row_D - mates_MD) ** 2, axis=1) ** 2))
    count = len(unit_ND) * (len(unit_ND) - 1) / 2
    found['uniformity'] = np.log(np.sum(kernel) / count)
    found['distance_ratio'] = np.sum(same) / np.sum(other)
    found['paper_alignment'] = np.sum(fourth)
    return found


def seconds(work, *arguments):
    """(seconds, result) of one call."""
    began = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - began, result


def compare(rows):
    """One cell of `rows` sentences, bidirectional."""
    rows_ND, lengths_N2, labels_N = vectors(rows)
    ours, found = min(
        (seconds(forms.summary, rows_ND, lengths_N2, labels_N) for _ in range(3)),
        key=lambda pair: pair[0],
    )
    theirs, expected = seconds(naive, rows_ND, labels_N)
    for name in ('spectral_entropy', 'effective_rank', 'stable_rank', 'uniformity'):
        error = abs(found[f'{name}/raw'] / expected[name] - 1)
        print(f'  {name}: {found[f"{name}/raw"]:.5g}, relative difference {error:.1g}')
    print(f'{rows} x 512: ours {ours:.2f} s for four forms, naive {theirs:.2f} s for one')
    print(f'  a cell: {theirs / ours:.1f} times; a form: {4 * theirs / ours:.1f} times')


def whole_analysis():
    """Five tasks x four poolings of 10,000 sentences, all measures in all forms.

    One thread a cell, two cells at a time: threads within products of this size wait for
    each other more than they work.
    """
    cells = [vectors(10_000, seed=seed) for seed in range(4)]
    work = [cells[index % 4] for index in range(20)]
    began = time.perf_counter()
    with futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda cell: forms.summary(*cell), work))
    print(f'20 cells of 10,000 x 512, two threads: {time.perf_counter() - began:.0f} s')


def main():
    """Prints all of it."""
    with threadpool_limits(1):
        geometry.summary(vectors(100)[0])
        compare(2000)
        compare(10_000)
        whole_analysis()


if __name__ == '__main__':
    main()
