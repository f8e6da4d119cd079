"""The contract of all objectives, and the properties of each."""

import dataclasses
import functools
import types

import draws
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text import losses
from jepa_text.models import network as networks
from jepa_text.models import transformer
from jepa_text.models.network import Network, key_of
from jepa_text.objectives.base import View
from jepa_text.settings import resolve
from jepa_text.training import step as steps

V, L, B = 31, 16, 8
TOKENIZER = types.SimpleNamespace(
    vocab_size=V,
    mask_id=3,
    special_ids=(0, 1, 2, 3),
    starts_word=np.arange(V) % 3 != 0,
    decode=lambda ids: '.' if ids[0] % 7 == 0 else 'a',
)
ALL = resolve.names('objectives')
OTHERS = sorted({*ALL} - {'mlm', 'hybrid'})
STAGED = draws.in_stages('mlm', 'hybrid', *OTHERS, fast=1)
# Required options of each objective, and a predictor that compiles faster.
NEEDS = {
    'mixture': dict(parts=(dict(name='mlm'), dict(name='clm'))),
    'ijepa': dict(predictor_depth=1),
}


def by_repr(function):
    """Like functools.cache, for arguments that cannot be hashed."""
    made = {}

    @functools.wraps(function)
    def cached(*given, **options):
        key = repr((given, options))
        if key not in made:
            made[key] = function(*given, **options)
        return made[key]

    return cached


@by_repr
def build(name, **section):
    """Returns the same object for the same section, so that it is compiled once."""
    section = {'name': name, **NEEDS.get(name, {}), **section}
    given = dict(tokenizer=TOKENIZER, length=L, steps=100)
    return resolve.build('objectives', section, **given)


def rows(rng, count=B):
    made = []
    for _ in range(count):
        first = int(rng.integers(3, 9))
        segments = np.repeat([1, 2, 0], [first, 5, L])[:L].astype(np.int32)
        positions = np.concatenate([np.arange(first), np.arange(5), np.zeros(L)])[:L]
        tokens = np.where(segments > 0, rng.integers(1, V, L), 0)
        made.append(
            {
                'tokens': tokens.astype(np.int32),
                'segment_ids': segments,
                'positions': positions.astype(np.int32),
            }
        )
    return made


def batch_of(objective, seed=0):
    rng = np.random.default_rng(seed)
    examples = [objective.corrupt(row, rng) for row in rows(rng)]
    return {key: jnp.asarray(np.stack([e[key] for e in examples])) for key in examples[0]}


@functools.cache
def network_of(objective):
    encoder = transformer.make('tiny', vocab_size=V, depth=1, scan=False)
    return Network(encoder, objective)


@functools.cache
def init_module(name, module, seed):
    drawn = functools.partial(networks.init_module, name, module, seed)
    return jax.device_put(draws.params(drawn, 0.05, seed))


@functools.cache
def init(network, seed=0):
    """Parameters of a network; a module that several share has the same in each."""
    modules = network.modules.items()
    return {name: init_module(name, module, seed) for name, module in modules}


@functools.cache
def jitted(network):
    return jax.jit(network.apply, static_argnums=0, static_argnames='causal')


loss_of = jax.jit(steps.loss_of, static_argnums=0)
slope_of = jax.jit(
    jax.grad(lambda *given: steps.loss_of(*given)[0], argnums=1), static_argnums=0
)


def memory_of(objective, seed=0):
    key = jax.random.key_data(key_of(seed))
    return {**objective.memory(), 'key': key}


def view_of(objective, network, batch, counts=None, target=None):
    return View(
        apply=network.apply,
        target=target,
        memory=memory_of(objective),
        batch=batch,
        step=jnp.int32(0),
        counts=objective.counts(batch) if counts is None else counts,
        run_step=jnp.int32(0),
    )


def evaluate(objective, batch, counts=None, target=None, params=None):
    """Returns the loss and the metrics of a batch."""
    network = network_of(objective)
    params = init(network) if params is None else params
    target = params['encoder'] if target is None else target
    view = view_of(objective, network, batch, counts, target)
    loss, (metrics, _) = loss_of(objective, params, view)
    return loss, metrics


def gradients(objective, batch, params=None, target=None):
    """Returns the gradients of the loss with respect to the parameters."""
    network = network_of(objective)
    params = init(network) if params is None else params
    view = view_of(objective, network, batch, None, target or params['encoder'])
    return slope_of(objective, params, view)


@pytest.mark.parametrize(
    'name',
    # I-JEPA is the last: its programs take the longest to compile.
    draws.in_stages(*sorted(ALL, key='ijepa'.__eq__), fast=len(ALL) - 2, slow=2),
)
def test_contract(name):
    objective = build(name)
    example = rows(np.random.default_rng(0), 1)[0]
    before = {key: value.copy() for key, value in example.items()}
    made = objective.corrupt(example, np.random.default_rng(1))
    for key, value in before.items():
        assert_array_equal(example[key], value)
        assert_array_equal(made[key], value)
    again = objective.corrupt(example, np.random.default_rng(1))
    for key, value in made.items():
        assert_array_equal(value, again[key])
    assert made['inputs'].dtype == np.int32 and made['loss_mask'].dtype == bool
    assert not made['loss_mask'][made['segment_ids'] == 0].any()
    batch = batch_of(objective)
    loss, metrics = evaluate(objective, batch)
    assert loss.shape == () and loss.dtype == jnp.float32 and np.isfinite(loss)
    assert all(m.shape == () and np.isfinite(m) for m in metrics.values())


@pytest.mark.parametrize('name', STAGED)
def test_parts_add_up_to_the_batch(name):
    objective = build(name)
    batch = batch_of(objective)
    counts = objective.counts(batch)
    whole, whole_metrics = evaluate(objective, batch)
    parts = [
        evaluate(objective, jax.tree.map(lambda x, i=i: x[i::2], batch), counts)
        for i in range(2)
    ]
    assert_allclose(sum(loss for loss, _ in parts), whole, rtol=1e-5)
    for key, value in whole_metrics.items():
        total = sum(metrics[key] for _, metrics in parts)
        assert_allclose(total, value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('name', STAGED)
def test_a_batch_of_padding_costs_nothing(name):
    objective = build(name)
    batch = jax.tree.map(jnp.zeros_like, batch_of(objective))
    grads = gradients(objective, batch)
    assert all((np.asarray(g) == 0).all() for g in jax.tree.leaves(grads))


def test_clm_counts_next_tokens_inside_documents_only():
    objective = build('clm')
    batch = batch_of(objective)
    segments = np.asarray(batch['segment_ids'])
    expected = sum(
        max((row == document).sum() - 1, 0) for row in segments for document in (1, 2)
    )
    assert int(objective.counts(batch)['tokens']) == expected


def scores_at_all(objective, batch, read, labels, causal):
    """(cross-entropy at all positions, parameters): labels [B, M] of the first M."""
    network = network_of(objective)
    layout = (batch['segment_ids'], batch['positions'])

    @jax.jit
    def scores(params):
        encoder = params['encoder']['embedding']
        hidden = network.apply('encoder', params, batch[read], *layout, causal=causal)
        logits = network.apply('lm_head', params, hidden, encoder)
        return losses.cross_entropy(logits[:, : labels.shape[1]], labels)

    params = init(network)
    return np.asarray(scores(params)), params


def test_clm_is_the_mean_cross_entropy_of_all_logits():
    objective = build('clm')
    batch = batch_of(objective)
    labels = batch['tokens'][:, 1:]
    scores, params = scores_at_all(objective, batch, 'tokens', labels, causal=True)
    expected = scores[np.asarray(batch['loss_mask'])[:, :-1]].mean()
    assert_allclose(evaluate(objective, batch, params=params)[0], expected, rtol=1e-5)


def test_masks_beyond_the_capacity_are_not_in_the_mean():
    """Up to it, the loss is that of all masks, at selected positions."""
    objective = build('mlm')
    batch = batch_of(objective)
    scores, params = scores_at_all(objective, batch, 'inputs', batch['tokens'], False)
    every = np.asarray(batch['loss_mask'])
    first = every & (np.cumsum(every, axis=1) <= 2)
    short = dataclasses.replace(objective, capacity=2)
    for each, counted in ((short, first), (objective, every)):
        expected = scores[counted].mean()
        assert_allclose(evaluate(each, batch, params=params)[0], expected, rtol=1e-5)


def test_hybrid_counts_latents_only_under_true_masks():
    objective = build('hybrid', mlm=dict(rate=0.5, mask_share=0.5, random_share=0.25))
    batch = batch_of(objective)
    hidden = np.asarray(batch['target_mask'])
    assert 0 < hidden.sum() < np.asarray(batch['loss_mask']).sum()
    assert (np.asarray(batch['inputs'])[hidden] == TOKENIZER.mask_id).all()
    assert not (hidden & ~np.asarray(batch['loss_mask'])).any()


@pytest.mark.parametrize('name', draws.in_stages('hybrid', 'ijepa'))
def test_at_lambda_zero_all_equal_mlm_bit_for_bit(name):
    both, mlm = build(name, balance=0.0, mlm=dict(rate=0.3)), build('mlm', rate=0.3)
    row = rows(np.random.default_rng(0), 1)[0]
    made, alone = (x.corrupt(row, np.random.default_rng(1)) for x in (both, mlm))
    assert alone['loss_mask'].any()
    for key, value in alone.items():
        assert_array_equal(made[key], value)
    # Other draws come later from the row's generator; the next row has its own generator.
    batch = batch_of(both)
    assert_array_equal(evaluate(both, batch)[0], evaluate(mlm, batch)[0])


@pytest.mark.parametrize('name', ['hybrid', 'ijepa'])
@pytest.mark.parametrize('mlm', ['mntp', 'clm', 'mixture'])
def test_latents_need_tokens_predicted_at_their_masks(name, mlm):
    with pytest.raises(ValueError, match=f"'{mlm}'.* use name='mlm' with shift=0"):
        build(name, mlm=dict(name=mlm, **NEEDS.get(mlm, {})))
    with pytest.raises(ValueError, match="'shift': 1"):
        build(name, mlm=dict(shift=1))


@pytest.mark.parametrize(
    'latent, words',
    [
        (dict(layer=3), 'latent: layer=3 .* at most 2'),
        (dict(layer=-4), 'latent: layer=-4 .* at least -3'),
        (dict(top=3), 'latent: top=3 .* at most 2'),
    ],
)
def test_errors_name_layers_that_the_encoder_lacks(latent, words):
    objective = build('hybrid', latent=latent)
    with pytest.raises(ValueError, match=words):
        Network(transformer.make('tiny', vocab_size=V), objective)
    for known in (dict(layer=-2), dict(layer=0), dict(layer=2), dict(top=2)):
        assert build('hybrid', latent=known).modules(
            transformer.make('tiny', vocab_size=V)
        )


# The depth, like -1, is after the last norm; else one number had two meanings.
@pytest.mark.parametrize(
    'section, value',
    [*((dict(layer=n), n % 3) for n in range(-3, 3)), (dict(top=1), 7), (dict(top=2), 4)],
)
def test_a_layer_is_the_same_for_latents_and_for_encode(section, value):
    latent = build('hybrid', latent=dict(normalize='none', **section)).latent
    layers_NBLD = jnp.array([0.0, 1.0, 7.0]).reshape(3, 1, 1, 1)
    after_norm = jnp.full((1, 1, 1), 2.0)
    view = types.SimpleNamespace(
        apply=lambda *_, every_layer, **__: (
            (after_norm, layers_NBLD) if every_layer else after_norm
        ),
        target={},
        batch=dict.fromkeys(('tokens', 'segment_ids', 'positions')),
    )
    assert latent.targets({'encoder': {}}, view).item() == value


def test_hybrid_latent_loss_matches_the_formula():
    objective = build('hybrid')
    batch = batch_of(objective)
    network = network_of(objective)
    params, target = init(network), init(network, 1)['encoder']
    layout = (batch['segment_ids'], batch['positions'])
    run = jitted(network)
    hidden = run('encoder', params, batch['inputs'], *layout, causal=False)
    predicted = run('predictor', params, hidden)
    held = params | {'encoder': target}
    clean = run('encoder', held, batch['tokens'], *layout, causal=False)
    where = np.asarray(batch['target_mask'])
    x, y = np.float64(predicted)[where], np.float64(clean)[where]
    y = y - y.mean(-1, keepdims=True)
    cosine = (x * y).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1)
    loss, metrics = evaluate(objective, batch, target=target, params=params)
    assert_allclose(metrics['jepa/loss'], (1 - cosine).mean(), rtol=1e-4)
    both = metrics['jepa/loss'] + metrics['mlm_loss']
    assert_allclose(loss, both / 2, rtol=1e-6)


def test_the_target_gets_and_passes_no_gradient():
    objective = build('hybrid')
    batch = batch_of(objective)
    network = network_of(objective)
    params = init(network)

    def latent(target):
        view = view_of(objective, network, batch, target=target)
        return objective.forward(params, view)[0]['latent']

    grads = jax.jit(jax.grad(latent))(params['encoder'])
    assert all((np.asarray(g) == 0).all() for g in jax.tree.leaves(grads))


NEGATIVE = dict(name='sigreg', weight=-1)
NO_SAMPLE = dict(name='sigreg', weight=1, sample=0)


@pytest.mark.parametrize(
    'name, section, words',
    [
        ('mlm', dict(rate=1.5), 'rate=1.5'),
        ('mlm', dict(sampler='best'), 'fixed, iid'),
        ('mlm', dict(mask_share=0.9, random_share=0.2), 'random_share=0.2'),
        ('hybrid', dict(latent=dict(distance='l3')), 'cosine'),
        ('hybrid', dict(latent=dict(layers=2)), 'layer'),
        ('hybrid', dict(latent=dict(regularizer=dict(name='s', weight=1))), 'sigreg'),
        ('hybrid', dict(predictor='conv'), 'transformer'),
        ('hybrid', dict(predictor='transformer', predictor_width=6), 'predictor_heads=4'),
        ('hybrid', dict(latent=dict(momentum=dict(name='wave'))), 'linear'),
        ('hybrid', dict(latent=dict(momentum=1.5)), 'momentum at step 0=1.5'),
        (
            'hybrid',
            dict(latent=dict(momentum=dict(name='linear', start=0.9, end=2))),
            'momentum at step 100=2.0 must .* at most 1',
        ),
        ('hybrid', dict(latent=dict(beta=0)), 'beta=0 .* above 0'),
        ('hybrid', dict(latent=dict(temperature=0)), 'temperature=0 .* above 0'),
        ('hybrid', dict(latent=dict(negatives=-1)), 'negatives=-1'),
        ('hybrid', dict(latent=dict(top=2.0)), 'top=2.0 must be an integer'),
        ('hybrid', dict(latent=dict(top=2, layer=0)), 'layer=0 has no effect with top'),
        ('hybrid', dict(latent=dict(ema='layers', momentum=None)), "ema='layers' has no"),
        (
            'hybrid',
            dict(latent=dict(stop_gradient=False)),
            'stop_gradient=False has no effect with an EMA.* or set momentum=None',
        ),
        ('hybrid', dict(latent=dict(regularizer=NEGATIVE)), 'weight=-1'),
        ('hybrid', dict(latent=dict(regularizer=NO_SAMPLE)), 'sample=0'),
        ('hybrid', dict(predictor_width=0), 'predictor_width=0'),
        ('ijepa', dict(predictor_heads=0), 'predictor_heads=0'),
        ('ijepa', dict(predictor_width=12), 'a multiple of twice predictor_heads=4'),
        ('ijepa', dict(masks=0), 'ijepa: masks=0'),
        ('ijepa', dict(min_keep=0), 'ijepa: min_keep=0'),
        ('ijepa', dict(min_keep=L), 'min_keep=.* at least 1 and below'),
        ('ijepa', dict(target_blocks=0), 'ijepa: target_blocks=0'),
        ('ijepa', dict(target_scale=[0.2]), 'target_scale=.* is not .low, high.'),
        ('ijepa', dict(context_scale=['a', 1]), "context_scale=.* of which='a'"),
        ('hybrid', dict(balance='half'), "balance='half' must be a finite number"),
        ('mntp', dict(shift=0), "shift=0 must be 1; without a shift it is 'mlm'"),
        ('mlm', dict(label='clm'), "does not take 'label'"),
        ('clm', dict(z_weight=-1), 'z_weight=-1'),
        ('mlm', dict(logits_mib='all'), "logits_mib='all'"),
        ('mlm', dict(sampler='span', span_length=0), 'span_length=0'),
        ('mlm', dict(span_length=4), "needs sampler='span', not 'fixed'"),
        ('mlm', dict(attends='right'), 'bidirectional, causal'),
        ('mixture', dict(parts=(dict(name='mlm'),)), 'two or more'),
        ('mixture', dict(shares=(1, 2, 3)), 'shares'),
    ],
)
def test_errors_name_what_is_wrong_in_a_section(name, section, words):
    with pytest.raises(ValueError, match=words):
        build(name, **section)


def test_rate_follows_its_schedule_over_the_phase(rng):
    rate = dict(name='linear', start=0.6, end=0.2)
    objective = build('mlm', rate=rate)
    made = rows(rng, 300)

    def share(step):
        hidden = sum(objective.corrupt(r, rng, step)['loss_mask'].sum() for r in made)
        return hidden / sum((r['tokens'] > 3).sum() for r in made)

    assert abs(share(0) - 0.6) < 0.03 and abs(share(99) - 0.2) < 0.03
    assert abs(share(50) - 0.4) < 0.03


def test_mntp_predicts_the_masked_token_one_position_earlier():
    mlm, mntp = build('mlm', rate=0.5), build('mntp', rate=0.5)
    row = rows(np.random.default_rng(3), 1)[0]
    made = mntp.corrupt(row, np.random.default_rng(0))
    at = np.flatnonzero(made['loss_mask'])
    assert len(at)
    assert_array_equal(made['inputs'][at + 1], TOKENIZER.mask_id)
    assert_array_equal(made['labels'][at], row['tokens'][at + 1])
    assert (row['segment_ids'][at] == row['segment_ids'][at + 1]).all()
    assert mlm.label == 'mlm' and mntp.label == 'mntp'


def test_causal_order_by_rows_equals_causal():
    """The loss is the same with an order per row and with `causal` for the batch."""
    left, rows_ = build('clm'), build('mixture', parts=(dict(name='clm'),) * 2)
    assert_allclose(
        evaluate(left, batch_of(left))[0], evaluate(rows_, batch_of(rows_))[0], rtol=1e-5
    )


def test_all_rows_of_a_mixture_in_a_mixture_have_the_same_keys(rng):
    inner = dict(
        name='mixture', parts=[dict(name='mlm', sampler='iid'), dict(name='clm')]
    )
    given = dict(
        tokenizer=TOKENIZER, length=512, steps=9, parts=[inner, dict(name='mlm')]
    )
    objective = resolve.build('objectives', {'name': 'mixture'}, **given)
    assert len({frozenset(objective.corrupt(row, rng)) for row in rows(rng, 20)}) == 1


@pytest.mark.slow
def test_mixture_of_rows_equals_the_weighted_sum_of_its_parts():
    mixture = build('mixture')
    batch = batch_of(mixture)
    loss, metrics = evaluate(mixture, batch)
    total, count = 0.0, 0
    for number, part in enumerate(mixture.parts):
        chosen = np.asarray(batch['part'])[:, 0] == number
        own = {key: value[chosen] for key, value in batch.items()}
        assert chosen.any()
        positions = int(own['loss_mask'].sum())
        total += float(evaluate(part, own)[0]) * positions
        count += positions
    assert_allclose(loss, total / count, rtol=1e-5)
    assert_allclose(sum(v for k, v in metrics.items() if 'share' in k), 1, rtol=1e-6)


@pytest.mark.slow
def test_ijepa_does_not_read_the_targets_that_it_predicts():
    """The latent prediction does not change when the tokens at the targets do."""
    objective = build('ijepa', masks=2)
    batch = batch_of(objective)
    network = network_of(objective)
    params = init(network)
    view = view_of(objective, network, batch, target=params['encoder'])
    context, ok = np.asarray(batch['context']), np.asarray(batch['context_ok'])
    target, where = np.asarray(batch['target']), np.asarray(batch['target_ok'])

    @jax.jit
    def predict(tokens):
        new = view.replace(batch={**batch, 'tokens': tokens})
        kept, context_at = objective._gather('context', new.batch)
        tokens = jnp.take_along_axis(jnp.repeat(tokens, 2, axis=0), kept, axis=1)
        read = view.apply('encoder', params, tokens, *context_at, causal=False)
        _, target_at = objective._gather('target', new.batch)
        return view.apply('predictor', params, read, *context_at, *target_at)

    # One context of a row may contain another's targets, so compare context by context.
    for mask in range(2):
        one = np.asarray(batch['tokens']).copy()
        for row in range(B):
            at = target[row, mask][where[row, mask]]
            one[row, at] = 4 + (one[row, at] + 1) % (V - 4)
            assert not set(at) & set(context[row, mask][ok[row, mask]])
        assert (one != np.asarray(batch['tokens'])).any()
        shape = (B, 2, *np.shape(target)[2:], -1)
        before = np.asarray(predict(batch['tokens'])).reshape(shape)[:, mask]
        after = np.asarray(predict(jnp.asarray(one))).reshape(shape)[:, mask]
        assert where[:, mask].any()
        assert_array_equal(before[where[:, mask]], after[where[:, mask]])


def test_documents_without_a_latent_are_counted():
    """Too short for a block next to `min_keep` positions, or beyond the first."""
    objective = build('ijepa', masks=2)
    batch = batch_of(objective)
    segments_BL, target, ok = (
        np.asarray(batch[key]) for key in ('segment_ids', 'target', 'target_ok')
    )
    wanted = sum(
        segments_BL[b].max() - len({*segments_BL[b][target[b, c][ok[b, c]]]})
        for b, c in np.ndindex(B, 2)
    )
    assert wanted > 0
    network = network_of(objective)
    params = init(network)

    @jax.jit  # all that this metric does not need is not compiled
    def counted(batch):
        view = view_of(objective, network, batch, target=params['encoder'])
        metrics, _ = steps.loss_of(objective, params, view)[1]
        return metrics['jepa/documents_without_target']

    assert_allclose(counted(batch), wanted / 2)


def test_the_latent_loss_of_a_batch_without_latents_is_nan():
    objective = build('hybrid')
    batch = batch_of(objective)
    batch |= {'target_mask': jnp.zeros_like(batch['target_mask'])}
    assert np.isnan(evaluate(objective, batch)[1]['jepa/loss'])


def test_ijepa_counts_positions_beyond_its_capacity():
    objective = dataclasses.replace(build('ijepa'), kept=4, hidden=2)
    given = rows(np.random.default_rng(0))
    whole, cut = (
        [each.corrupt(row, np.random.default_rng(i)) for i, row in enumerate(given)]
        for each in (build('ijepa'), objective)
    )
    lost = [
        sum(int(a[k].sum()) - int(b[k].sum()) for k in ('context_ok', 'target_ok'))
        for a, b in zip(whole, cut)
    ]
    assert sum(lost) > 0
    assert [int(row['dropped_positions']) for row in cut] == lost
    assert not any(row['dropped_positions'] for row in whole)


def largest_array(jaxpr):
    """Returns the size of the largest array in a program, including nested ones."""
    sizes = [x.aval.size for each in jaxpr.eqns for x in each.outvars if x.aval.shape]
    inner = (x for each in jaxpr.eqns for x in jaxprs_in_params(each.params))
    return max([0, *sizes, *map(largest_array, inner)])


def test_info_nce_at_scale_computes_only_a_sample_of_the_scores():
    """1,152 rows of 307 masked positions, at a width of 1,024: all scores are 0.5 TB."""
    latent = build('hybrid', latent=dict(distance='info_nce')).latent
    rows, count, width = 1152, 307, 1024
    vectors = jax.ShapeDtypeStruct((rows, count, width), jnp.float32)
    where = jax.ShapeDtypeStruct((rows, count), bool)
    key = jax.random.key_data(key_of(0))

    def loss(prediction_BMD, target_BMD, where_BM):
        view = types.SimpleNamespace(memory={'key': key}, run_step=jnp.int32(3))
        return latent.compare(view, prediction_BMD, target_BMD, where_BM).sum()

    program = jax.make_jaxpr(jax.value_and_grad(loss))(vectors, vectors, where)
    assert largest_array(program.jaxpr) <= rows * count * (latent.negatives + 1)


def test_info_nce_draws_new_negatives_in_each_step_true_ones_first():
    section = dict(distance='info_nce', negatives=5)
    latent = build('hybrid', latent=section).latent
    where_N = np.arange(40) % 3 == 0
    key = jax.random.key_data(key_of(0))

    def drawn(step, where_N=where_N):
        view = types.SimpleNamespace(memory={'key': key}, run_step=jnp.int32(step))
        return np.asarray(latent._negatives(jnp.asarray(where_N), view))

    seen = [drawn(step) for step in range(20)]
    assert all(where_N[each].all() and len(set(each)) == 5 for each in seen)
    assert set(np.concatenate(seen)) == set(np.flatnonzero(where_N))
    assert set(np.flatnonzero(np.arange(40) < 2)) <= set(drawn(0, np.arange(40) < 2))
    assert latent._negatives(jnp.ones(5, bool), None) is None


DRAWING = ('normal', 'uniform', 'permutation')
SIGREG = dict(name='sigreg', weight=0.1, directions=4)


@pytest.mark.parametrize(
    'latent',
    [
        dict(
            regularizer=dict(name='vicreg', weight=0.1, sample=5),
            distance='info_nce',
            negatives=4,
        ),
        dict(
            regularizer=SIGREG | dict(sample=5), distance='info_nce', negatives=4, top=1
        ),
    ],
)
def test_no_key_is_used_twice(latent, monkeypatch):
    """Neither by two draws, two steps, two seeds, nor by the same step of two phases."""
    objective = build('hybrid', latent=latent)
    network, batch, used = network_of(objective), batch_of(objective), []
    params = init(network)
    for name in DRAWING:
        monkeypatch.setattr(jax.random, name, recorded(getattr(jax.random, name), used))

    @jax.jit
    def keys_of(step, phase_start, memory):
        used.clear()
        state = types.SimpleNamespace(target=params['encoder'], memory=memory, step=step)
        view = steps.view_of(network, objective, state, batch, step - phase_start)
        objective.loss(params, view)
        return list(used)

    cases = (0, 0, 0), (1, 0, 0), (2, 2, 0), (3, 2, 0), (0, 0, 1)
    with jax.debug_key_reuse(True):
        found = [
            keys_of(step, start, memory_of(objective, seed))
            for step, start, seed in cases
        ]
    keys = [tuple(np.asarray(key).tolist()) for each in found for key in each]
    assert len(keys) >= 4 and len(set(keys)) == len(keys)


def recorded(draw, used):
    """A function of jax.random that appends the data of the keys it is called with."""

    def run(key, *given, **options):
        used.append(jax.random.key_data(key))
        return draw(key, *given, **options)

    return run
