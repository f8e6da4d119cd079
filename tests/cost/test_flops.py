"""The formula of a step's arithmetic against two independent counts of its program."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_configs

from jepa_text.config import resolve
from jepa_text.cost import flops
from jepa_text.data import tokenizers
from jepa_text.models.network import Network, key_of
from jepa_text.objectives.base import View
from jepa_text.training import step as steps

LENGTH, ROWS = 64, 4
PRESETS = test_configs.module('desk').PRESETS


@functools.cache
def tokenizer():
    return tokenizers.load(tokenizers.BUNDLED)


def parts(section, length=LENGTH, rows=ROWS, **model):
    """Objective, network, and a batch of made-up words for it."""
    sizes = {'name': 'transformer', 'preset': 'desk', 'depth': 3, **model}
    encoder = resolve.build('models', sizes, vocab_size=tokenizer().vocab_size)
    given = dict(tokenizer=tokenizer(), length=length, steps=10)
    objective = resolve.build('objectives', section, **given)
    batch = [
        objective.corrupt(row(i, length), np.random.default_rng(i)) for i in range(rows)
    ]
    batch = {key: np.stack([row[key] for row in batch]) for key in batch[0]}
    return objective, Network(encoder, objective), batch


def row(seed, length):
    """Two documents, without padding."""
    rng = np.random.default_rng(seed)
    halves = np.arange(length) % (length // 2)
    return {
        'tokens': rng.integers(8, 2000, length).astype(np.int32),
        'segment_ids': (1 + np.arange(length) // (length // 2)).astype(np.int32),
        'positions': halves.astype(np.int32),
    }


def gradient(objective, network):
    """(params, target, batch) -> what a step computes before the optimizer."""

    def run(params, target, memory, batch):
        view = View(
            apply=network.apply,
            target=target,
            memory=memory,
            batch=batch,
            step=jnp.zeros((), jnp.int32),
            counts=objective.counts(batch),
        )
        loss = functools.partial(steps.loss_of, objective)
        return jax.value_and_grad(loss, has_aux=True)(params, view)

    return run


def inputs(objective, network, batch):
    params = jax.eval_shape(lambda: network.init(0))
    target = params['encoder'] if objective.has_target else None
    key = jax.random.key_data(key_of(0))
    memory = jax.eval_shape(lambda: {**objective.memory(network.encoder), 'key': key})
    return params, target, memory, batch


def whole(monkeypatch):
    """Causal attention and windows as XLA computes them: masked, not left out."""
    monkeypatch.setattr(flops, 'attended', lambda encoder, length, causal: length)


def compare(section, **shape):
    """(formula, count) of a section's step."""
    objective, network, batch = parts(section, **shape)
    rows, length = len(batch['tokens']), batch['tokens'].shape[1]
    formula = sum(flops.step(network, objective, rows, length).values())
    run = gradient(objective, network)
    return formula, flops.traced(run, *inputs(objective, network, batch))


SECTIONS = {
    f'{name}, phase {number}': phase['objective']
    for name, phases in PRESETS.items()
    for number, phase in enumerate(phases)
    if number == len(phases) - 1 or name == 'clm_mlm'
}
MLM = dict(name='mlm', rate=0.3)
LATENT = dict(name='hybrid', mlm=dict(rate=0.3))
FURTHER = {
    'own head': MLM,
    'mntp': dict(name='mntp', rate=0.3),
    'prefix': dict(name='clm', prefix=(0.2, 0.8), tied=True),
    'masked, to the left': MLM | dict(attends='left'),
    'iid': MLM | dict(sampler='iid'),
    'predictor over the row': LATENT | dict(predictor='transformer'),
    'no predictor': LATENT | dict(predictor='identity'),
    'info_nce': LATENT | dict(latent=dict(distance='info_nce')),
    'prototypes': LATENT | dict(latent=dict(distance='prototypes')),
    'vicreg': LATENT | dict(latent=dict(regularise=dict(name='vicreg', weight=1.0))),
    'rows': LATENT
    | dict(latent=dict(regularise=dict(name='visreg', weight=1.0, on='rows'))),
    'self as target': LATENT | dict(latent=dict(momentum=None)),
    'four contexts': dict(name='ijepa', mlm=dict(rate=0.3), masks=4),
}
EVERY = SECTIONS | FURTHER


@pytest.mark.parametrize('name', EVERY)
def test_formula_is_what_is_computed(name, monkeypatch):
    whole(monkeypatch)
    formula, counted = compare(EVERY[name])
    # SIGReg adds up its knots by a tiny product.
    assert formula == pytest.approx(counted, rel=1e-5)


@pytest.mark.parametrize(
    'model',
    [
        dict(scan=False),
        dict(kv_heads=2),
        dict(head_width=48),
        dict(window=8),
        dict(window=(None, 8, 8)),
    ],
    ids=str,
)
def test_formula_follows_the_shape(model, monkeypatch):
    whole(monkeypatch)
    formula, counted = compare(LATENT, **model)
    assert formula == pytest.approx(counted, rel=1e-9)


WIDE = dict(width=512, heads=4, kv_heads=4, ffn_width=1536, scan=False)


@pytest.mark.parametrize('name', SECTIONS)
def test_formula_within_two_percent_of_xla(name, monkeypatch):
    """XLA counts what goes element by element too, so the shape is a wide one."""
    whole(monkeypatch)
    objective, network, batch = parts(SECTIONS[name], **WIDE)
    run = jax.jit(gradient(objective, network))
    program = run.lower(*inputs(objective, network, batch))
    if name == 'mlm, phase 0':
        program = program.compile()
    formula = sum(flops.step(network, objective, ROWS, LENGTH).values())
    assert formula == pytest.approx(program.cost_analysis()['flops'], rel=0.02)


def test_attention_counts_what_may_be_seen():
    seen = functools.partial(flops.attended, length=12)
    for causal in (False, True):
        for window in (None, 0, 3, 11, 40):
            far = np.abs(np.subtract.outer(np.arange(12), np.arange(12)))
            mask = far <= (40 if window is None else window)
            mask = np.tril(mask) if causal else mask
            encoder = Windowed(window)
            assert seen(encoder, causal=causal) == pytest.approx(mask.sum() / 12)
    assert seen(Windowed((None, 0)), causal=False) == 6.5


class Windowed:
    def __init__(self, window):
        self.window = window


def test_parts_are_named_and_the_target_is_a_third_of_the_encoder():
    objective, network, _ = parts(LATENT)
    cost = flops.step(network, objective, ROWS, LENGTH)
    assert set(cost) == {'encoder', 'head', 'target', 'predictor'}
    assert cost['target'] == cost['encoder'] / 3
    per_token = flops.per_token(network, objective, ROWS, LENGTH)
    assert per_token == sum(cost.values()) / (ROWS * LENGTH)


def test_hybrid_is_at_most_a_third_dearer_than_mlm_at_210m():
    shape = dict(preset='210m', vocab_size=128_256)
    encoder = resolve.build('models', {'name': 'transformer', **shape})
    given = dict(tokenizer=tokenizer(), length=2048, steps=10)
    costs = []
    for section in (MLM | dict(rate=0.4), LATENT | dict(mlm=dict(rate=0.4))):
        objective = resolve.build('objectives', section, **given)
        network = Network(encoder, objective)
        costs.append(flops.per_token(network, objective, 8, 2048))
    # 6 x (blocks + head where words are hidden) + 12 x layers x width x length.
    by_hand = 6 * (113_246_208 + 0.4004 * 98_500_608) + 12 * 12 * 768 * 2048
    assert costs[0] == pytest.approx(by_hand, rel=1e-3)
    assert costs[1] / costs[0] < 1.35


def test_recomputation_is_in_the_count_and_not_in_the_formula():
    formula, plain = compare(MLM)
    same, again = compare(MLM, remat='full')
    assert formula == same == plain
    objective, network, _ = parts(MLM)
    forward = flops.step(network, objective, ROWS, LENGTH)['encoder'] / 3
    # Less the last product of each layer, which nothing in it needs.
    assert 0.7 * forward < again - plain < forward


def test_loops_count_as_often_as_they_run():
    x = jnp.ones((4, 4))
    once = flops.traced(lambda: x @ x)
    assert once == 2 * 4**3
    twice = jax.checkpoint(lambda y: jax.lax.fori_loop(0, 5, lambda _, z: z @ x, y))
    assert flops.traced(jax.jit(twice), x) == 5 * once

    def dearer(y):
        return y @ x @ x

    assert (
        flops.traced(lambda: jax.lax.cond(True, dearer, lambda y: y @ x, x)) == 2 * once
    )
    with pytest.raises(ValueError, match='fori_loop whole numbers'):
        flops.traced(lambda: jax.lax.while_loop(lambda y: y[0, 0] < 9, dearer, x))


def test_products_on_a_mesh_are_those_of_all_devices():
    mesh = jax.make_mesh((4,), ('data',), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec('data')
    split = jax.shard_map(lambda y: y @ y.T, mesh=mesh, in_specs=spec, out_specs=spec)
    assert flops.traced(split, jnp.ones((8, 3))) == 4 * 2 * 2 * 3 * 2
