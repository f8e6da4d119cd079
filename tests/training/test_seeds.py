"""Seeds of any size give different weights, row orders, masks and random draws."""

import itertools

import jax
import numpy as np
import pytest
import test_objectives
import test_pipeline
import tiny
from test_pipeline import whole  # noqa: F401 - a fixture

from jepa_text.data import pipeline
from jepa_text.models.network import key_of
from jepa_text.training import config as settings

SEEDS = (0, 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**33, 2**64, 2**64 + 2**32)


def distinct(drawn):
    return all(not np.array_equal(a, b) for a, b in itertools.combinations(drawn, 2))


@pytest.mark.slow
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


@pytest.mark.long
def test_a_run_does_not_depend_on_the_default_implementation_of_keys(tmp_path, capsys):
    latent = dict(regularizer=dict(name='sigreg', weight=0.1, directions=2))
    config = tiny.config(
        tmp_path,
        steps=2,
        phases=tiny.phases('hybrid', latent=latent),
        evaluate=dict(every_steps=0, rate=0.15, max_rows=8),
    )
    expected = tiny.fingerprint(tiny.train(config, tmp_path / 'run'))
    assert 'numbers' not in capsys.readouterr().err
    with jax.default_prng_impl('rbg'):
        assert tiny.fingerprint(tiny.train(config, tmp_path / 'other')) == expected
        tiny.train(config, tmp_path / 'run')
    with jax.default_matmul_precision('highest'):
        tiny.train(config, tmp_path / 'run')
    printed = ''.join(capsys.readouterr())
    assert printed.count('numbers  rounding may differ') == 1
    assert 'JAX_DEFAULT_MATMUL_PRECISION' in printed


@pytest.mark.parametrize('seed', SEEDS)
def test_a_config_accepts_any_seed(seed, folder):
    settings.plain(tiny.config(folder, seed=seed))
