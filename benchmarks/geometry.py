"""The geometry of vectors in four forms beside a naive computation of one.

    python benchmarks/geometry.py [ROWS] [--rounds=3]       10,000 rows by default

The naive one is the method of the reference repository of arXiv 2606.05173, written
plainly in numpy: a whole SVD for each spectral measure, and differences of all pairs (a
row at a time, as they would not fit into memory). Both use one thread.
"""

import harness
import numpy as np
from threadpoolctl import threadpool_limits

NAMES = ('spectral_entropy', 'effective_rank', 'stable_rank', 'uniformity')


def vectors(rows, width=512):
    """Embeddings with a common direction and a decaying spectrum; lengths; labels."""
    rng = np.random.default_rng(0)
    rows_ND = rng.standard_normal((int(rows), width), np.float32)
    rows_ND = rows_ND * np.arange(1, width + 1, dtype=np.float32) ** -0.5 + 0.3
    return rows_ND, rng.integers(5, 128, (int(rows), 2)), rng.integers(0, 3, int(rows))


def ours(rows='10000'):
    """All measures in all forms."""
    from jepa_text.measures import forms

    given = vectors(rows)

    def work():
        with threadpool_limits(1):
            values = forms.summary(*given)
        return [float(values[f'{name}/raw']) for name in NAMES]

    return work


def theirs(rows='10000'):
    """Four spectral measures, and three passes over all pairs, in one form."""
    rows_ND, _, labels_N = vectors(rows)

    def work():
        with threadpool_limits(1):
            return naive(rows_ND, labels_N)

    return work


def naive(rows_ND, labels_N):
    """The values of NAMES; distances within and between classes are computed too."""
    centered_ND = rows_ND - rows_ND.mean(axis=0)
    spectra = [np.linalg.svd(centered_ND, full_matrices=False)[1] for _ in range(4)]
    first_D = spectra[0] ** 2 / np.sum(spectra[0] ** 2)
    second_D = spectra[1] / np.sum(spectra[1])
    unit_ND = rows_ND / np.linalg.norm(rows_ND, axis=1, keepdims=True)
    sums = np.zeros(4)
    for n, row_D in enumerate(unit_ND[:-1]):
        distance_M = np.linalg.norm(row_D - unit_ND[n + 1 :], axis=1)
        alike_M = labels_N[n + 1 :] == labels_N[n]
        sums[:2] += distance_M[alike_M].sum(), distance_M[~alike_M].sum()
    for n, row_D in enumerate(unit_ND[:-1]):
        sums[2] += np.exp(-2 * np.sum((row_D - unit_ND[n + 1 :]) ** 2, axis=1)).sum()
    for n, row_D in enumerate(unit_ND[:-1]):
        mates_MD = unit_ND[n + 1 :][labels_N[n + 1 :] == labels_N[n]]
        sums[3] += np.sum(np.sum((row_D - mates_MD) ** 2, axis=1) ** 2)
    return [
        float(-np.sum(first_D * np.log(first_D)) / np.log(len(first_D))),
        float(np.exp(-np.sum(second_D * np.log(second_D)))),
        float(np.sum(spectra[2] ** 2) / spectra[3][0] ** 2),
        float(np.log(sums[2] / (len(unit_ND) * (len(unit_ND) - 1) / 2))),
    ]


if __name__ == '__main__':
    harness.main(__doc__, {'ours, four forms': ours, 'naive, one form': theirs})
