"""The presets of the papers at full scale have the papers' numbers."""

import draws
import jax
import numpy as np
import pytest

from jepa_text.optim import adam, schedules
from jepa_text.parallel import sharding
from jepa_text.settings import config_file
from jepa_text.training import config as settings
from jepa_text.training import preflight
from jepa_text.training import recipe as recipes
from jepa_text.training import state as states

PRESETS = list(config_file.shared('presets').SUMMARIES)
# With an untied head: arXiv 2507.00994.
WITH_HEAD = {'210m': 310_266_624, '610m': 755_625_600, '1b': 1_409_482_944}


def built(argument):
    """Returns the config and outline of an argument on 64 abstract devices."""
    config = settings.plain(config_file.read(f'pretrain:{argument}'))
    words = config['plan']['vocab_size']
    return config, recipes.outline(config, sharding.abstract_mesh(64), words)


def count(phase, modules):
    params = states.abstract(phase.network.encoder, phase.objective).params
    leaves = jax.tree.leaves({name: params[name] for name in modules})
    return sum(leaf.size for leaf in leaves)


@pytest.mark.parametrize('preset', draws.in_stages(*PRESETS, fast=3, slow=len(PRESETS)))
def test_every_preset_is_valid(preset):
    config, made = built(f'{preset},size=210m')
    assert config['name'] == f'{preset}_210m'
    for phase in made.phases:
        assert count(phase, ('encoder', 'lm_head')) == WITH_HEAD['210m']
        state = made.shapes(phase)
        assert (state.target is not None) == phase.objective.has_target
        batch = made.abstract_batch(phase, 8)
        loss, _ = jax.eval_shape(
            preflight.loss(phase.network, phase.objective), state.params, state, batch
        )
        assert loss.shape == ()


@pytest.mark.parametrize('size', WITH_HEAD)
def test_sizes_and_steps_of_2507_00994(size):
    config, made = built(f'clm_mlm,size={size}')
    assert count(made.phases[1], ('encoder', 'lm_head')) == WITH_HEAD[size]
    # 192 devices of 12 sequences of 1,024 on average.
    assert made.phases[0].batch_size * made.phases[0].length == 192 * 12 * 1024
    assert [(p.start, p.stop) for p in made.phases] == [(0, 10_500), (10_500, 42_000)]
    rate = schedules.make(config['schedule'], made.steps)
    at = [0, 1999, 20_000, 40_000, 41_999]
    expected = [2.5e-7, 5e-4, 5e-4, 4.9975e-4, 0.0]
    np.testing.assert_allclose([rate(k) for k in at], expected, rtol=1e-4, atol=1e-12)


def test_weight_decay_applies_to_all_parameters_except_the_balance():
    config, made = built('jepa_mlm_paper,size=210m')
    state = made.shapes(made.phases[0])
    masked = adam.mask(state.params, config['optimizer']['decay_paths'])
    assert not any(jax.tree.leaves(masked.pop('balance')))
    assert all(jax.tree.leaves(masked))


def test_size_of_2606_05173():
    """The paper: 18,914,304 in blocks, with biases, and 15,627,264 in the embedding."""
    _, made = built('jepa_mlm_paper,size=35m')
    (phase,) = made.phases
    encoder = count(phase, ('encoder',))
    assert encoder - 15_627_264 == pytest.approx(18_914_304, rel=0.01)
    assert count(phase, ('predictor',)) == pytest.approx(2_965_376, rel=0.3)
    assert made.steps * phase.batch_size == 3 * 6_400_000
    assert phase.network.encoder.width // phase.network.encoder.heads == 64
