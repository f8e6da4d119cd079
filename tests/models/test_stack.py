"""Layers of a trunk, scanned or unrolled, cost one trace."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

from jepa_text.models import block, stack

LAYER = block.Layer(
    heads=1, head_width=4, ffn_width=4, norm_eps=1e-5, attention='xla', causal=False
)


class Counted(nn.Module):
    """A layer that counts how often Python runs it."""

    layer: block.Layer
    calls = 0

    @nn.compact
    def __call__(self, hidden_BLD, kind=None):
        type(self).calls += 1
        return nn.Dense(hidden_BLD.shape[-1])(hidden_BLD), None


class Trunk(nn.Module):
    scan: bool
    remat: str

    @nn.compact
    def __call__(self, hidden_BLD):
        return stack.run(
            Counted, LAYER, hidden_BLD, (), (0, 0, 0), scan=self.scan, remat=self.remat
        )[0]


@pytest.mark.parametrize('remat', ['none', 'dots'])
@pytest.mark.parametrize('scan', [True, False])
def test_layers_are_traced_once(scan, remat):
    trunk, hidden_BLD = Trunk(scan, remat), jnp.ones((1, 2, 4))
    params = jax.jit(trunk.init)(jax.random.key(0), hidden_BLD)
    Counted.calls = 0
    jax.jit(jax.grad(lambda p: jnp.sum(trunk.apply(p, hidden_BLD)))).lower(params)
    assert Counted.calls == 1
