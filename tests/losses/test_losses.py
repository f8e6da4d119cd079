"""Losses and regularizers against independent implementations, and their documented
properties."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text import losses as eager
from jepa_text.losses import regularizers


class Compiled:
    """`eager`, with each function compiled as a whole, which is faster."""

    STATIC = {'select': 1, 'average_layers': (1, 2)}

    def __getattr__(self, name):
        return jax.jit(getattr(eager, name), static_argnums=self.STATIC.get(name))


losses = Compiled()


def huber(x, y, beta):
    return optax.huber_loss(x, y, delta=beta).mean(-1) / beta


@pytest.mark.parametrize(
    'name, theirs, more',
    [
        ('cosine_distance', optax.cosine_distance, ()),
        ('mse', lambda x, y: optax.squared_error(x, y).mean(-1), ()),
        *(('smooth_l1', huber, (beta,)) for beta in (0.3, 1.0, 4.0)),
    ],
)
def test_distances_match_optax(rng, name, theirs, more):
    x, y = np.float32(rng.normal(size=(2, 2, 4, 6)))
    expected = jax.jit(theirs)(x, y, *more)
    assert_allclose(getattr(losses, name)(x, y, *more), expected, atol=1e-6)


def test_token_losses_match_optax_and_scipy(rng):
    logits, labels = (
        np.float32(rng.normal(size=(2, 5, 7)) * 10),
        rng.integers(0, 7, (2, 5)),
    )
    entropy = jax.jit(optax.softmax_cross_entropy_with_integer_labels)
    assert_allclose(
        losses.cross_entropy(logits, labels), entropy(logits, np.int32(labels)), atol=1e-5
    )
    squares = scipy.special.logsumexp(logits, axis=-1) ** 2
    assert_allclose(losses.z_loss(logits), squares, rtol=1e-5)
    assert_array_equal(losses.correct(logits, labels), logits.argmax(-1) == labels)


@pytest.mark.parametrize('vocab, dtype', [(256, np.uint8), (2**15, np.int16)])
def test_labels_of_few_bits_do_not_wrap_around(vocab, dtype):
    labels = np.array([[1, 3, 127, vocab - 1]], dtype)
    hidden, kernel, weight = np.ones((1, 4, 8)), np.ones((8, vocab)), np.ones((1, 4))
    loss = losses.cross_entropy(hidden @ kernel, labels)
    form = jax.jit(functools.partial(eager.linear_cross_entropy, chunk_positions=4))
    _, (fused, *_) = form(hidden, kernel, labels, weight)
    assert_allclose(loss, np.full((1, 4), np.log(vocab)), rtol=1e-6)
    assert_allclose(fused, loss, rtol=1e-6)


def test_select_returns_the_true_positions_in_order(rng):
    mask = rng.random((20, 33)) < 0.2
    index, where = map(np.asarray, losses.select(mask, 20))
    for row in range(20):
        assert_array_equal(index[row][where[row]], np.flatnonzero(mask[row]))
        assert_array_equal(losses.select(mask[row], 20)[0], index[row])
    values = rng.random((20, 33, 2))
    taken = jax.vmap(losses.take)(values, index)
    assert_array_equal(losses.take(values, index), taken)


def test_a_zero_vector_has_the_cosine_distance_1(rng):
    y = np.float32(rng.normal(size=(3, 4)))
    assert_array_equal(losses.cosine_distance(np.zeros_like(y), y), 1)


@pytest.mark.parametrize('label', [-100, -1, 7, 2**30])
def test_labels_outside_the_vocabulary_give_nan(label):
    logits, labels = np.arange(7, dtype=np.float32)[None], np.array([label])
    assert np.isnan(losses.cross_entropy(logits, labels)).all()
    assert losses.correct(logits, labels) == 0

    def masked(logits):
        return losses.masked_mean(losses.cross_entropy(logits, labels), labels < -200)

    assert_array_equal(jax.grad(masked)(logits), np.zeros((1, 7)))


def test_info_nce_matches_float64_with_given_and_with_all_negatives(rng):
    x, y = rng.normal(size=(2, 12, 5))
    where = np.arange(12) % 5 != 0
    some = np.array([-1, 1, 2, 5, 8, 11, 12, 99])  # one of them false, three beyond
    ours = losses.info_nce(np.float32(x), np.float32(y), where, 0.2, some)
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (x, y)]
    for i in range(12):
        others = [j for j in some if j in range(12) and j != i and where[j]]
        scores = unit[0][i] @ unit[1][[i, *others]].T / 0.2
        expected = np.log(np.exp(scores).sum()) - scores[0] if where[i] else 0
        assert_allclose(ours[i], expected, atol=1e-5)
    every = losses.info_nce(np.float32(x), np.float32(y), where, 0.2, np.arange(12))
    whole = losses.info_nce(np.float32(x), np.float32(y), where, 0.2)
    assert_allclose(every, whole, atol=1e-5)


IDS = np.array([[1, 1, 1, 2, 2, 0, 2], [1, 0, 1, 1, 0, 2, 2]])


@pytest.mark.parametrize('ids', [IDS, IDS == 1])
def test_instance_normalize_is_document_by_document(rng, ids):
    """Masked positions are ignored, even NaN."""
    x = rng.normal(3, 2, size=(2, 7, 4))
    noisy = np.where(ids[..., None], np.float32(x), np.float32(np.nan))
    ours = np.asarray(losses.instance_normalize(noisy, ids))
    assert_array_equal(ours[ids == 0], 0)
    for row, document in [(0, 1), (1, 1), (0, 2), (1, 2)][: 2 * ids.max()]:
        kept = x[row][ids[row] == document]
        expected = (kept - kept.mean(0)) / np.sqrt(kept.var(0) + 1e-5)
        assert_allclose(ours[row][ids[row] == document], expected, atol=1e-5)


def test_average_layers_normalizes_then_averages_the_last(rng):
    layers = rng.normal(2, 3, size=(5, 2, 3, 16))

    def normalized(x):
        centered = x - x.mean(-1, keepdims=True)
        return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-6)

    expected = normalized(layers[2:]).mean(0)
    ours = losses.average_layers(np.float32(layers), 3, eager.layer_normalize)
    assert_allclose(ours, expected, atol=1e-5)
    listed = losses.average_layers(
        [np.float32(x) for x in layers], 3, losses.layer_normalize
    )
    assert_array_equal(ours, listed)


@pytest.mark.parametrize('k', [0, -1, 4])
def test_average_layers_raises_for_missing_layers(k):
    with pytest.raises(ValueError, match=f'k={k}, but there are 3 layers'):
        losses.average_layers(jnp.zeros((3, 1, 2, 4)), k, lambda x: x)


NM, NMD, ND = jnp.ones((3, 3)), jnp.ones((3, 3, 3)), jnp.ones((3, 3))
LABELS, MASK = jnp.ones((3, 3), int), jnp.ones((3, 3), bool)
DIRECTIONS = jnp.ones((3, 2))
# Each broadcasts: [3] to [3, 3], [3, 1] to [3] or [3, 3].
CASES = {
    'masked_sum': (NM, MASK[0]),
    'masked_mean': (NM, MASK[:, :1]),
    'masked_mean of weights': (NM, jnp.ones((3, 3)) / 2),
    'masked_mean of segments': (NM, LABELS),
    'cross_entropy': (NMD, LABELS[:, :1]),
    'correct': (NMD, LABELS[:1]),
    'cosine_distance': (NMD, ND),
    'smooth_l1': (NMD, NMD[:1]),
    'mse': (ND, NMD),
    'info_nce': (ND, ND, MASK[:, 0] * 2, 0.1),
    'info_nce of another mask': (ND, ND, MASK, 0.1),
    'info_nce of one target': (ND, ND[:1], MASK[0], 0.1),
    'instance_normalize': (NMD, LABELS[:1]),
    'linear_cross_entropy': (NMD, ND, LABELS, NM[0]),
    'linear_cross_entropy of labels': (NMD, ND, LABELS[:, :1], NM),
    'sigreg': (ND, DIRECTIONS, MASK),
    'vicreg_variance': (ND, LABELS[0]),
    'vicreg_covariance': (ND, MASK[:, :1]),
}


@pytest.mark.parametrize('name', CASES)
def test_arrays_that_would_broadcast_are_rejected(name):
    function = name.split()[0]
    home = eager if hasattr(eager, function) else regularizers
    options = {'chunk_positions': 4} if 'linear' in name else {}
    with jax.numpy_rank_promotion('allow'), pytest.raises(ValueError, match='must have'):
        getattr(home, function)(*CASES[name], **options)


def test_every_public_loss_of_several_arrays_checks_them():
    names = {*eager.__all__} | {n for n in vars(regularizers) if 'reg' in n}
    alone = {'Split', 'cached_value_and_grad', 'z_loss', 'layer_normalize', 'unit'}
    alone |= {'average_layers', 'select', 'take'}
    assert names - alone == {name.split()[0] for name in CASES}


WIDTH = 6


@functools.cache
def directions():
    return regularizers.random_directions(jax.random.key(3), 32, WIDTH)


@functools.cache
def compiled():
    functions = {
        'sigreg': functools.partial(regularizers.sigreg, directions_DR=directions()),
        'variance': regularizers.vicreg_variance,
        'covariance': regularizers.vicreg_covariance,
    }
    return {name: jax.jit(function) for name, function in functions.items()}


def sigreg_64(x, u, knots=17, limit=3.0):
    """The definition over [-limit, limit], with complex numbers."""
    t = np.linspace(-limit, limit, 2 * knots - 1)
    empirical = np.exp(1j * t[:, None, None] * (x @ u)).mean(1)
    error = np.abs(empirical - np.exp(-(t**2) / 2)[:, None]) ** 2
    weighed = error * np.exp(-(t**2) / 2)[:, None]
    return len(x) * np.trapezoid(weighed, t, axis=0).mean()


def variance_64(x, u):
    return np.maximum(0, 1 - np.sqrt(x.var(0, ddof=1) + 1e-4)).mean()


def covariance_64(x, u):
    covariance = np.cov(x.T)
    off = covariance - np.diag(np.diag(covariance))
    return (off**2).sum() / len(covariance)


FORMULAS = {'sigreg': sigreg_64, 'variance': variance_64, 'covariance': covariance_64}


def test_directions_have_unit_length_and_are_isotropic():
    u = regularizers.random_directions(jax.random.key(0), 4000, 3)
    assert u.dtype == jnp.float32 and u.shape == (3, 4000)
    assert_allclose(np.linalg.norm(u, axis=0), 1, atol=1e-6)
    assert_allclose(np.asarray(u) @ np.asarray(u).T / 4000, np.eye(3) / 3, atol=0.02)


@pytest.mark.parametrize('name', FORMULAS)
@pytest.mark.parametrize('shape', ['normal', 'wide', 'skewed', 'pair', 'collapsed'])
def test_matches_the_published_formula(rng, name, shape):
    x = {
        'normal': rng.normal(size=(50, WIDTH)),
        'wide': rng.normal(0.5, 3, size=(50, WIDTH)) * np.arange(1, WIDTH + 1),
        'skewed': 0.1 * rng.exponential(size=(50, WIDTH)),
        'pair': rng.normal(size=(2, WIDTH)),
        'collapsed': np.ones((50, WIDTH)),
    }[shape]
    expected = FORMULAS[name](x, np.float64(directions()))
    ours = compiled()[name](np.float32(x))
    assert ours.dtype == jnp.float32 and ours.shape == ()
    assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('name', FORMULAS)
def test_rows_of_tokens_are_refused(name):
    with pytest.raises(ValueError, match=r'shape \(1, 3, 4\), but must be \[N, D\]'):
        compiled()[name](jnp.zeros((1, 3, 4)))


@pytest.mark.parametrize('name', FORMULAS)
def test_masked_rows_affect_neither_value_nor_gradient(rng, name):
    x, where = np.float32(rng.normal(1, 2, size=(30, WIDTH))), rng.random(30) < 0.5
    both = jax.jit(jax.value_and_grad(compiled()[name]))
    value, slope = both(x[where])
    noisy = np.where(where[:, None], x, np.float32(np.nan))
    masked_value, masked_slope = jax.device_get(both(noisy, where_N=where))
    assert_allclose(masked_value, value, rtol=1e-5, atol=1e-6)
    assert_allclose(masked_slope[where], slope, rtol=1e-4, atol=1e-5)
    assert_array_equal(masked_slope[~where], 0)
