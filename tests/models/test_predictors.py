"""Latent predictors attend to their whole context, with all backends and with gaps."""

import functools
import types

import draws
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_attention import in_runs
from test_objectives import L, V, batch_of, build, view_of

from jepa_text.models import heads, transformer
from jepa_text.models.attention import attend as attention
from jepa_text.models.attention import pallas
from jepa_text.models.network import Network
from jepa_text.settings import resolve

WIDTH = 16


def kernel(attend, **changes):
    about = dict(SPLITS=False, MULTIPLE=1, why_not=lambda request: '')
    return types.SimpleNamespace(attend=attend, **about | changes)


# Like contexts and targets of three documents, padded at the end.
CONTEXT_IDS = np.array([[1, 1, 1, 2, 2, 3, 0, 0], [1, 2, 2, 2, 2, 3, 3, 3]], np.int32)
TARGET_IDS = np.array([[1, 2, 3, 3, 0], [1, 1, 2, 3, 0]], np.int32)


def predicted(name):
    """Returns the prediction from a context, and the gradient of the context."""
    rng = np.random.default_rng(0)
    predictor = heads.BlockPredictor(WIDTH, 32, 2, 2, attention=name)
    context_BKD = rng.standard_normal((2, 8, WIDTH)).astype(np.float32)
    out_BMD = rng.standard_normal((2, 5, WIDTH)).astype(np.float32)
    places = (rng.integers(0, 40, ids.shape) for ids in (CONTEXT_IDS, TARGET_IDS))
    at = zip((CONTEXT_IDS, TARGET_IDS), map(jnp.asarray, places))
    given = [jnp.asarray(x) for pair in at for x in pair]
    params = predictor.init(jax.random.key(0), context_BKD, *given)

    @jax.jit
    def both(context_BKD):
        prediction_BMD, back = jax.vjp(
            lambda x: predictor.apply(params, x, *given), context_BKD
        )
        # Padding is not a prediction.
        return prediction_BMD, *back(jnp.where(TARGET_IDS[..., None] > 0, out_BMD, 0))

    return both(context_BKD)


@pytest.mark.parametrize(
    'name, attend, options, tolerance',
    draws.in_stages(
        ('cudnn', in_runs, {}, 1e-5),
        (
            'pallas',
            functools.partial(pallas.attend, interpret=True),
            dict(MULTIPLE=pallas.MULTIPLE),
            1e-4,
        ),
    ),
)
def test_a_kernel_attends_to_the_whole_context(
    name, attend, options, tolerance, monkeypatch
):
    monkeypatch.setitem(attention.BACKENDS, name, kernel(attend, **options))
    monkeypatch.setattr(attention, 'why_not', lambda name, request: '')
    one, other = predicted('xla'), predicted(name)
    real = TARGET_IDS > 0
    assert_allclose(other[0][real], one[0][real], atol=tolerance)
    assert_allclose(other[1], one[1], atol=tolerance)
    # All positions of a context that share a document with a target are used.
    assert (np.abs(other[1]).max(-1) > 1e-4)[CONTEXT_IDS > 0].all()
    assert not other[1][CONTEXT_IDS == 0].any()


@pytest.mark.slow
def test_initialization_does_not_use_the_attention_backend():
    """A kernel may not run on this machine, or not on the example inputs."""

    def made(attention):
        encoder = transformer.make('tiny', vocab_size=V, attention=attention)
        return Network(encoder, build('ijepa')).init(0)

    jax.tree.map(assert_array_equal, made('splash'), made('xla'))


@pytest.mark.parametrize('name', ['ijepa', 'hybrid'])
def test_the_predictor_uses_the_configured_backend(name):
    objective = build(name, **dict(predictor='transformer') if name == 'hybrid' else {})
    encoder = transformer.make('tiny', vocab_size=V, attention='blockwise')
    modules = Network(encoder, objective).modules
    backends = [modules[name].attention for name in ('encoder', 'predictor')]
    assert backends == ['blockwise'] * 2


@pytest.mark.parametrize('model', ['modernbert', 'transformer'])
def test_contexts_are_encoded_with_gaps(model):
    objective = build('ijepa')
    window = {'local_window' if model == 'modernbert' else 'window': 4}
    section = dict(name=model, preset='tiny', **window)
    network = Network(resolve.build('models', section, vocab_size=V), objective)
    params = jax.eval_shape(functools.partial(network.init, 0))

    def terms(params, batch):
        view = view_of(objective, network, batch, target=params['encoder'])
        return objective.forward(params, view)[0]

    with attention.record_requests() as seen:
        jax.eval_shape(terms, params, batch_of(objective))
    lengths = {r.length: r.gaps for r in seen if r.window is not None}
    assert lengths == {L: False, objective.kept: True}
