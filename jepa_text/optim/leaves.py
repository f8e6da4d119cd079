"""Selection of leaves of a tree of parameters by the names of their paths."""

import re

import jax


def path_name(path):
    """Returns the path of a leaf as a name such as 'encoder/layers/ffn/up/kernel'.

    >>> tree = {'encoder': {'norm': {'scale': 1.0}}}
    >>> [path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    ['encoder/norm/scale']
    """
    return jax.tree_util.keystr(path, simple=True, separator='/')


def mask(params, pattern):
    """Returns a tree of bools: whether `re.search` finds `pattern` in each leaf's name.

    Leaves are selected by path and never by ndim, because scanned layers stack norm
    scales to matrices.

    >>> mask({'ffn': {'kernel': 1.0}, 'norm': {'scale': 1.0}}, 'kernel$')
    {'ffn': {'kernel': True}, 'norm': {'scale': False}}
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, _: re.search(pattern, path_name(path)) is not None, params
    )


def no_balance(pattern):
    """Returns the pattern, restricted to exclude the learned weight of two losses.

    >>> [bool(re.search(no_balance('.'), name)) for name in ('encoder/a', 'balance/a')]
    [True, False]
    """
    return rf'^(?!balance/)(?=.*(?:{pattern}))'
