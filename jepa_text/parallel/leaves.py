"""Leaves of a tree by name, which is their path: 'encoder/layers/ffn/up/kernel'."""

import jax


def by_name(tree):
    """Returns {name: leaf}.

    >>> by_name({'encoder': {'norm': {'scale': 1.0}}})
    {'encoder/norm/scale': 1.0}
    """
    return {_name(path): x for path, x in jax.tree_util.tree_leaves_with_path(tree)}


def mapped(function, tree):
    """Returns the tree with function(name, leaf) in place of each leaf."""
    return jax.tree_util.tree_map_with_path(
        lambda path, x: function(_name(path), x), tree
    )


def _name(path):
    return jax.tree_util.keystr(path, simple=True, separator='/')
