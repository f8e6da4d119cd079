"""What the closer look measures, against numpy; and the alarms in words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from jepa_text import telemetry
from jepa_text.measures import geometry

N, D = 60, 16


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_effective_rank_is_that_of_geometry(rng):
    x_ND = rng.normal(size=(N, D)) * np.arange(1, D + 1)
    where_N = rng.random(N) < 0.7
    found = jax.jit(telemetry.effective_rank)(jnp.float32(x_ND), where_N)
    assert_allclose(found, geometry.effective_rank(x_ND[where_N]), rtol=1e-3)


def test_effective_rank_of_few_directions(rng):
    basis = rng.normal(size=(2, D))
    x_ND = rng.normal(size=(N, 2)) @ basis
    rank = telemetry.effective_rank(jnp.float32(x_ND), np.ones(N, bool))
    assert 1 < rank < 2.1
    same = jnp.ones((N, D))
    assert telemetry.effective_rank(same, np.ones(N, bool)) <= 1.001


def test_spread_is_one_for_all_directions_and_zero_for_one(rng):
    where = np.ones((4, 200), bool)
    everywhere = jnp.float32(rng.normal(size=(4, 200, 64)))
    assert_allclose(telemetry.spread(everywhere, where), 1, atol=0.05)
    assert_allclose(telemetry.spread(jnp.ones((4, 200, 64)), where), 0, atol=1e-3)


def test_trivial_predictors_against_loops(rng):
    target = rng.normal(size=(3, 5, D)) + 1.0
    embedding = rng.normal(size=(3, 5, D))
    positions = rng.integers(0, 4, (3, 5))
    where = rng.random((3, 5)) < 0.8
    found = telemetry.latents(
        jnp.float32(target),
        jnp.float32(embedding),
        positions,
        jnp.float32(rng.normal(size=(3, D))),
        where,
    )
    share = found['jepa/effective_rank'] / min(where.sum(), D)
    assert_allclose(found['jepa/rank_share'], share, rtol=1e-6)
    kept, own, places = target[where], embedding[where], positions[where]

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    mean = np.mean([cosine(kept.mean(0), t) for t in kept])
    token = np.mean([cosine(e, t) for e, t in zip(own, kept)])
    place = []
    for i, t in enumerate(kept):
        others = (places == places[i]) & (np.arange(len(kept)) != i)
        if others.any():
            place.append(cosine(kept[others].mean(0), t))
    pairs = [cosine(a, b) for i, a in enumerate(kept) for b in kept[:i]]
    for name, value in (
        ('trivial_mean', mean),
        ('trivial_embedding', token),
        ('trivial_position', np.mean(place)),
        ('mean_cosine', np.mean(pairs)),
    ):
        assert_allclose(found[f'jepa/{name}'], value, rtol=1e-4, atol=1e-5)


HEALTHY = {
    'jepa/lambda': 0.5,
    'jepa/latent_grad_norm': 2.0,
    'jepa/token_grad_norm': 2.0,
    'jepa/target_std': 0.8,
    'jepa/prediction_std': 0.7,
    'jepa/effective_rank': 40.0,
    'jepa/rank_share': 0.3,
}


@pytest.mark.parametrize(
    ('change', 'kind', 'words'),
    [
        ({'jepa/lambda': 0.92}, 'lambda', '0.920'),
        ({'jepa/lambda': 0.08}, 'lambda', '0.080'),
        ({'jepa/latent_grad_norm': 0.01}, 'latent gradient', '0.5%'),
        ({'jepa/token_grad_norm': 0.01}, 'token gradient', '0.5%'),
        ({'jepa/target_std': 0.01}, 'target_std', 'targets'),
        ({'jepa/prediction_std': 0.01}, 'prediction_std', 'predictions'),
        ({'jepa/effective_rank': 4.2, 'jepa/rank_share': 0.03}, 'rank', '4.2 directions'),
    ],
)
def test_alarms_in_words(change, kind, words):
    assert telemetry.alarms(HEALTHY) == {}
    found = telemetry.alarms(HEALTHY | change)
    assert list(found) == [kind] and words in found[kind]


def test_no_alarm_without_a_latent_loss_and_none_before_the_first_look():
    assert telemetry.alarms({'train/loss': 3.0}) == {}
    assert telemetry.alarms({'jepa/lambda': 0.5, 'jepa/target_std': 0.9}) == {}
