"""Phase transitions: a transition that is accepted at the start also runs."""

import itertools

import draws
import jax
import numpy as np
import pytest
import tiny
from numpy.testing import assert_array_equal

from jepa_text.objectives.latent import balance
from jepa_text.parallel import exits, sharding
from jepa_text.study import work
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes
from jepa_text.training import state as states
from jepa_text.training import step as steps
from jepa_text.training import switches


def made(folder, *sections, telemetry=0, **changes):
    """Returns the recipe of phases with these objectives, two steps each."""
    phases = [dict(steps=2, objective=section) for section in sections]
    config = tiny.config(
        folder,
        steps=2 * len(phases),
        phases=phases,
        evaluate=dict(every_steps=0, rate=0.15, max_rows=1),
        telemetry=dict(every_steps=telemetry),
        **changes,
    )
    config = settings.plain(config)
    built = recipes.make(config)
    return built, config


def begun(built):
    """Returns the first state of a recipe, on the host."""
    first = built.phases[0]
    state = states.create(first.network, first.objective, built.optimizer, built.seed)
    return jax.tree.map(np.array, state)


def run(built):
    """Runs a step of each phase."""
    state = begun(built)
    for phase in built.phases:
        if phase.index:
            state = switches.entered(built, phase, state)
        source = phase.mixture.parts[0].rows
        rows = [
            phase.corrupt(source[i], np.random.default_rng(i), phase.start)
            for i in range(phase.batch_size)
        ]
        batch = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
        step = steps.compiled(built, phase)
        state, values = step(state, sharding.put_batch(batch, built.mesh))
        assert np.isfinite(values['train/loss']), phase.index


def entered(*sections, folder):
    """Returns the state at the start of the second phase. The optimizer state is 7
    everywhere at the end of the first phase."""
    built, config = made(folder, *sections)
    switches.check(built)
    state = begun(built)
    sevens = jax.tree.map(lambda x: np.full_like(x, 7), state.opt_state)
    state = state.replace(opt_state=sevens)
    state = switches.entered(built, built.phases[1], state)
    return jax.device_get(state)


def draw(rng):
    """Returns the section of an objective with random options."""

    def some(**options):
        kept = [name for name in options if rng.random() < 0.5]
        return {name: options[name] for name in kept}

    token = some(tied=True, logits_mib=0, z_weight=1e-4)
    latent = some(
        momentum=[None, 0.9][rng.integers(2)],
        ema=['all', 'layers'][rng.integers(2)],
        distance=['info_nce', 'mse'][rng.integers(2)],
        regularizer=dict(name=str(rng.choice(['sigreg', 'vicreg'])), weight=0.1),
    )
    if latent.get('momentum', 1) is None:
        latent.pop('ema', None)
    rule = str(rng.choice(['fixed', 'sigmoid', 'gradient_ratio']))
    both = dict(
        mlm=token,
        latent=latent,
        balance=0.5 if rule == 'fixed' else dict(name=rule),
        predictor_width=int(rng.choice([16, 32])),
    )
    sized = dict(predictor_depth=1, predictor_heads=2)
    kind = str(rng.choice(['mlp', 'transformer']))
    return [
        lambda: dict(name='mlm', **token, **some(sampler='iid')),
        lambda: dict(name='clm', **token),
        lambda: dict(name='mntp', **token),
        lambda: dict(
            name='mixture', parts=[dict(name=name, **token) for name in ('mlm', 'clm')]
        ),
        lambda: dict(name='hybrid', predictor=kind, **both, **sized),
        lambda: dict(name='ijepa', masks=1, **both, **sized),
    ][rng.integers(6)]()


def try_at_random(folder, seed, telemetry):
    """Runs random phases if they are accepted; else the error must name both phases."""
    rng = np.random.default_rng(seed)
    sections = [draw(rng) for _ in range(2)]
    optimizer = dict(name=str(rng.choice(['adamw', 'muon'])))
    try:
        built, _ = made(folder, *sections, optimizer=optimizer, telemetry=telemetry)
        switches.check(built)
    except ValueError as error:
        names = [section['name'] for section in sections]
        named = f'phase 1 ({names[1]}) cannot follow phase 0 ({names[0]}): '
        assert named in str(error), error
        return False
    run(built)
    return True


@pytest.mark.parametrize('count, telemetry', draws.in_stages((1, 0), (2, 2)))
def test_accepted_transitions_run(folder, count, telemetry):
    """With diagnostics, too, which take most of the time."""
    seeds = itertools.count(1000 * draws.seed() + 500 * (count - 1))
    accepted = []
    while sum(accepted) < count and len(accepted) < 60:
        accepted.append(try_at_random(folder, next(seeds), telemetry))
    assert sum(accepted) == count


HYBRID = dict(name='hybrid', predictor_width=16)
IJEPA = dict(
    name='ijepa', masks=1, predictor_width=16, predictor_depth=1, predictor_heads=2
)


@pytest.mark.slow
def test_a_tied_head_that_gets_a_kernel_starts_as_the_embedding(folder):
    state = entered(dict(name='mlm', tied=True), dict(name='clm'), folder=folder)
    kernel_DV = state.params['lm_head']['output']['kernel']
    assert_array_equal(kernel_DV, state.params['encoder']['embedding'].T)
    adam = state.opt_state[0]
    for tree in adam:
        assert not tree['lm_head']['output']['kernel'].any()
        assert (tree['encoder']['embedding'] == 7).all()


@pytest.mark.slow
@pytest.mark.parametrize('before', [HYBRID, {**IJEPA, 'predictor_width': 32}, IJEPA])
def test_a_predictor_of_other_shapes_is_reinitialized(folder, before):
    state = entered(before, IJEPA, folder=folder)
    is_same = before is IJEPA
    for tree in state.opt_state[0]:
        assert {x.max() for x in jax.tree.leaves(tree['predictor'])} == {7 * is_same}
        assert {x.min() for x in jax.tree.leaves(tree['encoder'])} == {7}


@pytest.mark.slow
@pytest.mark.parametrize('before', ['sigmoid', 'gradient_ratio'])
def test_a_balance_only_takes_over_the_means_of_its_own_rule(folder, before):
    """What a phase before the last one has left in the memory is out of date."""
    rule = balance.make(dict(name='gradient_ratio'), 10)
    sevens = {name: np.full_like(x, 7) for name, x in rule.memory().items()}
    first = {**HYBRID, 'balance': dict(name=before)}
    last = {**HYBRID, 'balance': dict(name='gradient_ratio')}
    built, _ = made(folder, first, last)
    state = begun(built)
    state = state.replace(memory=state.memory | sevens)
    state = jax.device_get(switches.entered(built, built.phases[1], state))
    kept = 7 * (before == 'gradient_ratio')
    assert {float(state.memory[name]) for name in sevens} == {kept}
    assert_array_equal(state.memory['key'], begun(built).memory['key'])


IMPOSSIBLE = [
    (
        [dict(name='clm'), dict(name='mlm', tied=True)],
        {},
        r'phase 1 \(mlm\) cannot follow phase 0 \(clm\): .* kernel of its own',
    ),
    (
        [dict(name='mlm')],
        dict(model=dict(name='bert', preset='tiny', positions=16)),
        'row_length=16 or less',
    ),
    (
        [dict(name='mlm')],
        dict(model=dict(name='transformer', preset='tiny', attention='cudnn')),
        "backend 'cudnn' does not support this call",
    ),
]


@pytest.mark.parametrize('sections, changes, words', IMPOSSIBLE)
def test_impossible_runs_are_rejected_before_anything_is_written(
    folder, tmp_path, sections, changes, words
):
    _, config = made(folder, *sections, **changes)
    with pytest.raises(exits.ConfigError, match=words):
        tiny.train(config, tmp_path / 'run')
    assert not [path for path in tmp_path.rglob('*') if path.is_file()]


def test_a_study_is_rejected_before_its_first_run_trains(folder, tmp_path):
    """The second of its two runs has an impossible transition."""
    _, good = made(folder, dict(name='clm'), dict(name='mlm'))
    _, bad = made(folder, dict(name='clm'), dict(name='mlm', tied=True))
    (tmp_path / 'rows').symlink_to(good['data']['folder'])
    config = good | {'examine': {}}
    with pytest.raises(ValueError, match="run 'bad': phase 1 .* cannot follow phase 0"):
        work.check_runs(config, {'good': good, 'bad': bad}, set())
