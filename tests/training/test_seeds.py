"""Seeds of any size give different weights, row orders, masks and random draws."""

import itertools

import jax
import numpy as np
import pytest
import test_objectives
import test_pipeline
import tiny
from test_pipeline import whole  # noqa: F401 - a fixture

from jepa_text.data import pipeline, tokenizers
from jepa_text.models.network import key_of
from jepa_text.training import config as settings

SEEDS = (0, 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**33, 2**64, 2**64 + 2**32)


@pytest.fixture(scope='module')
def ours():
    return tokenizers.load(tokenizers.BUNDLED)


def distinct(drawn):
    return all(not np.array_equal(a, b) for a, b in itertools.combinations(drawn, 2))


def test_no_two_seeds_share_weights_or_draws():
    assert distinct([jax.random.key_data(key_of(seed)) for seed in SEEDS])
    network = test_objectives.network_of(test_objectives.build('mlm'))
    ends = [jax.jit(network.init, static_argnums=0)(seed) for seed in (0, 2**32)]
    assert distinct([params['encoder']['embedding'] for params in ends])


def test_no_two_seeds_share_order_or_masks(whole):  # noqa: F811
    rows = pipeline.Rows(whole, 'train')
    batches = [test_pipeline.take(2, rows, seed=seed) for seed in SEEDS]
    assert distinct([np.stack([b['tokens'] for b in batch]) for batch in batches])
    assert distinct([np.stack([b['draw'] for b in batch]) for batch in batches])


@pytest.mark.parametrize('seed', SEEDS)
def test_a_config_accepts_any_seed(seed, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    settings.plain(tiny.config(folder, seed=seed))


@pytest.mark.slow
@pytest.mark.parametrize('name', ['sigreg', 'visreg'])
def test_random_directions_depend_on_seed_and_step(name):
    latent = dict(regularizer=dict(name=name, weight=0.1, directions=2))
    objective = test_objectives.build('hybrid', latent=latent)
    network = test_objectives.network_of(objective)
    params = test_objectives.init(network)
    batch = test_objectives.batch_of(objective)

    @jax.jit
    def penalty(key, step):
        view = test_objectives.view_of(objective, network, batch, None, params['encoder'])
        memory = view.memory | {'key': key}
        view = view.replace(memory=memory, step=step)
        return objective.forward(params, view)[0][name]

    keys = [jax.random.key_data(key_of(seed)) for seed in (0, 1, 2**32)]
    found = [float(penalty(key, step)) for key in keys for step in (0, 1)]
    assert len(set(found)) == 6
    assert float(penalty(keys[1], 1)) == found[3]
