"""Training of a grid by one program, with the same results as for single members."""

import dataclasses

import examined
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jepa_text.evaluation import config
from jepa_text.evaluation.members import grid
from jepa_text.pretrained import base, labels, prediction

KIND = labels.Labels(labels=('land', 'sea'), dropout=0.1)
MEMBERS = [grid.Member(rate, seed) for rate in (1e-3, 5e-3) for seed in (0, 1)]


@pytest.fixture(scope='module')
def rows():
    return KIND.rows(prediction.reader(examined.model()), examined.sea_or_land(50))


def trained(rows, members, width=1, kind=KIND, **changes):
    """{member: (params, losses_T)}"""
    recipe = grid.Recipe(**{'steps': 20, 'batch_size': 8, **changes})
    made = grid.Grid(examined.model(), kind, recipe)
    return {m: rest for m, *rest in made.train(rows, members, width)}


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.integers(0, 9), st.integers(1, 20), st.integers(1, 9))
def test_an_epoch_contains_every_row_once(count, seed, steps, batch_size):
    index_TB = grid.orders(count, seed, steps, batch_size)
    assert index_TB.shape == (steps, batch_size)
    per_epoch = -(-count // batch_size)
    for first in range(0, steps - per_epoch + 1, per_epoch):
        epoch = index_TB[first : first + per_epoch].ravel()
        assert sorted(epoch[epoch >= 0]) == list(range(count))
    # Longer training starts with the same order.
    more = grid.orders(count, seed, steps + 3, batch_size)
    assert (more[:steps] == index_TB).all()


def test_the_schedule_is_piecewise_linear():
    factors = grid.Recipe(steps=20, warmup=0.2).factors()
    assert factors[:5].tolist() == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert factors[-1] == pytest.approx(1 / 16)
    assert grid.Recipe(steps=1).factors().tolist() == [1.0]


@pytest.mark.slow
@pytest.mark.parametrize('width', [2, 3, 4])
def test_members_trained_together_equal_members_trained_alone(rows, width):
    """Width 3 is padded, 4 is spread over four devices. Clipping is on."""
    together = trained(rows, MEMBERS, width, clip_norm=0.5)
    assert list(together) == MEMBERS
    alone = trained(rows, MEMBERS[1:2], clip_norm=0.5)[MEMBERS[1]]
    for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(together[MEMBERS[1]])):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_heads_and_dropout_depend_on_the_seed(rows):
    """Bitwise, whichever members are trained together; other seeds differ."""
    made = grid.Grid(examined.model(), KIND, grid.Recipe(steps=1))
    states = [made._fresh(group) for group in (MEMBERS[:1], MEMBERS, MEMBERS[1:])]
    heads = [jax.tree.map(np.asarray, state[0]['task_head']) for state in states]
    keys = [np.asarray(state[2]) for state in states]
    assert (keys[0][0] == keys[1][0]).all() and (keys[1][1] == keys[2][0]).all()
    assert (keys[1][0] != keys[1][1]).any() and (keys[1][0] == keys[1][2]).all()
    kernel = [head['classifier']['kernel'] for head in heads]
    assert (kernel[0][0] == kernel[1][0]).all() and (kernel[1][1] == kernel[2][0]).all()
    assert (kernel[1][0] != kernel[1][1]).any()


@pytest.mark.slow
@pytest.mark.parametrize('kind', [labels.Labels(labels=KIND.labels), labels.Vectors()])
def test_microbatches_equal_the_whole_batch(kind):
    """Also for InfoNCE, whose loss couples all examples of a batch."""
    examples, reader = examined.sea_or_land(24), prediction.reader(examined.model())
    if kind.name == 'retrieval':
        examples = base.Unlabeled(examples.first, examples.first[::-1])
    rows = kind.rows(reader, examples)
    member = grid.Member(3e-3, 0)
    one, other = (
        trained(rows, [member], kind=kind, steps=4, microbatches=count)[member]
        for count in (1, 4)
    )
    for first, second in zip(jax.tree.leaves(one), jax.tree.leaves(other)):
        np.testing.assert_allclose(first, second, atol=2e-5)
    with pytest.raises(ValueError, match='batch_size=32 must be a multiple of'):
        config.Finetuning(microbatches=5)


def test_reported_steps_are_finished(rows):
    """Steps are dispatched faster than they run."""
    dispatched, ended, reported = [], set(), []

    class Loss:
        """Of a step that ends only when it is waited for."""

        def __init__(self):
            dispatched.append(self)

        def block_until_ready(self):
            ended.add(self)
            return self

        def __array__(self, *_, **__):
            return np.float32([dispatched.index(self.block_until_ready())])

    def report(steps):
        # One more step is queued, so that the device is never idle.
        reported.append((steps, len(ended), len(dispatched)))

    made = grid.Grid(examined.model(), KIND, grid.Recipe(steps=5))
    made.program = lambda *_: lambda state, *_: (state, Loss())
    members = list(made.train(rows, MEMBERS[:2], report=report))
    expected = [[*range(5)], [*range(5, 10)]]
    assert [losses_T.tolist() for *_, losses_T in members] == expected
    ends = [n if n % 5 == 0 else n + 1 for n in range(1, 11)]
    assert reported == [(n, n, ends[n - 1]) for n in range(1, 11)]


def test_steps_of_a_member_are_those_of_adamw_in_optax(monkeypatch):
    grads = [jnp.array([[1.0, -2.0, 0.1]]), jnp.array([[-3.0, 0.5, 0.1]])]
    monkeypatch.setattr(grid, 'gradients', lambda *_: (0.0, {'kernel': grads[number]}))
    recipe = grid.Recipe(steps=2, clip_norm=1e9)
    theirs = optax.adamw(0.01, recipe.b1, recipe.b2, recipe.eps, weight_decay=0.1)
    params = expected = {'kernel': jnp.array([[1.0, 2.0, -3.0]])}
    state, moments = recipe.optimizer().init(params), theirs.init(params)
    key = jax.random.key_data(jax.random.key(0))
    for number in range(2):
        state = (params, state, key, number)
        (params, state, key, _), _ = grid.step(
            None, None, recipe, state, jnp.float32(0.01), None
        )
        updates, moments = theirs.update({'kernel': grads[number]}, moments, expected)
        expected = optax.apply_updates(expected, updates)
        np.testing.assert_allclose(params['kernel'], expected['kernel'], rtol=1e-6)


@pytest.mark.slow
def test_the_learning_rate_is_not_compiled_into_the_program(rows):
    made = grid.Grid(examined.model(), KIND, grid.Recipe(steps=2, batch_size=8))
    for rate in (1e-3, 2e-3, 3e-3):
        list(made.train(rows, [grid.Member(rate, 0)]))
    program = made.program(1, made._used_tokens(rows), made.shape(rows))
    assert 1 <= program._cache_size() <= 2  # shapes of batches, not rates


@pytest.mark.slow
def test_a_member_that_is_not_finite_does_not_affect_others(rows):
    members = [grid.Member(1e30, 0), MEMBERS[0]]
    both = trained(rows, members, 2)
    assert not np.isfinite(both[members[0]][1][-1])
    alone = trained(rows, MEMBERS[:1])[MEMBERS[0]]
    np.testing.assert_allclose(both[MEMBERS[0]][1], alone[1], atol=1e-5)


def test_layers_are_unrolled_on_cpus_and_stacked_again(rows):
    kind = dataclasses.replace(KIND, dropout=0.0)
    made = grid.Grid(examined.model(), kind, grid.Recipe(steps=1))
    state = made._fresh(MEMBERS[:1])
    batch = made._batch(rows, np.arange(8)[None])
    lowered = made.program(1, None, None).lower(state, np.zeros(1, np.float32), batch)
    assert 'stablehlo.while' not in lowered.as_text()
    ((_, params, _),) = made.train(rows, MEMBERS[:1])
    shapes = [
        jax.tree.map(jnp.shape, tree['encoder'])
        for tree in (params, examined.model().params)
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.slow
def test_pure_bfloat16_loses_small_updates(rows):
    """As in 2507.00994: at 1e-5 most weights of about 0.02 never change."""
    moved = {}
    for precision in ('paper_bf16', 'bfloat16'):
        member = grid.Member(1e-5, 0)
        recipe = dict(steps=2, warmup=0.0, precision=precision, weight_decay=0.0)
        ((params, _),) = trained(rows, [member], **recipe).values()
        before = examined.model().params['encoder']['layers']['ffn']['up']['kernel']
        after = params['encoder']['layers']['ffn']['up']['kernel']
        low = precision == 'paper_bf16'
        assert after.dtype == (jnp.bfloat16 if low else jnp.float32)
        moved[precision] = float(jnp.mean(after != before.astype(after.dtype)))
    assert moved['paper_bf16'] < 0.4 < 0.9 < moved['bfloat16']
