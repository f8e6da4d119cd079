"""Similarity of two representations of the same texts, between layers or models (CKA).

Row n of both is text n; the widths may differ. Rows are centered first. All values are
invariant to rotations and uniform scaling of either side. Moments are float64, without
[N, N] matrices.
"""

import numpy as np

from jepa_text.measures import cloud


def unbiased_cka(first, second):
    """Returns CKA from unbiased estimates of HSIC (Song et al. 2012; Nguyen et al. 2021).

    Near 0 for unrelated vectors, whatever the number of texts; it may be slightly
    negative. HSIC = (tr KL + 1K1 1L1 / ((N-1)(N-2)) - 2 1KL1 / (N-2)) / (N(N-3)), where K
    and L are the Gram matrices of the rows without their diagonals. Raises ValueError for
    fewer than four texts.

    >>> rows_ND = np.array([[1.0, 2.0], [3.0, 5.0], [4.0, 1.0], [0.0, 0.0], [2.0, 2.0]])
    >>> round(unbiased_cka(rows_ND, rows_ND[:, ::-1]), 6)
    1.0
    """
    first, second = cloud.as_cloud(first), cloud.as_cloud(second)
    if len(first) != len(second) or len(first) < 4:
        raise ValueError(
            'Unbiased CKA compares two representations of the same texts, at least four, '
            f'but the shapes are {first.rows_ND.shape} and {second.rows_ND.shape}.'
        )
    one, two = _hsic(first, first), _hsic(second, second)
    is_known = one > 0 and two > 0
    return float(_hsic(first, second) / np.sqrt(one * two)) if is_known else 0.0


def similarity_map(firsts, seconds):
    """Returns [R, C]: `unbiased_cka` of each of `firsts` and of `seconds`, e.g. layers.

    >>> rows_ND = np.array([[1.0, 2.0], [3.0, 5.0], [4.0, 1.0], [0.0, 0.0], [2.0, 2.0]])
    >>> similarity_map([rows_ND, rows_ND[:, :1]], [rows_ND]).round(2).tolist()
    [[1.0], [0.63]]
    """
    # A Cloud caches its moments, so they are computed once for each side.
    firsts = [cloud.as_cloud(rows) for rows in firsts]
    seconds = [cloud.as_cloud(rows) for rows in seconds]
    return np.array([[unbiased_cka(one, two) for two in seconds] for one in firsts])


def _hsic(first, second):
    """Returns N(N-3) times the unbiased HSIC; K, L are Gram matrices of centered rows.

    A row of K without its diagonal sums to minus that diagonal entry, so 1KL1 = sum_n
    K_nn L_nn, which is also what tr KL loses.
    """
    one_N, two_N = _diagonal(first), _diagonal(second)
    # A Cloud caches its scatter; [N, N] has the same sum of squares as [D, D].
    is_own = first is second
    moments = first.scatter if is_own else first.centered_ND.T @ second.centered_ND
    count, shared = len(first), one_N @ two_N
    both = one_N.sum() * two_N.sum() / ((count - 1) * (count - 2))
    return np.sum(moments**2) - shared + both - 2 * shared / (count - 2)


def _diagonal(rows):
    return np.einsum('ND,ND->N', rows.centered_ND, rows.centered_ND)
