"""Which nodes hang together, given edges in any order: union-find on arrays.

    parents[i] <= i;  the root of a component is its least node

The roots depend on the edges alone, not on their order.
"""

import numpy as np

NODES = 2**18  # made at a time


def alone(parents):
    """Makes every node of `parents` [N] a component of its own, in place."""
    for start in range(0, len(parents), NODES):
        end = min(start + NODES, len(parents))
        parents[start:end] = np.arange(start, end)


def roots(parents, nodes):
    """int64 [M], the roots of `nodes` [M], which then know them directly."""
    found = np.asarray(parents[nodes])
    while True:
        above = np.asarray(parents[found])
        if (above == found).all():
            break
        found = above
    parents[nodes] = found
    return found


def unite(parents, first, second):
    """Adds the edges first[i] - second[i], in place."""
    while len(first):
        one, other = roots(parents, first), roots(parents, second)
        apart = one != other
        first, second = first[apart], second[apart]
        lower = np.minimum(one, other)[apart]
        np.minimum.at(parents, np.maximum(one, other)[apart], lower)
