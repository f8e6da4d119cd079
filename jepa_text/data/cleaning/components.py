"""Connected components of a graph: union-find on arrays, for edges in any order.

    parents[i] <= i;  the root of a component is its smallest node

The roots depend only on the set of edges, not on their order.
"""

import numpy as np

NODES = 2**18  # initialized at a time


def reset(parents):
    """Makes every node of `parents` [N] its own component, in place."""
    for start in range(0, len(parents), NODES):
        end = min(start + NODES, len(parents))
        parents[start:end] = np.arange(start, end)


def roots(parents, nodes):
    """Returns the roots of `nodes` [M] as int64 [M], and compresses their paths."""
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
