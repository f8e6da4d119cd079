"""Extending a run: it continues with more steps, and reports the effects."""

import json

import numpy as np
import pytest
import tiny

from jepa_text.optim import schedules
from jepa_text.running import metrics, workdir
from jepa_text.training import begin, completion
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes

MLM = dict(objective=dict(name='mlm'))
WSD = dict(name='wsd', peak=1e-2, warmup=0.25, decay=0.5)
NONE = dict(every=0, rate=0.15, max_rows=16)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('tiny')


def run(folder, workdir, steps, schedule=WSD, phases=(MLM,), **changes):
    config = tiny.config(
        folder, steps=steps, schedule=schedule, phases=phases, evaluate=NONE, **changes
    )
    config['telemetry']['every'] = 0
    tiny.train(config, workdir)
    return config


def series(workdir, name):
    return dict(zip(*metrics.series(metrics.read(workdir), name)))


@pytest.mark.slow
@pytest.mark.parametrize('length', [dict(steps=2), dict(share=0.5)])
def test_a_run_is_extended_after_its_decay(folder, tmp_path, capsys, length):
    first = dict(length, objective=dict(name='clm'))
    run(folder, tmp_path, 4, phases=(first, MLM))
    before = series(tmp_path, 'train/loss')
    assert float(series(tmp_path, 'train/learning_rate')[4]) == 0
    capsys.readouterr()
    run(folder, tmp_path, 12, phases=(first, MLM))
    said = capsys.readouterr().err
    assert 'extended from 4 to 12 steps, at step 4: the last phase (mlm)' in said
    assert 'The learning rate was 0. A run of 12 steps has 0.01 at this step' in said
    losses, rates = (series(tmp_path, f'train/{n}') for n in ('loss', 'learning_rate'))
    assert list(losses) == list(range(1, 13))
    assert {step: losses[step] for step in before} == before
    # The rate rises linearly to that of a run of 12 steps, and then equals it.
    straight = schedules.make(WSD, 12)
    # The rise takes a quarter of the eight steps left, as the schedule's warm-up.
    assert rates[5] == pytest.approx(float(straight(4)) / 2)
    for step in range(6, 13):
        assert rates[step] == pytest.approx(float(straight(step - 1)))
    # The same command has nothing left to do; fewer steps are rejected.
    run(folder, tmp_path, 12, phases=(first, MLM))
    assert series(tmp_path, 'train/loss') == losses
    with pytest.raises(ValueError, match='steps: 12 -> 4'):
        run(folder, tmp_path, 4, phases=(first, MLM))
    saved = json.loads((tmp_path / 'config.json').read_text())
    assert saved['phases'][0] == dict(steps=2, objective=first['objective'])
    assert saved['steps'] == 12


@pytest.mark.slow
def test_without_a_decay_the_run_equals_a_straight_one(folder, tmp_path, capsys):
    constant = dict(name='constant', value=1e-2)
    run(folder, tmp_path / 'straight', 5, constant)
    run(folder, tmp_path / 'longer', 2, constant)
    capsys.readouterr()
    run(folder, tmp_path / 'longer', 5, constant)
    assert 'The learning rate continues at 0.01.' in capsys.readouterr().err
    straight, longer = (
        series(tmp_path / name, 'train/loss') for name in ('straight', 'longer')
    )
    assert list(straight) == list(longer)
    np.testing.assert_allclose(list(longer.values()), list(straight.values()), rtol=1e-5)


RISING = dict(name='linear', start=0.5, end=1.0)


@pytest.mark.parametrize(
    'schedule, objective, at, changed',
    [
        (1e-2, dict(name='mlm', rate=0.3), 60, []),
        (dict(WSD, warmup=10, decay=20), dict(name='mlm', rate=[0.1, 0.3]), 60, []),
        (WSD, dict(name='mlm'), 60, ['learning rate']),
        (dict(WSD, warmup=10, decay=20), dict(name='mlm'), 90, ['learning rate']),
        (1e-2, dict(name='mlm', rate=dict(RISING, end=0.8)), 60, ['masking rate']),
        (1e-2, dict(name='hybrid'), 60, ['EMA momentum']),
        (1e-2, dict(name='hybrid'), 40, []),  # before the last phase begins
        (1e-2, dict(name='hybrid', latent=dict(momentum=0.99)), 60, []),
        (
            WSD,
            dict(
                name='hybrid',
                mlm=dict(rate=dict(RISING, start=0.1)),
                balance=dict(name='schedule', of=RISING),
            ),
            60,
            ['learning rate', 'masking rate', 'EMA momentum', 'lambda'],
        ),
    ],
)
def test_what_an_extension_changes_is_said(folder, schedule, objective, at, changed):
    """A run of 100 steps, 60 of them in its last phase, gets 200."""
    first = dict(steps=40, objective=dict(name='clm'))
    extension = dict(at=at, steps=100, schedule=schedule, rise=4)
    config = tiny.config(
        folder,
        steps=200,
        schedule=schedule,
        phases=(first, dict(objective=objective)),
        extended=[extension],
    )
    config = settings.plain(config)
    lines = list(begin._notes(recipes.outline(config, recipes.mesh(config))))
    said = [line for line in lines if 'differs from that of a run of this length' in line]
    assert bool(said) == bool(changed)
    if changed:
        assert f'its {" and ".join(changed)} had other values' in said[0]
    if 'EMA momentum' in changed:
        # After 20 of 60 steps, now of 160: 0.996 + 0.004 * 19 / 60.
        wanted = 'EMA momentum was 0.9973 and continues at 0.9965, as its schedule spans'
        assert any(wanted in line for line in lines)


def extended(folder, steps, at, config):
    """Returns the config of more steps for a run with `config` that is at step `at`."""
    (folder / 'checkpoints' / str(at) / 'meta').mkdir(parents=True, exist_ok=True)
    (folder / 'checkpoints' / str(at) / 'meta' / 'metadata').write_text('{}')
    (folder / 'checkpoints' / str(at) / 'CHECKSUMS.json').write_text('{}')
    (folder / 'config.json').write_text(json.dumps(config))
    return completion.with_extension(config | {'steps': steps, 'extended': []}, folder)


def made(steps, schedule=WSD, phases=(MLM,)):
    data = dict(batch_size=8, row_length=32)
    return dict(steps=steps, schedule=schedule, phases=list(phases), data=data)


@pytest.fixture
def newest(monkeypatch):
    """Finds the newest step in the folders above, whose checkpoints are empty."""

    def step(folder):
        return max(int(path.name) for path in folder.iterdir())

    monkeypatch.setattr(completion.restore, 'newest_good_step', step)


def test_in_the_stable_phase_the_rate_does_not_change(tmp_path, newest):
    config = extended(tmp_path, 200, 50, made(100))
    said = completion.extension_lines(
        config['extended'], config['schedule'], 200, 'mlm', {}
    )
    assert said[1] == 'The learning rate continues at 0.01.'


@pytest.mark.slow
def test_the_rate_never_jumps_however_often_a_run_is_extended(tmp_path, newest):
    """For every schedule, also interrupted early, and extended three times."""
    cosine = dict(name='warmup_cosine', peak=1e-2, warmup=0.1, end=1e-3)
    for number, section in enumerate([WSD, cosine, dict(WSD, warmup=0), 1e-2]):
        folder = tmp_path / str(number)
        config, old = made(100, section), schedules.make(section, 100)
        for steps, at in ((200, 100), (300, 250 - 100), (1000, 300)):
            config = extended(folder, steps, at, config)
            rate = schedules.for_run(section, steps, config['extended'])
            steps_N = np.arange(steps)
            rates_N = np.array(rate(steps_N)) * np.ones(steps)
            # Earlier rates are unchanged; the last equal those of a run of that length.
            np.testing.assert_allclose(rates_N[:at], (old(steps_N) + 0 * steps_N)[:at])
            new = schedules.make(section, steps)
            assert rates_N[-1] == pytest.approx(float(new(steps - 1)))
            rise = config['extended'][-1]['rise']
            assert abs(rates_N[at] - rates_N[at - 1]) <= 1.1e-2 / rise
            old = rate


def refused(folder, saved, config):
    """Returns the keys of an extended config for which its workdir refuses it."""
    may = completion.extension_may_change(config, folder)
    return set(workdir.disallowed(workdir.differences(saved, config), may))


def test_shares_keep_their_steps(tmp_path, newest):
    parts = [dict(share=0.25, objective=dict(name='clm')), MLM]
    config = extended(tmp_path, 300, 100, made(100, phases=parts))
    assert config['phases'][0] == dict(steps=25, objective=dict(name='clm'))
    assert config['phases'][1] == MLM
    may = completion.extension_may_change(config, tmp_path)
    assert {'steps', 'schedule', 'extended', 'phases.1.steps'} <= set(may)
    assert not refused(tmp_path, made(100, phases=parts), config)
    # With another share, the first phase would have other steps.
    other = made(300, phases=[parts[0] | dict(share=0.5), MLM])
    config = completion.with_extension(other, tmp_path)
    assert 'phases.0.steps' in refused(tmp_path, made(100, phases=parts), config)
    # Without more steps or without a checkpoint, the config is unchanged.
    same = made(100, phases=parts)
    assert completion.with_extension(same, tmp_path) == same
    assert completion.extension_may_change(same, tmp_path) == ()
    assert completion.with_extension(same, tmp_path / 'none') == same


@pytest.mark.parametrize('own', [{}, dict(steps=60)])
def test_a_new_warm_up_does_not_grow_with_its_phase(tmp_path, newest, own):
    """As a share of more steps, it would lower the rate again."""
    first = dict(steps=40, objective=dict(name='clm'))
    parts = [first, MLM | own | dict(at_switch=dict(rewarm=0.5, reset=None))]
    before = made(100, 1e-2, parts)
    after = [first, parts[1] | ({'steps': 960} if own else {})]
    extended(tmp_path, 1000, 100, before)
    config = completion.with_extension(made(1000, 1e-2, after), tmp_path)
    assert config['phases'][1]['at_switch'] == dict(rewarm=30, reset=None)
    assert not refused(tmp_path, before, config)
    # Another warm-up is another run.
    changed = [first, after[1] | dict(at_switch=dict(rewarm=31, reset=None))]
    other = completion.with_extension(made(1000, 1e-2, changed), tmp_path)
    assert 'phases.1.at_switch.rewarm' in refused(tmp_path, before, other)
    # Extended once more, it stays the same.
    (tmp_path / 'config.json').write_text(json.dumps(config))
    again = completion.with_extension(made(2000, 1e-2, after), tmp_path)
    assert again['phases'][1]['at_switch'] == dict(rewarm=30, reset=None)
