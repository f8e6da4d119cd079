"""Steps that runs have in common are found, and no others."""

import dataclasses
import itertools
import random

import numpy as np
import pytest
import tiny

from jepa_text.running import restore
from jepa_text.study import forecast, members, study, tree, work

CLM, MLM = dict(name='clm'), dict(name='mlm', rate=0.4)
STEADY = dict(name='hybrid', latent=dict(momentum=0.99), balance=0.5, predictor_width=16)
JEPA = STEADY | {'latent': None}
FALLING = MLM | {'rate': dict(name='linear', start=0.3, end=0.1)}
WSD = dict(name='wsd', peak=5e-4, warmup_steps=2, decay_steps=4)
PREPARE = dict(source=dict(name='bundled'), tokenizer='bundled', row_length=32)


def phase(objective, steps=None, **more):
    return dict(objective=objective, **more, **(dict(steps=steps) if steps else {}))


def run(steps, *phases, **more):
    return dict(steps=steps, phases=phases, **more)


def made(runs, **changes):
    """Returns the config of a study of {name: run}, without rows."""
    shared = dict(
        data=dict(row_length=32, batch_size=8),
        model=dict(name='transformer', preset='tiny', depth=1),
        prepare=PREPARE,
        schedule=WSD,
        runs=tuple({'name': name, **one} for name, one in runs.items()),
    )
    return study.plain(shared | changes)


def courses(folder, *runs, **changes):
    config = made({f'r{n}': one for n, one in enumerate(runs)}, **changes)
    configs = members.configs(config, folder / 'rows')
    for one in configs.values():
        one['prepare'] = config['prepare']
    return work.courses(configs)


BASE = run(40, phase(CLM, 20), phase(MLM))


@pytest.mark.parametrize(
    'one, other, steps',
    [
        # Budgets share the steps before the decay of the shorter run.
        (run(20, phase(CLM)), run(40, phase(CLM)), 16),
        # Splits share the steps before the first switch or decay.
        (BASE, run(40, phase(CLM, 10), phase(MLM)), 10),
        (BASE, run(24, phase(CLM)), 20),
        (BASE, run(40, phase(CLM, 20), phase(MLM | {'rate': 0.2})), 20),
        (BASE, run(40, phase(CLM | {'tied': True}, 20), phase(MLM)), 0),
        # The second phase continues equally.
        (BASE, run(30, phase(CLM, 20), phase(MLM)), 26),
        # Equal runs still take their own last step.
        (BASE, BASE, 39),
        (BASE, BASE | {'seed': 1}, 0),
        (BASE, BASE | {'clip_norm': 0.5}, 0),
        (BASE, BASE | {'optimizer': dict(name='adamw', b2=0.9)}, 0),
        (BASE, BASE | {'data': dict(batch_size=4)}, 0),
        (BASE, BASE | {'checkpoint': dict(every_steps=3)}, 39),
        (BASE, BASE | {'schedule': WSD | {'peak': 1e-3}}, 0),
        (BASE, BASE | {'schedule': WSD | {'warmup_steps': 3}}, 0),
        (BASE, BASE | {'schedule': WSD | {'decay_steps': 10}}, 30),
        # A different section with the same learning rates.
        (
            run(40, phase(MLM), schedule=WSD | {'warmup_steps': 0}),
            run(20, phase(MLM), schedule=5e-4),
            19,
        ),
        # Two equal phases are still two phases.
        (run(40, phase(CLM)), run(40, phase(CLM, 20), phase(CLM)), 20),
        # The objective depends on the length of its phase.
        (run(20, phase(STEADY)), run(40, phase(STEADY)), 16),
        (run(20, phase(FALLING)), run(40, phase(FALLING)), 0),
        (run(20, phase(JEPA)), run(40, phase(JEPA)), 0),
        (run(20, phase(MLM, data=dict(batch_size=4))), run(40, phase(MLM)), 0),
    ],
)
def test_common_steps_of_two_runs(tmp_path, one, other, steps):
    one, other = courses(tmp_path, one, other).values()
    assert tree.common_steps(one, other) == tree.common_steps(other, one) == steps


def test_each_step_is_trained_once_in_any_order_of_runs(tmp_path):
    runs = [
        run(budget, *([phase(CLM, first)] if first else []), phase(MLM), seed=seed)
        for budget, first, seed in itertools.product((20, 30), (0, 4, 8), (0, 1))
    ]
    found = courses(tmp_path, *runs)
    totals = set()
    for seed in range(6):
        order = random.Random(seed).sample(sorted(found), len(found))
        trunks = tree.trunks({name: found[name] for name in order}, {})
        begins = {name: trunk[1] if trunk else 0 for name, trunk in trunks.items()}
        totals.add(sum(len(found[name].rates_N) - begins[name] for name in order))
        # A run cannot keep a checkpoint that it only continues from.
        assert all(begins[name] < step for name, step in filter(None, trunks.values()))
    # Per seed: MLM, and a decay of 4 from 16; the same from CLM after 4, and after 8.
    assert totals == {2 * ((30 + 4) + (30 + 4) + (26 + 4))}


def straight(steps, decay):
    """Returns a Course whose rate is 1 until its decay to a distinct value."""
    rates_N = np.where(np.arange(steps) < decay, 1, 1 / steps).astype(np.float32)
    return tree.Course('alike', ((0, steps, {}, None),), rates_N)


# n continues from m after 16 steps, k after 30.
COURSES = dict(m=straight(50, 40), n=straight(20, 16), k=straight(35, 30))


@pytest.mark.parametrize(
    'saved, ended, trunks',
    [
        ({}, '', dict(m=None, n=('m', 16), k=('m', 30))),
        # Runs that have begun continue from their own checkpoints.
        (dict(k=[4], n=[3]), '', dict(m=None, n=None, k=None)),
        # Of a run that has ended, only checkpoints that it has kept.
        (dict(m=[10, 16, 50]), 'm', dict(m=None, n=('m', 16), k=('m', 16))),
        (dict(m=[50]), 'm', dict(m=None, n=None, k=('n', 16))),
        (dict(m=[50], n=[20]), 'mn', dict(m=None, n=None, k=None)),
        (dict(k=[30, 35]), 'k', dict(m=('k', 30), n=('m', 16), k=None)),
    ],
)
def test_a_run_continues_from_the_checkpoint_after_most_steps(saved, ended, trunks):
    assert tree.trunks(COURSES, saved, {*ended}) == trunks


@pytest.mark.slow
def test_a_dry_run_counts_seeds_and_common_steps(tmp_path, capsys):
    config = made(
        {'a': run(40, phase(MLM)), 'b': run(20, phase(MLM))},
        seeds=(0, 1),
        plan=dict(hardware='core:2', mfu=1e-4),
    )
    found = {one.name: one for one in study.study(config, tmp_path, dry_run=True)}
    assert list(found) == ['a/seed_0', 'a/seed_1', 'b/seed_0', 'b/seed_1']
    one = found['b/seed_1']
    assert (one.trunk, one.start, one.trained) == ('a/seed_1', 16, 4)
    assert one.flops(16) == pytest.approx(one.flops(0) / 5)
    assert one.seconds(16) == pytest.approx(one.seconds(0) / 5)
    said = ' '.join(capsys.readouterr().out.split())
    assert '4 runs of 120 steps, of which 88 are trained' in said
    assert 'saves 27% of the steps' in said and 'hours of training on core:2' in said
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_run_that_gets_more_steps_is_not_done(tmp_path):
    """Its result is that of fewer steps, unless its checkpoints are gone."""
    runs = {by: run(6, phase(STEADY), baseline=by) for by in ('none', 'flops')}
    config = made(runs, schedule=1e-3)
    (name, own), *_ = members.configs(config, tmp_path / 'rows').items()
    configs = {name: own | {'prepare': config['prepare']}}
    path = members.result_path(tmp_path, name)
    path.parent.mkdir()
    path.write_text('{}')
    assert forecast.of_members(configs, tmp_path)[0].is_done
    (tmp_path / name / 'checkpoints' / '3').mkdir(parents=True)
    one, *others = forecast.of_members(configs, tmp_path)
    assert not one.is_done and (one.steps, one.left, one.trained) == (6, 3, 6)
    assert one.flops(3) == pytest.approx(one.flops(0) / 2)
    left = sum(other.trained for other in others) + 3
    said = ' '.join(forecast.totals([one, *others]))
    assert f'0 runs are done and 1 begun: {left:,} steps are left.' in said
    # A run that has begun continues from its own checkpoint, not from a later trunk.
    behind = dataclasses.replace(one, start=5)
    assert (behind.trained, behind.left) == (1, 3)


@pytest.mark.slow
def test_a_run_from_a_trunk_equals_the_run_from_scratch(tmp_path):
    """Bit for bit, in state and metrics: decays, switches and a shorter budget."""
    base = tiny.config(tmp_path, steps=12, evaluate=dict(every_steps=4, max_rows=16))
    del base['phases']
    base |= dict(
        schedule=WSD | {'peak': 3e-3},
        baseline='none',
        checkpoint=dict(every_steps=5, keep=1),
    )
    base['prepare'], base['data']['folder'] = PREPARE, ''
    runs = dict(
        clm=run(12, phase(CLM)),
        short=run(9, phase(CLM)),
        split=run(12, phase(CLM, 5), phase(MLM)),
        jepa=run(12, phase(CLM, 5), phase(STEADY)),
        late=run(12, phase(CLM, 5), phase(STEADY, 4), phase(MLM)),
    )
    base['runs'] = [{'name': name, **one} for name, one in runs.items()]
    configs = members.configs(study.plain(base), tiny.rows(tmp_path))
    trunks = tree.trunks(work.courses(configs), {})
    assert trunks == dict(
        clm=None, short=('clm', 5), split=('clm', 5), jepa=('clm', 5), late=('jepa', 9)
    )
    keep_at_steps = {'clm': [5], 'jepa': [9]}
    for name, config in configs.items():
        config = work.with_milestones(config, keep_at_steps.get(name, ()))
        work.train(name, config, str(tmp_path / 'study'), trunks[name])
    # At a branching step there is one more evaluation, also in copies of the log.
    more = {'clm': {5}, 'short': {5}, 'split': set(), 'jepa': {9}, 'late': set()}
    for name, config in configs.items():
        alone, shared = tmp_path / 'alone' / name, tmp_path / 'study' / name
        state = tiny.train(config, alone)
        assert members.finished(shared, config)
        steps = [*keep_at_steps.get(name, ()), config['steps']]
        assert restore.steps(shared / 'checkpoints') == steps
        # Only the last checkpoint is read, and nothing is trained.
        assert tiny.fingerprint(tiny.train(config, shared)) == tiny.fingerprint(state)
        ours, its = tiny.log(shared), tiny.log(alone)
        assert [line for line in ours if line in its] == its
        others = [line for line in ours if line not in its]
        assert {line['step'] for line in others} == more[name]
        assert all('heldout/clm_loss' in line or name == 'jepa' for line in others)
