"""Meshes of all kinds give the same results as a single device."""

import collections
import functools

import communication
import draws
import jax
import numpy as np
import pytest
import test_partitioning as small
from numpy.testing import assert_allclose

from jepa_text.parallel import sharding
from jepa_text.training import state as states
from jepa_text.training import step as steps

MESHES = {
    4: (dict(context=4), dict(fsdp=2, context=2), dict(context=2, tensor=2)),
    8: (dict(fsdp=2, context=2, tensor=2),),
}[jax.device_count()]
WITHOUT_CONTEXT = {
    4: (dict(data=4), dict(fsdp=4), dict(tensor=2)),
    8: (dict(fsdp=2, tensor=2),),
}[jax.device_count()]


def batch_of(made, seed=0):
    """Returns corrupted rows of three documents, none ending at a shard boundary."""
    (phase,) = made.phases
    rng, rows = np.random.default_rng(seed), []
    for number in range(small.ROWS):
        cuts = np.sort(rng.choice(np.arange(2, small.LENGTH - 2), 2, replace=False))
        sizes = np.diff([0, *cuts, small.LENGTH])
        row = {
            'tokens': rng.integers(8, small.WORDS, small.LENGTH).astype(np.int32),
            'segment_ids': np.repeat([1, 2, 3], sizes).astype(np.int32),
            'positions': np.concatenate([np.arange(n) for n in sizes]).astype(np.int32),
        }
        own = np.random.default_rng([seed, number])
        rows.append(phase.objective.corrupt(row, own, 0))
    return {key: np.stack([row[key] for row in rows]) for key in rows[0]}


def stepped(made, batch):
    """Returns (losses, parameters) after two steps on a batch."""
    (phase,) = made.phases
    state = states.first(made, phase)
    step, losses = steps.jitted(made, phase), []
    with jax.set_mesh(made.mesh):
        for _ in range(2):
            state, metrics = step(state, sharding.put_batch(batch, made.mesh))
            losses.append(float(metrics['train/loss']))
    return losses, jax.device_get(state.params)


def marked(name, sizes):
    """Returns a case, long if others are like it."""
    is_long = name not in ('clm', 'hybrid') or {*sizes} in ({'data'}, {'fsdp'})
    return pytest.param(
        name, sizes, marks=pytest.mark.long if is_long else pytest.mark.slow
    )


def taken_turns(names):
    """Pairs each name with one of the meshes."""
    return [marked(name, MESHES[n % len(MESHES)]) for n, name in enumerate(names)]


OBJECTIVES = (
    *taken_turns(small.OBJECTIVES),
    *(marked('hybrid', sizes) for sizes in WITHOUT_CONTEXT),
)
# An update as long as its gradient: Adam would make as much of rounding where a gradient
# is almost 0 as of the gradient itself.
LINEAR = dict(optimizer=dict(name='sgd'), schedule=dict(name='constant', value=1.0))


@functools.cache
def alone(objective):
    """Returns (batch, losses and parameters on a single device)."""
    made = small.outline(objective, {}, **LINEAR)
    batch = batch_of(made)
    return batch, stepped(made, batch)


@pytest.mark.parametrize('objective, sizes', OBJECTIVES)
def test_every_objective_matches_a_single_device(objective, sizes):
    batch, (expected, params) = alone(objective)
    found, others = stepped(small.outline(objective, sizes, **LINEAR), batch)
    assert_allclose(found, expected, rtol=1e-5)
    for one, other in zip(*map(jax.tree.leaves, (others, params)), strict=True):
        assert_allclose(one, other, atol=2e-6)


@pytest.mark.parametrize('model, sizes', taken_turns(small.MODELS))
def test_every_trunk_matches_a_single_device(model, sizes):
    own = small.section(model, 'blockwise', scan=False, remat='names')
    made = small.outline('mlm', {}, model=own)
    batch = batch_of(made)
    expected, _ = stepped(made, batch)
    found, _ = stepped(small.outline('mlm', sizes, model=own), batch)
    assert_allclose(found, expected, 1e-5)


@pytest.mark.parametrize('sizes', draws.in_stages(*MESHES[1:], MESHES[0]))
def test_no_device_holds_the_positions_of_others(sizes, capfd):
    """Except in attention, which exchanges q, k, v and its output both ways."""
    made = small.outline('clm', sizes)
    text = small.lower(made).compile().as_text()
    assert 'full rematerialization' not in capfd.readouterr().err
    shape, encoder = made.mesh.shape, made.phases[0].network.encoder
    mine = small.ROWS * small.LENGTH // made.mesh.size * shape['tensor']
    wide = encoder.ffn_width // shape['tensor']
    held = {s for s in communication.arrays(text) if s[-1:] == (wide,) and len(s) > 2}
    # With an axis in front for scanned layers.
    assert held and max(map(np.prod, held)) <= small.DEPTH * mine * wide
    sent = collections.Counter()
    for each in communication.collectives(text):
        sent[each.kind] += each.bytes * each.times
    # Four arrays [B, L, D] per layer and direction, and embeddings are looked up, over
    # one axis or two.
    once = mine // shape['tensor'] * small.WIDTH * 4
    exchanged = sent['all-to-all'] + sent['collective-permute']
    assert 0 < exchanged <= (8 * small.DEPTH + 6) * once + 2**10
    # No device has whole rows: only parameters are gathered.
    layers, tables, others = small.parameters(made)
    assert sent['all-gather'] <= 1.1 * (2 * layers + tables + 2 * others) + 2**15


def predicting(name, **options):
    section = dict(name=name, predictor_heads=2, predictor_width=16, **options)
    return dict(phases=[dict(objective=section)])


@pytest.mark.parametrize(
    'context, changes, words',
    [
        (4, dict(model=small.section(heads=2, kv_heads=2)), 'the 2 heads'),
        (-1, dict(model=small.section(heads=2, kv_heads=2)), 'the 2 heads'),
        (4, predicting('ijepa'), 'the 2 heads of the predictor'),
        (
            4,
            predicting('hybrid', predictor='transformer'),
            'the 2 heads of the predictor',
        ),
        (
            4,
            dict(data=dict(folder='', row_length=42, batch_size=small.ROWS)),
            'rows of 42 tokens',
        ),
    ],
)
def test_indivisible_heads_and_rows_are_rejected(context, changes, words):
    sizes = dict(data=jax.device_count() // 4, context=context)
    with pytest.raises(ValueError, match=f'mesh.*context.* must divide {words}'):
        small.outline('mlm', sizes, **changes)
