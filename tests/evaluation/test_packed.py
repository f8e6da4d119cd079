"""Packing of texts into rows: complete, cheaper, and with the same loss."""

import functools

import draws
import examined
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jepa_text.data import batching
from jepa_text.evaluation.config import Finetuning
from jepa_text.evaluation.members import grid, packed
from jepa_text.models import bert, modernbert, network, transformer
from jepa_text.models.network import Network
from jepa_text.pretrained import base, labels, spans, tags

LENGTHS = st.lists(st.integers(1, 20), min_size=1, max_size=12)
KINDS = {
    'labels': labels.Labels(labels=('a', 'b'), act=''),
    'tags': tags.Tags(labels=('a', 'b'), act=''),
    'ends': spans.Spans(),
    'tokens': spans.Spans(learn='tokens', stride=0),
    'vectors': labels.Vectors(),
}
ENCODERS = {
    'transformer': functools.partial(transformer.make, window=4),
    'modernbert': functools.partial(modernbert.make, heads=4),
    'bert': bert.make,
}
SIZES = dict(width=16, depth=1, ffn_width=32, vocab_size=50, attention='xla')


def rows_of(lengths, kind='labels'):
    """Random texts of these lengths, with targets of each kind."""
    rng = np.random.default_rng(len(lengths))
    rows = []
    for index, length in enumerate(lengths):
        token_L = rng.integers(1, 50, length).astype(np.int32)
        one, each = np.int32(rng.integers(2)), rng.integers(0, 2, length).astype(np.int32)
        places = {'start': np.int32(0), 'stop': np.int32(length - 1)}
        targets = {'labels': {'label': one}, 'ends': places, 'vectors': {}}
        targets = targets.get(kind, {'labels': each})
        notes = token_L[::-1][: 1 + length // 2]
        rows.append(base.Row(token_L, targets, index, notes))
    return rows


def collated(rows, length=20, kind='labels'):
    return KINDS[kind].collate(rows, len(rows) + 1, length, 0)


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.integers(1, 12), st.sampled_from([20, 24, 40]))
def test_every_text_is_packed_once_as_its_own_document(lengths, rows, length):
    """For any number of rows; if there are too few, each text has its own row."""
    padded = collated(rows_of(lengths))
    (made,) = packed.batches([padded], packed.Shape(rows, length, 3))
    real_BL, place_BL = padded['segment_ids'] > 0, made['places']
    at = place_BL[real_BL]
    assert len(set(at)) == len(at) == sum(lengths)
    for name in ('tokens', 'positions'):
        assert (made[f'packed_{name}'].ravel()[at] == padded[name][real_BL]).all()
    assert (place_BL[~real_BL] == made['packed_tokens'].size).all()
    segment_RP = made['packed_segment_ids']
    assert (segment_RP > 0).sum() == sum(lengths)
    found = [
        segment_RP.ravel()[place_B[real_B]] for place_B, real_B in zip(place_BL, real_BL)
    ]
    row_of = [place_B[0] // segment_RP.shape[1] for place_B in place_BL[:-1]]
    texts = [(row, *set(ids)) for row, ids in zip(row_of, found)]
    assert len(set(texts)) == len(lengths) and all(len(one) == 2 for one in texts)
    # Document numbers increase; padding comes last.
    for segment_P in segment_RP:
        run_P = segment_P[segment_P > 0]
        assert (np.diff(run_P) >= 0).all() and (segment_P[: len(run_P)] == run_P).all()


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.integers(1, 8), st.integers(8, 64))
def test_the_shape_fits_its_batches_and_costs_less(lengths, batch_size, width):
    rows = rows_of(lengths)
    index_TB = grid.orders(len(rows), 0, 6, batch_size)
    shape = packed.shape_of([(n,) for n in lengths], index_TB, 40, width)
    if shape is None:
        return
    costs, packed_costs = [], []
    for index_B in index_TB:
        chosen = [rows[i] for i in index_B if i >= 0]
        padded = KINDS['labels'].collate(chosen, batch_size, shape.length, 0)
        (made,) = packed.batches([padded], shape)
        count, length = made['packed_tokens'].shape
        assert count <= shape.rows and length == shape.length
        counted = max(len(set(row_P[row_P > 0])) for row_P in made['packed_segment_ids'])
        assert counted <= shape.texts
        longest = batching.padded(max(len(row.tokens) for row in chosen), 40)
        costs.append(len(chosen) * longest * (24 * width**2 + 4 * width * longest))
        packed_costs.append(count * length * (24 * width**2 + 4 * width * length))
    assert np.mean(packed_costs) < np.mean(costs)


@pytest.mark.parametrize('maximum', range(1, 60))
def test_few_numbers_of_rows_are_compiled_with_little_padding(maximum):
    shape, rows = packed.Shape(maximum, 64, 4), range(1, maximum + 1)
    made = [shape.of(count).rows for count in rows]
    assert len(set(made)) <= packed.COMPILED
    assert all(0 <= one - count < maximum / 8 for one, count in zip(made, rows))


# Compiled once per module: all kinds have the same encoder.
init_module = jax.jit(network.init_module, static_argnums=(0, 1, 2))


@functools.partial(jax.jit, static_argnums=(0, 1))
def gradients(encoder, kind, params, *batches):
    """(loss, gradients) of each batch with the same parameters."""
    key, recipe = jax.random.key(0), Finetuning(steps=1)
    given = Network(encoder, kind), kind, recipe, params
    return [grid.gradients(*given, batch, key) for batch in batches]


@pytest.mark.parametrize(
    'kind, encoder',
    draws.in_stages(
        ('labels', 'bert'),
        ('tags', 'modernbert'),
        *((kind, 'transformer') for kind in KINDS),
        slow=2,
    ),
)
def test_losses_and_gradients_equal_those_of_padded_rows(kind, encoder):
    sizes = SIZES | ({} if encoder == 'modernbert' else dict(heads=2))
    if encoder == 'transformer':
        sizes['kv_heads'] = 1
    if encoder == 'bert':
        sizes['positions'] = 40
    made = ENCODERS[encoder](**sizes)
    padded = collated(rows_of([7, 3, 20, 1, 5], kind), kind=kind)
    (batch,) = packed.batches([padded], packed.Shape(3, 24, 4))
    modules = Network(made, KINDS[kind]).modules.items()
    params = {name: init_module(name, module, 0) for name, module in modules}
    alone, together = gradients(made, KINDS[kind], params, padded, batch)
    assert batch['packed_tokens'].shape[0] < len(padded['tokens'])
    for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(together)):
        np.testing.assert_allclose(one, other, atol=2e-6)


@pytest.mark.parametrize('shape', [packed.Shape(2, 20, 10), packed.Shape(6, 20, 5)])
def test_members_trained_together_have_one_shape(shape):
    """Even if the texts of one member need more rows, or more texts are in a row."""
    short, long = collated(rows_of([2] * 6)), collated(rows_of([20] * 6))
    made = packed.batches([short, long], shape)
    assert [one['packed_tokens'].shape for one in made] == [(7, 20)] * 2


@pytest.mark.slow
def test_a_grid_packs_short_texts_and_compiles_few_steps_for_all_rates():
    kind = labels.Labels(labels=('land', 'sea'))
    model, examples = examined.model(depth=1), examined.sea_or_land(40)
    examples.first[0] += ' and' * 40
    reader = base.Reader(model.tokenizer, *model.ends(), 64)
    rows = kind.rows(reader, examples)
    made = grid.Grid(model, kind, Finetuning(steps=10, batch_size=8), 64)
    shape = made.shape(rows)
    padded = 8 * max(len(row.tokens) for row in rows)
    assert shape.rows * shape.length < padded
    list(made.train(rows, [grid.Member(1e-3 * (1 + seed), seed) for seed in range(2)]))
    assert made.program(1, made._used_tokens(rows), shape)._cache_size() <= 3
    # Microbatches are not packed.
    whole = grid.Grid(model, kind, Finetuning(steps=1, batch_size=8, microbatches=2), 64)
    assert whole.shape(rows) is None
