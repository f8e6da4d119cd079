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


def mask(params, pattern, search=re.search):
    """Returns a tree of bools: whether `search` finds `pattern` in each leaf's name.

    Leaves are selected by path and never by ndim, because scanned layers stack norm
    scales to matrices.

    >>> mask({'ffn': {'kernel': 1.0}, 'norm': {'scale': 1.0}}, 'kernel$')
    {'ffn': {'kernel': True}, 'norm': {'scale': False}}
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, _: bool(search(pattern, path_name(path))), params
    )


def search_decayed(pattern, name):
    """Returns whether `pattern` is in a leaf's name, which is not that of the learned
    weight of two losses: weight decay never applies to it.

    >>> [search_decayed('.', name) for name in ('encoder/a', 'balance/a')]
    [True, False]
    """
    return bool(re.search(pattern, name)) and not re.match('balance/', name)
