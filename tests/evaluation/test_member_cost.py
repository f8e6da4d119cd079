"""FLOPs of a member, counted before training: all batches and all products."""

import collections
import dataclasses
import functools

import examined
import jax
import numpy as np
import pytest
from test_retrieving import task as ranking

from jepa_text import pretrained
from jepa_text.evaluation import config, finetune, retrieving
from jepa_text.evaluation.members import cost as member_cost
from jepa_text.evaluation.members import grid
from jepa_text.evaluation.sets import task as tasks
from jepa_text.kinds import base, labels, prediction
from jepa_text.models import modernbert, transformer
from jepa_text.models.network import Network

PARTS = 'train', 'validation', 'test'
FAST = dict(batch_size=8, epochs=2)


def lengths_of(task):
    """Texts of two lengths, so that batches have different lengths."""
    rng = np.random.default_rng(0)

    def some_longer(part):
        longer = rng.random(len(part)) < 0.1
        texts = [
            text + ' and' * 30 * more for text, more in zip(part.first, longer.tolist())
        ]
        return tasks.Examples(texts, None, part.target)

    parts = {name: some_longer(getattr(task, name)) for name in PARTS}
    return dataclasses.replace(task, **parts)


def shapes_read(monkeypatch):
    """Counts the shapes of all training and evaluation batches."""
    seen = collections.Counter()
    batch_of, batches = grid.Grid._batch, prediction.batches

    def trained(self, *given):
        made = batch_of(self, *given)
        read = made.get('packed_tokens', made['tokens'])
        seen['gradients', *read.shape[1:], made['tokens'].shape[1]] += 1
        return made

    def measured(*given):
        for chosen, batch in batches(*given):
            name = 'outputs' if 'features' in batch else 'read'
            rows, length = batch['tokens'].shape
            seen[name, rows, length, rows] += 1
            yield chosen, batch

    monkeypatch.setattr(grid.Grid, '_batch', trained)
    monkeypatch.setattr(prediction, 'batches', measured)
    return seen


def products(encoder, seen, head):
    """FLOPs by hand: {program: ...} of an encoder with all its kernels, forward."""
    width, depth = encoder.width, encoder.depth
    hidden = encoder.head_width or width // encoder.heads
    through = (2 * encoder.heads + 2 * encoder.kv_heads) * hidden
    layer = width * through + 3 * width * encoder.ffn_width
    total = collections.Counter()
    for (name, rows, length, texts), times in seen.items():
        look = 2 * length * encoder.heads * hidden
        one = 2 * rows * length * depth * (layer + look)
        total[name] += times * one
        total[name + ' head'] += times * 2 * texts * head
    return total


@pytest.mark.slow
def test_exactly_the_computed_batches_are_counted(monkeypatch):
    """By the batch shapes of a real member and the products of its layers."""
    task, model = lengths_of(examined.labeled()), examined.model(depth=1)
    settings = config.Finetuning(**FAST)
    outline = dataclasses.replace(model, params={})
    found = member_cost.of_member(outline, task, settings)
    seen = shapes_read(monkeypatch)
    made = finetune.Examination(model, task, settings)
    list(made.run([grid.Member(1e-3, 0)]))
    # Training batches have one shape, evaluation batches have several.
    assert len(seen) > 2 and found.steps == 16 and found.shared == 0
    width = model.network.encoder.width
    of = products(model.network.encoder, seen, width * (width + 2))
    forward = of['read'] + of['read head']
    # The backward pass has two products for each, by the input and by the kernel,
    # also for the first layer, as embeddings are trained. Biases are not counted.
    wanted = forward + 3 * of['gradients'] + 3 * of['gradients head']
    assert found.member == pytest.approx(wanted, rel=1e-4)


@pytest.mark.slow
def test_features_are_counted_once_and_head_steps_cost_little(monkeypatch):
    task, model = lengths_of(examined.labeled()), examined.model(depth=1)
    outline = dataclasses.replace(model, params={})
    given = config.Finetuning(**FAST, layers=0)
    found = member_cost.of_member(outline, task, given)
    seen = shapes_read(monkeypatch)
    made = finetune.Examination(model, task, given)
    list(made.run([grid.Member(1e-3, seed) for seed in range(2)]))
    width = model.network.encoder.width
    of = products(model.network.encoder, seen, width * (width + 2))
    assert found.shared == pytest.approx(of['read'], rel=1e-4)
    assert found.member < found.shared / 20
    # If features do not fit into memory, they are computed at every step, with more
    # padding, as its rows are not sorted by length.
    monkeypatch.setattr(prediction, 'ROOM', 1000)
    again = member_cost.of_member(outline, task, given)
    reads = []
    for seeds in (1, 2):
        seen.clear()
        made = finetune.Examination(model, task, given)
        list(made.run([grid.Member(1e-3, seed) for seed in range(seeds)]))
        reads.append(products(model.network.encoder, seen, 0)['read'])
    # Once for all members, the training set is read for the moments of its features.
    assert again.shared == pytest.approx(2 * reads[0] - reads[1], rel=1e-4)
    assert 1 < again.member / (found.shared + found.member) < 2


@pytest.mark.slow
def test_fewer_layers_cost_less():
    task, model = lengths_of(examined.labeled()), examined.model()
    whole = member_cost.of_member(model, task, config.Finetuning(**FAST))
    last = member_cost.of_member(model, task, config.Finetuning(**FAST, layers=1))
    assert whole.shared == last.shared == 0 and last.member < whole.member
    head = member_cost.of_member(model, task, config.Finetuning(**FAST, layers=0))
    assert 10 * head.member < last.member


@pytest.mark.slow
def test_step_flops_are_within_three_percent_of_xla():
    """XLA also counts elementwise operations, so the model is wide."""
    sizes = dict(width=512, heads=4, kv_heads=4, ffn_width=1536, depth=2)
    encoder = transformer.make('tiny', vocab_size=64, **sizes, attention='xla')
    kind = labels.Labels(labels=('a', 'b'))
    row = base.Row(np.arange(32, dtype=np.int32), {'label': np.int32(1)}, 0)
    batch = kind.collate([row] * 8, 8, 32, 0)
    described = tuple((k, x.shape, str(x.dtype)) for k, x in sorted(batch.items()))
    for layers in (2, 1):
        recipe = grid.Recipe(steps=1, layers=layers)
        run = functools.partial(member_cost._run, encoder, kind, recipe, 'gradients')
        shapes = jax.eval_shape(lambda: Network(encoder, kind).init(0))
        counted = member_cost._traced(encoder, kind, recipe, 'gradients', described)
        compiled = jax.jit(run).lower(shapes, batch).compile()
        assert counted == pytest.approx(compiled.cost_analysis()['flops'], rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize('windows', [(None, None), (20, 70)])
def test_interpolated_lengths_are_exact(windows):
    sizes = dict(width=32, heads=2, kv_heads=2, ffn_width=64, depth=2, scan=False)
    encoder = transformer.make(
        'tiny', vocab_size=64, **sizes, window=windows, attention='xla'
    )
    kind, recipe = labels.Labels(labels=('a', 'b')), grid.Recipe(steps=1)

    def count(length):
        row = base.Row(np.zeros(1, np.int32), {'label': np.int32(1)}, 0)
        batch = kind.collate([row], 4, length, 0)
        described = tuple((k, x.shape, str(x.dtype)) for k, x in sorted(batch.items()))
        return member_cost._traced(encoder, kind, recipe, 'outputs', described)

    asked, lengths = [], [16, 20, 32, 48, 64, 71, 80, 96, 112, 128, 192]
    given = member_cost._windows(encoder)
    found = member_cost._by_length(lambda n: asked.append(n) or count(n), lengths, given)
    assert len(asked) < len(lengths)
    assert found == pytest.approx({n: count(n) for n in lengths}, rel=1e-9)


def test_windows_of_modernbert():
    encoder = modernbert.make('base', vocab_size=64)
    assert member_cost._windows(encoder) == {64}


def test_a_sample_represents_a_large_set(monkeypatch):
    task, model = lengths_of(examined.labeled()), examined.model(depth=1)
    given = config.Finetuning(**FAST)
    whole = member_cost.of_member(model, task, given)
    monkeypatch.setattr(member_cost, 'SAMPLE', 32)
    drawn = member_cost.of_member(model, task, given)
    assert drawn.steps == whole.steps
    assert drawn.member == pytest.approx(whole.member, rel=0.2)


@pytest.mark.slow
def test_retrieval_encodes_the_corpus_for_every_member(monkeypatch):
    model, task = examined.model(), ranking()
    given = config.Finetuning(steps=3, batch_size=4)
    found = member_cost.of_member(dataclasses.replace(model, params={}), task, given)
    seen = shapes_read(monkeypatch)
    pad = pretrained.Pretrained.pad

    def padded(self, rows, size, length=None):
        seen['read', size, length, size] += 1
        return pad(self, rows, size, length)

    monkeypatch.setattr(pretrained.Pretrained, 'pad', padded)
    made = retrieving.Examination(model, task, given)
    list(made.run([grid.Member(1e-3, 0)]))
    of = products(model.network.encoder, seen, 0)
    products_of_vectors = 2 * 20 * 40 * 64
    compared = 3 * 3 * 2 * 4 * 4 * 64
    assert found.member == pytest.approx(
        of['read'] + 3 * of['gradients'] + products_of_vectors + compared, rel=1e-6
    )
    with pytest.raises(ValueError, match='trains only the head, but retrieval has none'):
        member_cost.of_member(model, task, config.Finetuning(layers=0))


def test_tasks_without_training_ignore_the_trained_layers():
    pairs = tasks.Examples(['a whale', 'the sea'] * 2, ['the law', 'a ship'] * 2)
    task = tasks.Task('t', 'scores', 'spearman', pairs, pairs, validation=pairs)
    task = dataclasses.replace(task, zero_shot=True)
    costs = [
        member_cost.of_member(examined.model(), task, config.Finetuning(layers=layers))
        for layers in (None, 0)
    ]
    assert costs[0] == costs[1] and costs[0].member > 0
