"""Functions of a network, compiled once per distinct network of a run.

Phases with equal modules share one compiled function. Their encoders are equal, except
with different `rope_theta`.
"""

import functools

import jax

from jepa_text.parallel import sharding


class PerNetwork:
    """Compiles `function(network, params, *arrays)` for the networks of a run.

    `modules` are the names of the modules that the function uses.
    """

    def __init__(self, mesh, function, modules=('encoder',)):
        self._mesh, self._function, self._modules = mesh, function, modules
        self._compiled = []

    def of(self, network):
        """Returns the function for one network, called as `(params, *arrays)`."""
        modules = [network.modules[name] for name in self._modules]
        for known, compiled in self._compiled:
            if known == modules:
                return compiled
        replicated = sharding.replicated(self._mesh)
        run = jax.jit(
            functools.partial(self._function, network), out_shardings=replicated
        )
        compiled = sharding.with_mesh(self._mesh, run)
        self._compiled.append((modules, compiled))
        return compiled
