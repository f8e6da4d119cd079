"""Diagnostics and eigenvalues against numpy, and messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from jepa_text.measures import geometry
from jepa_text.objectives.latent import diagnostics

N, D = 60, 16


def test_effective_rank_matches_geometry(rng):
    x_ND = rng.normal(size=(N, D)) * np.arange(1, D + 1)
    where_N = rng.random(N) < 0.7
    rank_of = jax.jit(diagnostics.effective_rank)
    found = rank_of(jnp.float32(x_ND), where_N)
    assert_allclose(found, geometry.effective_rank(x_ND[where_N]), rtol=1e-3)
    assert rank_of(jnp.ones((N, D)), np.ones(N, bool)) <= 1.001


def test_std_is_one_for_all_directions_and_zero_for_one(rng):
    where = np.ones((4, 200), bool)
    everywhere = jnp.float32(rng.normal(size=(4, 200, 64)))
    assert_allclose(std_of(everywhere, where), 1, atol=0.05)
    assert_allclose(std_of(jnp.ones((4, 200, 64)), where), 0, atol=1e-3)


@jax.jit
def std_of(x_BMD, where_BM):
    return diagnostics.std_of(diagnostics.moments(x_BMD, where_BM))


@pytest.mark.slow
@pytest.mark.parametrize('first', [0, 100])  # also beyond the number of vectors
def test_trivial_predictors_against_loops(rng, first):
    target = rng.normal(size=(3, 5, D)) + 1.0
    embedding = rng.normal(size=(3, 5, D))
    positions = first + rng.integers(0, 4, (3, 5))
    where = rng.random((3, 5)) < 0.8
    found = diagnostics.latents(
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


NOTES = {
    'target_std': ({'jepa/target_std': 0.01}, 'targets'),
    'rank': ({'jepa/effective_rank': 4.2, 'jepa/rank_share': 0.03}, '4.2 directions'),
    'latent gradient': ({'jepa/latent_grad_norm': 0.01}, '0.5%'),
    'token gradient': ({'jepa/token_grad_norm': 0.01}, '0.5%'),
    'prediction_std': ({'jepa/prediction_std': 0.01}, 'predictions'),
}


@pytest.mark.parametrize('kind', NOTES)
def test_each_observation_is_a_note(kind):
    assert diagnostics.notes(HEALTHY) == {}
    change, words = NOTES[kind]
    found = diagnostics.notes(HEALTHY | change)
    assert list(found) == [kind] and words in found[kind]


@pytest.mark.parametrize('has_ema', [True, False])
def test_only_an_ema_may_be_slowed(has_ema):
    found = diagnostics.notes({'jepa/target_std': 0.01}, has_ema)
    assert ('slow the EMA' in found['target_std']) == has_ema


def test_missing_metrics_give_no_message(rng):
    """Missing or NaN, each alone and all together."""
    names = list(HEALTHY)
    for _ in range(200):
        values = dict(HEALTHY)
        for name in rng.permutation(names)[: rng.integers(1, len(names) + 1)]:
            if rng.random() < 0.5:
                values[name] = np.float32(np.nan)
            else:
                del values[name]
        assert diagnostics.notes(values) == {}
    assert diagnostics.notes({'train/loss': 3.0}) == {}


def test_no_targets_measure_nothing():
    targets_BMD, pooled_BD = jnp.ones((3, 5, D)), jnp.eye(3, D)
    where_BM = np.zeros((3, 5), bool)
    found = jax.jit(diagnostics.latents)(
        targets_BMD, targets_BMD, where_BM, pooled_BD, where_BM
    )
    measured = [name for name, value in found.items() if not np.isnan(value)]
    assert measured == ['jepa/pooled_rank']


def test_the_std_of_one_vector_is_nan():
    where = np.zeros((2, 3), bool)
    x = jnp.ones((2, 3, 4))
    assert np.isnan(std_of(x, where))
    where[0, 1] = True
    assert np.isnan(std_of(x, where))


bisected, eigenvalues = map(jax.jit, (diagnostics.bisected, diagnostics.eigenvalues))


def covariance(width, rank, falls=0.0):
    rng = np.random.default_rng(width)
    x_ND = rng.normal(size=(4 * width, rank)) @ rng.normal(size=(rank, width))
    x_ND = x_ND * np.logspace(0, -falls, width)
    return np.float32(x_ND.T @ x_ND)


@pytest.mark.parametrize('method', [bisected, eigenvalues])
@pytest.mark.parametrize(
    'width, rank, falls', [(2, 2, 0), (3, 3, 0), (64, 64, 0), (64, 64, 3), (64, 5, 0)]
)
def test_eigenvalues_against_float64(method, width, rank, falls):
    matrix_DD = covariance(width, rank, falls)
    wanted_D = np.linalg.eigvalsh(matrix_DD.astype(np.float64))
    found_D = method(matrix_DD)
    assert_allclose(found_D, wanted_D, atol=2e-6 * wanted_D[-1], rtol=0)


@pytest.mark.parametrize('scale', [1e-30, 1e-20, 1e-12, 1e12])
def test_accuracy_does_not_depend_on_scale(scale):
    matrix_DD = covariance(64, 5)
    one_D, other_D = (np.asarray(bisected(matrix_DD * f)) for f in np.float32([1, scale]))
    atol = 2e-6 * float(one_D[-1])
    assert_allclose(other_D / np.float32(scale), one_D, atol=atol, rtol=0)


def collapsed(rows):
    """The covariance of a collapsed encoder, which has only rounding errors."""
    x_ND = np.tile(np.random.default_rng(0).normal(size=64).astype(np.float32), (rows, 1))
    x_ND = x_ND - x_ND.mean(axis=0)
    return x_ND.T @ x_ND


def diagonal(values, off=0.0):
    return np.where(np.eye(len(values)), values, off).astype(np.float32)


@pytest.mark.parametrize(
    'matrix_DD, atol, rtol',
    [
        *((collapsed(rows), None, 0) for rows in (32, 500)),
        *((diagonal(x), 1e-6, 1e-7) for x in (np.zeros(8), np.ones(8), np.arange(8))),
        *(
            (diagonal(np.arange(1, 9), off), 0, 1e-6)
            for off in (1e-8, 1e-15, 1e-19, 1e-21, 1e-25)
        ),
    ],
)
def test_matrices_that_are_nearly_zero_or_diagonal(matrix_DD, atol, rtol):
    wanted_D = np.linalg.eigvalsh(matrix_DD.astype(np.float64))
    atol = 2e-6 * wanted_D[-1] if atol is None else atol
    assert_allclose(bisected(matrix_DD), wanted_D, atol=atol, rtol=rtol)
