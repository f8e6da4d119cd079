"""A function of an encoder, compiled once for each that a run has.

Phases share one, but for those that turn by another `rope_theta`.
"""

import functools

import jax

from jepa_text.parallel import sharding


class OfEncoder:
    """`function(network, params, *arrays)` for the networks of a run, on a mesh."""

    def __init__(self, mesh, function):
        self._mesh, self._function, self._compiled = mesh, function, []

    def of(self, network):
        """The function of one network, as `(params, *arrays)`."""
        for known, compiled in self._compiled:
            if known == network.encoder:
                return compiled
        whole = sharding.replicated(self._mesh)
        run = jax.jit(functools.partial(self._function, network), out_shardings=whole)
        self._compiled.append((network.encoder, sharding.within(self._mesh, run)))
        return self._compiled[-1][1]
