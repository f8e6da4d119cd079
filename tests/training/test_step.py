"""The training step and phase transitions: exactness."""

import dataclasses
import functools
import re
import types

import draws
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_objectives import B, batch_of, build, by_repr, init, network_of, view_of

from jepa_text.models.network import key_of
from jepa_text.objectives.latent import balance, diagnostics
from jepa_text.objectives.latent.base import Prediction
from jepa_text.optim import muon, optimizers, schedules
from jepa_text.parallel import leaves
from jepa_text.training import state as states
from jepa_text.training import step, switches


@by_repr
def setup(
    name, accumulate=1, clip_norm=1.0, optimizer=None, diagnostics_every=0, **section
):
    """Returns the same object for the same arguments, so that it is compiled once."""
    objective = build(name, **section)
    network = network_of(objective)
    optimizer = optimizers.make(optimizer or {'name': 'adamw'})
    schedule = schedules.wsd(1e-2, warmup_steps=2, decay_steps=5, steps=50)
    run = step.make_step(
        network,
        objective,
        optimizer,
        schedule,
        phase_start=0,
        diagnostics_every=diagnostics_every,
        clip_norm=clip_norm,
        accumulate=accumulate,
    )
    # Not jitted as a whole: single operations are compiled once for all tests.
    fresh = functools.partial(states.create, network, objective, optimizer, 0)
    return types.SimpleNamespace(
        objective=objective,
        network=network,
        optimizer=optimizer,
        step=jax.jit(run),
        raw=run,
        fresh=fresh,
        create=functools.cache(fresh),
    )


@dataclasses.dataclass(frozen=True)
class Remembering(balance.Balance):
    """A rule that follows the losses of the step before."""

    def memory(self):
        return {'difference': jnp.zeros(())}

    def update(self, memory, observed):
        return {**memory, 'difference': observed['latent_loss'] - observed['token_loss']}

    def share(self, params, memory, step):
        return 1 / (2 + jnp.abs(memory['difference']))


def close(a, b, **tolerance):
    jax.tree.map(lambda x, y: assert_allclose(x, y, **tolerance), a, b)


def equal(a, b):
    jax.tree.map(assert_array_equal, a, b)


def far_from_targets(state):
    """The state with predictions that differ in size and direction."""
    predictor = jax.tree.map(
        lambda x: x + jax.random.normal(jax.random.key(0), x.shape),
        state.params['predictor'],
    )
    return state.replace(params={**state.params, 'predictor': predictor})


@pytest.mark.parametrize('name', draws.in_stages('hybrid', 'clm'))
def test_accumulation_gives_the_gradient_of_the_batch(monkeypatch, name):
    """Metrics and weights of losses are the same; the memory of a balance is updated in
    the step, and the target by the new parameters."""
    monkeypatch.setitem(balance.RULES, 'remembering', Remembering)
    given, has_target = dict(optimizer=dict(name='sgd')), name == 'hybrid'
    if has_target:
        given['balance'] = dict(name='remembering')
        given['latent'] = dict(momentum=0.9, distance='mse')
    whole, microbatches = setup(name, **given), setup(name, B, **given)
    batch, before = batch_of(whole.objective), whole.create()
    before = far_from_targets(before) if has_target else before
    one, one_metrics = whole.step(before, batch)
    eight, eight_metrics = microbatches.step(before, batch)
    close(eight.params, one.params, atol=1e-6)
    close(eight_metrics, one_metrics, rtol=1e-4, atol=1e-6)
    sums = {'train/loss', 'train/grad_norm', 'jepa/lambda'}
    for key in sums & {*one_metrics}:
        assert_allclose(eight_metrics[key], one_metrics[key], rtol=1e-5)
    if has_target:
        assert one_metrics['jepa/target_std'] > 0.1
        assert one_metrics['jepa/prediction_std'] > 0.01
        assert 0 < float(microbatches.step(eight, batch)[1]['jepa/lambda']) < 0.5
        assert learned(one.memory, before.memory) and learned(eight.memory, before.memory)
        moved = whole.objective.update_target(before.target, one.params['encoder'], 0)
        close(one.target, moved, rtol=1e-6, atol=1e-8)
        assert np.abs(moved['embedding'] - before.target['embedding']).max() > 1e-6


def learned(after, before):
    """Returns the entries of a memory that changed, without diagnostics."""
    names = set(before) - {'diagnostics'}
    return {name for name in names if not np.array_equal(after[name], before[name])}


@pytest.mark.long
def test_microbatches_also_save_memory_in_steps_with_diagnostics():
    def taken(accumulate):
        run = setup('hybrid', accumulate, diagnostics_every=1, optimizer=dict(name='sgd'))
        batch = {
            key: np.concatenate([rows] * 16)
            for key, rows in batch_of(run.objective).items()
        }
        compiled = run.step.lower(jax.eval_shape(run.fresh), batch).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    assert taken(8) < taken(1) / 3


@pytest.mark.parametrize('diagnostics_every', [0, 2])
def test_the_gradients_wait_for_the_diagnostics(diagnostics_every):
    """Otherwise a compiler may hold both gradients; on CPU it does anyway (LOG.md)."""
    run = setup('hybrid', diagnostics_every=diagnostics_every)
    state, batch = jax.eval_shape(run.fresh), batch_of(run.objective)
    program = jax.make_jaxpr(run.raw)(state, batch).jaxpr
    names = [equation.primitive.name for equation in program.eqns]
    assert names.count('optimization_barrier') == bool(diagnostics_every)
    if diagnostics_every:
        after = program.eqns[names.index('optimization_barrier') + 1 :]
        read = {id(x) for equation in after for x in equation.invars}
        given = program.invars[: len(jax.tree.leaves(state))]
        assert not read & {id(x) for x in given}


@pytest.mark.parametrize('sample', [1024, 24])
def test_sigreg_has_the_same_weight_in_microbatches(sample):
    """For identical vectors, for which it is N times a constant."""
    rule = dict(name='sigreg', weight=0.1, directions=8, sample=sample)
    objective = build('hybrid', latent=dict(regularizer=rule))
    where_BM = np.random.default_rng(0).random((B, 6)) < 0.8
    where_BM[:, 0] = True

    def penalty(where_BM):
        counts = {'latent': jnp.int32(whole)}
        memory = {'key': jax.random.key_data(key_of(0))}
        view = types.SimpleNamespace(run_step=0, counts=counts, memory=memory)
        ones_BMD = jnp.ones((*where_BM.shape, 4))
        made = Prediction(ones_BMD, ones_BMD, where_BM, ones_BMD)
        return float(objective.latent.penalty(view, made)['sigreg'])

    whole = where_BM.sum()
    microbatches = sum(penalty(where_BM[part::4]) for part in range(4))
    assert_allclose(microbatches, penalty(where_BM), rtol=0.15)


@pytest.mark.parametrize('ema', ['all', 'layers'])
def test_the_target_moves_by_one_minus_momentum(ema):
    """If only layers are averaged, it shares the embedding."""
    objective = build('hybrid', latent=dict(momentum=0.75, ema=ema))
    network = network_of(objective)
    params = jax.device_get([init(network, seed) for seed in (0, 1)])
    target, encoder = (one['encoder'] for one in params)
    expected = jax.tree.map(lambda t, p: 0.75 * t + 0.25 * p, target, encoder)
    if ema == 'layers':
        expected = {**expected, 'embedding': encoder['embedding']}
    found = objective.update_target(target, encoder, 0)
    close(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_gradients_are_clipped_to_the_norm():
    run = setup('mlm', clip_norm=0.01, optimizer=dict(name='sgd'))
    before = run.create()
    after, metrics = run.step(before, batch_of(run.objective))
    moved = jax.tree.map(lambda a, b: a - b, after.params, before.params)
    assert metrics['train/grad_norm'] > 0.01
    rate = metrics['train/learning_rate']
    assert_allclose(optax.tree.norm(moved) / rate, 0.01, rtol=1e-2)


@pytest.mark.slow
def test_a_non_finite_step_only_changes_counters():
    run = setup('hybrid')
    state, _ = run.step(run.create(), batch_of(run.objective))
    broken = state.replace(
        params={
            **state.params,
            'lm_head': jax.tree.map(lambda x: x * np.nan, state.params['lm_head']),
        }
    )
    batch = batch_of(run.objective, 1)
    after, metrics = run.step(broken, batch)
    equal(
        (after.params, after.target, after.opt_state),
        (broken.params, broken.target, broken.opt_state),
    )
    assert (int(after.skipped), int(after.skipped_in_row), int(after.step)) == (1, 1, 2)
    assert not np.isfinite(metrics['train/loss'])
    healed, _ = run.step(after.replace(params=state.params), batch)
    assert (int(healed.skipped), int(healed.skipped_in_row)) == (1, 0)


@pytest.mark.slow
def test_lambda_zero_trains_as_mlm_bit_for_bit():
    hybrid = setup('hybrid', balance=0.0, mlm=dict(rate=0.3), clip_norm=1e9)
    mlm = setup('mlm', rate=0.3, clip_norm=1e9)
    a, b = hybrid.create(), mlm.create()
    for seed in range(3):
        # That both mask the same tokens is tested in tests/objectives.
        batch = batch_of(hybrid.objective, seed)
        a, _ = hybrid.step(a, batch)
        b, _ = mlm.step(b, batch)
    for name in ('encoder', 'lm_head'):
        equal(a.params[name], b.params[name])


@pytest.mark.slow
def test_sigmoid_weight_drifts_to_its_clamp():
    """jepa_mlm 2.3: w(t) is about the sum of learning rates under Adam."""
    balance = dict(name='sigmoid', initial=0.5, low=0.0, high=0.515)
    run = setup('hybrid', balance=balance)
    state, rates = run.create(), 0.0
    for seed in range(10):
        state, metrics = run.step(state, batch_of(run.objective, seed))
        rates += float(metrics['train/learning_rate'])
        if seed == 4:
            assert_allclose(state.params['balance']['logit'], rates, rtol=0.05)
    assert_allclose(metrics['jepa/lambda'], 0.515, rtol=1e-6)


@pytest.mark.slow
def test_entering_a_phase_carries_the_state_over():
    clm, hybrid = setup('clm'), setup('hybrid')
    state, _ = clm.step(clm.create(), batch_of(clm.objective))
    enter = dict(network=hybrid.network, objective=hybrid.objective, seed=0)
    after = switches.enter_phase(state, optimizer=hybrid.optimizer, **enter)
    for name in ('encoder', 'lm_head'):
        equal(after.params[name], state.params[name])
        equal(after.opt_state[0].mu[name], state.opt_state[0].mu[name])
    equal(after.target, state.params['encoder'])
    close(after.params['predictor'], hybrid.create().params['predictor'], rtol=1e-6)
    ages = after.opt_state[0].age
    assert set(jax.tree.leaves(jax.tree.map(int, ages['encoder']))) == {1}
    assert set(jax.tree.leaves(jax.tree.map(int, ages['predictor']))) == {0}
    assert int(after.step) == 1
    back = switches.enter_phase(after, clm.network, clm.objective, clm.optimizer, seed=0)
    assert back.target is None and set(back.params) == {'encoder', 'lm_head'}


@pytest.mark.parametrize('name, b2', draws.in_stages(('muon', 0.95), ('adamw', 0.999)))
def test_new_parameters_first_move_by_the_learning_rate(name, b2):
    """A head that was tied is new; all others continue."""
    optimizer = dict(name=name, b2=b2, weight_decay=0.0)
    before = setup('clm', optimizer=optimizer, tied=True)
    after = setup('hybrid', optimizer=optimizer)
    state = before.create()
    for seed in range(4):
        state, _ = before.step(state, batch_of(before.objective, seed))
    enter = dict(network=after.network, objective=after.objective, seed=0)
    state = switches.enter_phase(state, optimizer=after.optimizer, **enter)
    new, metrics = after.step(state, batch_of(after.objective, 9))
    rate = float(metrics['train/learning_rate'])

    def moved(old, new):
        return float(jnp.abs(old - new).max() / rate)

    moves = leaves.by_name(jax.tree.map(moved, state.params, new.params))

    def largest(*modules):
        """Largest updates by Adam; entries with tiny gradients move less, due to eps."""
        by_muon = muon.HIDDEN if name == 'muon' else '^$'
        own = (x for x in moves if x.split('/')[0] in modules)
        return [moves[path] for path in own if not re.search(by_muon, path)]

    begun = largest('predictor', 'lm_head')
    assert begun
    assert_allclose(begun, 1, rtol=1e-2)
    assert max(abs(move - 1) for move in largest('encoder')) > 0.05


@pytest.mark.parametrize('section', draws.in_stages('hybrid', 'ijepa'))
def test_diagnostics_use_the_gradient_of_each_loss(section):
    run = setup(section, diagnostics_every=1)
    state, batch = run.create(), batch_of(run.objective)
    view = view_of(run.objective, run.network, batch, target=state.target)

    @jax.jit
    def gradient(name):
        def loss(encoder):
            terms, *_ = run.objective.forward({**state.params, 'encoder': encoder}, view)
            return jnp.stack([terms['latent'], terms['tokens']]) @ name

        tree = jax.grad(loss)(state.params['encoder'])
        return jax.flatten_util.ravel_pytree(tree)[0]

    latent, tokens = (gradient(row) for row in jnp.eye(2))
    measured = jax.jit(run.objective.diagnostics)(state.params, view)
    assert set(measured) == set(run.objective.diagnostic_names)
    assert {x.dtype for x in measured.values()} == {jnp.dtype('float32')}
    norms = np.linalg.norm(latent), np.linalg.norm(tokens)
    cosine = latent @ tokens / (norms[0] * norms[1])
    found = [measured[name] for name in diagnostics.GRADIENTS]
    assert_allclose(found, [*norms, cosine], rtol=1e-4, atol=1e-5)
    assert abs(norms[0] - norms[1]) > 1e-2


@pytest.mark.slow
def test_diagnostics_run_when_due_and_persist_until_the_next():
    run = setup('hybrid', diagnostics_every=2)
    state, seen = run.create(), []
    for seed in range(4):
        state, metrics = run.step(state, batch_of(run.objective, seed))
        seen.append([float(metrics[name]) for name in run.objective.diagnostic_names])
    assert seen[0] == seen[1] and seen[2] == seen[3] and seen[0] != seen[2]
    assert np.isfinite(seen).all()


@pytest.mark.slow
def test_missing_diagnostics_are_nan():
    """Without diagnostics, in a batch without latents, and after a failed first step."""
    never, due = setup('hybrid'), setup('hybrid', diagnostics_every=2)
    batch = batch_of(never.objective)
    _, metrics = never.step(never.create(), batch)
    assert not set(never.objective.diagnostic_names) & set(metrics)
    empty = batch | {'target_mask': np.zeros_like(batch['target_mask'])}
    state, metrics = never.step(never.create(), empty)
    signs = [metrics[f'jepa/{name}'] for name in ('target_std', 'cosine', 'lambda')]
    assert np.isnan(signs).all() and int(state.skipped) == 0
    broken = due.create()
    broken = broken.replace(params=jax.tree.map(lambda x: x * jnp.nan, broken.params))
    failed, _ = due.step(broken, batch)
    assert int(failed.skipped) == 1
    _, metrics = due.step(failed.replace(params=due.create().params), batch)
    assert np.isnan([metrics[name] for name in due.objective.diagnostic_names]).all()
    assert not {'target_std', 'rank'} & {*diagnostics.notes(metrics)}


@pytest.mark.parametrize(
    'asked, every, wanted', [(0, 20, 20), (100, 20, 20), (5, 20, 5), (100, 0, 100)]
)
def test_a_balance_sets_the_frequency_of_diagnostics(asked, every, wanted):
    balance = dict(name='gradient_ratio', every_steps=every) if every else 0.5
    objective = setup('hybrid', balance=balance).objective
    assert objective.diagnostics_every(asked) == wanted


@pytest.mark.long
def test_gradient_ratio_holds_its_ratio():
    """Also without telemetry."""
    balance = dict(name='gradient_ratio', ratio=1.0, momentum=0.0, every_steps=1)
    run = setup('hybrid', balance=balance, optimizer=dict(name='sgd'))
    state = begun = run.create()
    for _ in range(8):
        state, metrics = run.step(state, batch_of(run.objective, 0))
    weight = float(metrics['jepa/lambda'])
    latent = weight * float(metrics['jepa/latent_grad_norm'])
    tokens = (1 - weight) * float(metrics['jepa/token_grad_norm'])
    assert weight != 0.5 and latent > 0
    assert_allclose(latent / tokens, 1.0, rtol=0.1)
    assert learned(state.memory, begun.memory)
