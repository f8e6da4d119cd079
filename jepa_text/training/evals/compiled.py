"""Functions of a network, compiled once for all networks with equal modules.

Phases of a run, and runs of a study, share compiled functions. The encoders of phases are
equal, except with different `rope_theta`.
"""

import functools

import jax

from jepa_text.cost import memo
from jepa_text.parallel import sharding


def on_mesh(mesh, function, network, modules=('encoder',)):
    """Returns `function(network, params, *arrays)` for a network, called as
    `(params, *arrays)`.

    `modules` are the names of the modules that the function uses.
    """
    return _on_mesh(mesh, function, network.only(modules))


@memo.memoize
def _on_mesh(mesh, function, modules):
    run = functools.partial(function, modules)
    run = jax.jit(run, out_shardings=sharding.replicated(mesh))
    return sharding.with_mesh(mesh, run)
