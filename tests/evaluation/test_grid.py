"""Training of a grid by one program, with the same results as for single members."""

import dataclasses

import draws
import examined
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from test_hf_export import imported

from jepa_text.evaluation.config import Finetuning
from jepa_text.evaluation.members import grid
from jepa_text.pretrained import base, labels, load, prediction
from jepa_text.report import progress

KIND = labels.Labels(labels=('land', 'sea'), dropout=0.1)
MEMBERS = [grid.Member(rate, seed) for rate in (1e-3, 5e-3) for seed in (0, 1)]


@pytest.fixture(scope='module')
def rows():
    return kind_and_rows('labels')[1]


def kind_and_rows(name, count=40):
    """A kind without dropout, and rows; for retrieval, pairs of texts."""
    kind, texts = dataclasses.replace(KIND, dropout=0.0), examined.sea_or_land(count)
    if name == 'retrieval':
        kind = labels.Vectors()
        texts = base.Unlabeled(texts.first, texts.first[::-1])
    return kind, kind.rows(prediction.reader(examined.model()), texts)


def trained(rows, members, width=1, kind=KIND, **changes):
    """{member: (params, losses_T)}"""
    recipe = Finetuning(**{'steps': 20, 'batch_size': 8, **changes})
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
    factors = Finetuning(steps=20, warmup_fraction=0.2).factors()
    assert factors[:5].tolist() == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert factors[-1] == pytest.approx(1 / 16)
    assert Finetuning(steps=1).factors().tolist() == [1.0]


@pytest.mark.long
def test_the_head_has_a_rate_of_its_own(rows):
    """After one step, its updates are larger by this factor, and no others."""
    before = grid.Grid(examined.model(), KIND, Finetuning(steps=1))
    moved = []
    for factor in (1.0, 8.0):
        options = dict(steps=1, warmup_fraction=0.0, head_rate=factor)
        ((params, _),) = trained(rows, MEMBERS[:1], **options).values()
        head = before.head(MEMBERS[0].seed)
        moved.append(jax.tree.map(lambda x, y: x - y, params.pop(base.HEAD), head))
        moved.append(params)
    jax.tree.map(assert_array_equal, moved[1], moved[3])
    for one, other in zip(jax.tree.leaves(moved[0]), jax.tree.leaves(moved[2])):
        assert_allclose(8 * one, other, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize('unit_norm', [True, False])
def test_with_a_unit_norm_the_scale_of_the_given_one_does_not_matter(rows, unit_norm):
    model, losses = examined.model(), []
    for factor in (1.0, 1 / 8):
        encoder = model.params['encoder']
        norm = jax.tree.map(lambda x, f=factor: x * f, encoder['norm'])
        params = model.params | {'encoder': encoder | {'norm': norm}}
        recipe = Finetuning(steps=3, batch_size=8, unit_norm=unit_norm)
        made = grid.Grid(dataclasses.replace(model, params=params), KIND, recipe)
        losses += [losses_T for *_, losses_T in made.train(rows, MEMBERS[:1])]
    assert np.array_equal(*losses) == unit_norm


@pytest.mark.parametrize('width', draws.in_stages(3, 4, 2))
def test_members_trained_together_equal_members_trained_alone(rows, width):
    """Width 3 is padded, 4 is spread over four devices. Clipping is on."""
    together = trained(rows, MEMBERS, width, clip_norm=0.5)
    assert list(together) == MEMBERS
    alone = trained(rows, MEMBERS[1:2], clip_norm=0.5)[MEMBERS[1]]
    for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(together[MEMBERS[1]])):
        assert_allclose(one, other, atol=1e-5)


def test_heads_and_dropout_depend_on_the_seed(rows):
    """Bitwise, whichever members are trained together; other seeds differ."""
    made = grid.Grid(examined.model(), KIND, Finetuning(steps=1))
    alone, together = (made._fresh(group) for group in (MEMBERS[1:2], MEMBERS[:3]))
    for of in (
        lambda state: state[0]['task_head']['classifier']['kernel'],
        lambda s: s[2],
    ):
        (second,), (first, again, third) = np.asarray(of(alone)), np.asarray(of(together))
        assert_array_equal(second, again)
        assert_array_equal(first, third)
        assert (first != second).any()


@pytest.mark.parametrize('name', draws.in_stages('retrieval', 'labels'))
def test_microbatches_equal_the_whole_batch(name):
    """Also for InfoNCE, whose loss couples all examples of a batch."""
    kind, rows = kind_and_rows(name, 24)
    member = grid.Member(3e-3, 0)
    both = [trained(rows, [member], kind=kind, steps=4, microbatches=n) for n in (1, 4)]
    for first, second in zip(*map(jax.tree.leaves, both)):
        assert_allclose(first, second, atol=2e-5)
    with pytest.raises(ValueError, match='batch_size=32 must be a multiple of'):
        Finetuning(microbatches=5)


def test_reported_steps_are_finished(rows, monkeypatch):
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

    def update(_, steps):
        # One more step is queued, so that the device is never idle.
        reported.append((steps, len(ended), len(dispatched)))

    made = grid.Grid(examined.model(), KIND, Finetuning(steps=5))
    made.program = lambda *_: lambda state, *_: (state, Loss())
    monkeypatch.setattr(progress.Progress, 'update', update)
    members = list(made.train(rows, MEMBERS[:2]))
    expected = [[*range(5)], [*range(5, 10)]]
    assert [losses_T.tolist() for *_, losses_T in members] == expected
    ends = [n if n % 5 == 0 else n + 1 for n in range(1, 11)]
    assert reported == [(n, n, ends[n - 1]) for n in range(1, 11)]


def test_steps_of_a_member_are_those_of_adamw_in_optax(monkeypatch):
    grads = [jnp.array([[1.0, -2.0, 0.1]]), jnp.array([[-3.0, 0.5, 0.1]])]
    monkeypatch.setattr(grid, 'gradients', lambda *_: (0.0, {'kernel': grads[number]}))
    recipe = Finetuning(steps=2, clip_norm=1e9)
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
        assert_allclose(params['kernel'], expected['kernel'], rtol=1e-6)


@pytest.mark.slow
def test_a_member_that_is_not_finite_does_not_affect_others(rows):
    members = [grid.Member(1e30, 0), MEMBERS[0]]
    both = trained(rows, members, 2)
    assert not np.isfinite(both[members[0]][1][-1])
    alone = trained(rows, MEMBERS[:1])[MEMBERS[0]]
    assert_allclose(both[MEMBERS[0]][1], alone[1], atol=1e-5)


@pytest.mark.slow
def test_layers_are_unrolled_on_cpus_and_stacked_again(rows):
    made = grid.Grid(examined.model(), kind_and_rows('labels')[0], Finetuning(steps=1))
    state = made._fresh(MEMBERS[:1])
    batch = made._batch(rows, np.arange(8)[None])
    lowered = made.program(1, None, None).lower(state, np.zeros(1, np.float32), batch)
    assert 'stablehlo.while' not in lowered.as_text()
    ((_, params, _),) = made.train(rows, MEMBERS[:1])
    both = params['encoder'], examined.model().params['encoder']
    assert jax.tree.map(jnp.shape, both[0]) == jax.tree.map(jnp.shape, both[1])


def test_a_modernbert_of_one_layer_has_none_to_unroll(tmp_path):
    model, _ = imported(tmp_path, 'modernbert_one_layer')
    made = grid.Grid(model, KIND, Finetuning(steps=1))
    both = made.encoder_params, model.params['encoder']
    assert jax.tree.structure(both[0]) == jax.tree.structure(both[1])


@pytest.mark.long
def test_pure_bfloat16_loses_small_updates(rows):
    """As in 2507.00994: at 1e-5 most weights of about 0.02 never change."""
    moved = {}
    for precision in ('paper_bf16', 'bfloat16'):
        member = grid.Member(1e-5, 0)
        recipe = dict(steps=2, warmup_fraction=0.0, precision=precision, weight_decay=0.0)
        ((params, _),) = trained(rows, [member], **recipe).values()
        before = examined.model().params['encoder']['layers']['ffn']['up']['kernel']
        after = params['encoder']['layers']['ffn']['up']['kernel']
        low = precision == 'paper_bf16'
        assert after.dtype == (jnp.bfloat16 if low else jnp.float32)
        moved[precision] = float(jnp.mean(after != before.astype(after.dtype)))
    assert moved['paper_bf16'] < 0.4 < 0.9 < moved['bfloat16']


@pytest.mark.parametrize(
    'name, width, parts',
    draws.in_stages(('labels', 3, 1), ('retrieval', 1, 2), ('labels', 1, 1)),
)
def test_parameters_equal_those_of_training_the_whole_table(
    name, width, parts, monkeypatch
):
    """With a decay large enough to matter, against training the whole table."""
    kind, rows = kind_and_rows(name)
    recipe = dict(steps=12, batch_size=8, weight_decay=0.5, microbatches=parts)
    made = grid.Grid(examined.model(), kind, Finetuning(**recipe))
    members = [grid.Member(1e-2, 0), grid.Member(1e-2, 1), MEMBERS[0]]
    if name == 'retrieval':  # At a rate of 0.01 it is unstable: rounding errors grow.
        members = [*MEMBERS[:2], grid.Member(5e-4, 0)]
    short = list(made.train(rows, members, width))
    monkeypatch.setattr(grid.Grid, '_used_tokens', lambda *_: None)
    whole = list(made.train(rows, members, width))
    before_VD = np.asarray(examined.model().params['encoder']['embedding'])
    for (_, one, losses_T), (_, other, wanted_T) in zip(short, whole):
        assert_allclose(losses_T, wanted_T, atol=1e-5)
        for leaf, wanted in zip(jax.tree.leaves(one), jax.tree.leaves(other)):
            assert_allclose(leaf, wanted, atol=1e-6)
        # Unused rows decayed by more than the tolerance.
        after_VD = np.asarray(other['encoder']['embedding'])
        assert np.abs(after_VD - before_VD).max(axis=1).min() > 1e-5


def test_a_member_trains_only_used_tokens(rows):
    made = grid.Grid(examined.model(), KIND, Finetuning(steps=1, batch_size=8))
    words = made._used_tokens(rows)
    read = {token for row in rows for token in row.tokens.tolist()}
    assert set(words.used_U.tolist()) == read | {examined.model().tokenizer.pad_id}
    width = examined.model().network.encoder.width
    held = [leaf.shape for leaf in jax.tree.leaves(made._fresh(MEMBERS[:1], words))]
    assert held.count((1, len(words.used_U), width)) == 3
    assert not any(examined.model().tokenizer.vocab_size in shape for shape in held)
    pure = Finetuning(steps=1, batch_size=8, precision='paper_bf16')
    assert grid.Grid(examined.model(), KIND, pure)._used_tokens(rows) is None


@pytest.mark.peer
def test_losses_of_fifty_steps_equal_transformers(tmp_path):
    """With the same rows, order and head, and no dropout, so that both are certain."""
    torch = pytest.importorskip('torch')
    transformers = pytest.importorskip('transformers')
    torch.manual_seed(0)
    still = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = examined.model_of_others(
        transformers, tmp_path, 'SequenceClassification', num_labels=2, **still
    )
    ours = load.load(f'hf:{tmp_path}')
    ends = dict(begin=(ours.tokenizer.bos_id,), end=(ours.tokenizer.eos_id,))
    ours = dataclasses.replace(ours, **ends)
    kind = labels.Labels(labels=('land', 'sea'), pool='cls', act='tanh')
    examples = examined.sea_or_land(120)
    rows = kind.rows(prediction.reader(ours), examples)
    recipe = Finetuning(steps=50, batch_size=8)
    made = grid.Grid(ours, kind, recipe)
    member = grid.Member(3e-3, 0)
    head = jax.tree.map(np.asarray, made.head(member.seed))
    head_kernel = head['dense']['kernel']
    with torch.no_grad():
        parts = dict(dense=model.bert.pooler.dense, classifier=model.classifier)
        for name, part in parts.items():
            part.weight.copy_(torch.tensor(head[name]['kernel'].T))
            part.bias.copy_(torch.tensor(head[name]['bias']))
    ((_, params, losses_T),) = made.train(rows, [member])
    wanted = _trained(torch, transformers, model, rows, recipe, member, ours)
    assert_allclose(losses_T, wanted, atol=1e-3)
    # The parameters did change.
    moved = np.abs(np.asarray(params['task_head']['dense']['kernel']) - head_kernel)
    theirs = model.bert.pooler.dense.weight.detach().numpy().T
    assert_allclose(params['task_head']['dense']['kernel'], theirs, atol=1e-3)
    assert moved.mean() > 5e-3 and np.ptp(wanted) > 0.1


def _trained(torch, transformers, model, rows, recipe, member, ours):
    """Losses in torch, with the parameter groups and schedule of its Trainer."""
    plain = [p for n, p in model.named_parameters() if 'bias' in n or 'LayerNorm' in n]
    ids = set(map(id, plain))
    decayed = [p for p in model.parameters() if id(p) not in ids]
    groups = [{'params': decayed}, {'params': plain, 'weight_decay': 0.0}]
    optimizer = torch.optim.AdamW(
        groups,
        lr=member.learning_rate,
        betas=(recipe.b1, recipe.b2),
        eps=recipe.eps,
        weight_decay=recipe.weight_decay,
    )
    warm = round(recipe.warmup_fraction * recipe.steps)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, warm, recipe.steps)
    losses = []
    for index_B in grid.orders(len(rows), member.seed, recipe.steps, recipe.batch_size):
        chosen = [rows[i] for i in index_B if i >= 0]
        length = max(len(row.tokens) for row in chosen)
        pad = ours.tokenizer.pad_id
        tokens = [[*row.tokens, *[pad] * (length - len(row.tokens))] for row in chosen]
        mask = [[int(i < len(row.tokens)) for i in range(length)] for row in chosen]
        target = [int(row.targets['label']) for row in chosen]
        found = model(
            input_ids=torch.tensor(tokens),
            attention_mask=torch.tensor(mask),
            labels=torch.tensor(target),
        )
        found.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(found.loss.item())
    return losses
