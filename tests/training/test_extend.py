"""A run that gets more steps goes on from where it was, and says what that means."""

import json

import numpy as np
import pytest
import tiny

from jepa_text.optim import schedules
from jepa_text.running import metrics
from jepa_text.training import completion, extend

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
def test_a_longer_run_goes_on_and_says_so(folder, tmp_path, capsys):
    first = dict(steps=2, objective=dict(name='clm'))
    run(folder, tmp_path, 4, phases=(first, MLM))
    before = series(tmp_path, 'train/loss')
    assert float(series(tmp_path, 'train/learning_rate')[4]) == 0
    capsys.readouterr()
    run(folder, tmp_path, 12, phases=(first, MLM))
    said = capsys.readouterr().err
    assert 'extended from 4 to 12 steps, at step 4: the last phase (mlm)' in said
    assert 'The learning rate stood at 0. A run of 12 steps has 0.01 there' in said
    losses, rates = (series(tmp_path, f'train/{n}') for n in ('loss', 'learning_rate'))
    assert list(losses) == list(range(1, 13))
    assert {step: losses[step] for step in before} == before
    # It rises, without a jump, to what a run of 12 steps has, and ends as that.
    straight = schedules.make(WSD, 12)
    # A quarter of the eight steps to come: the warm-up of the schedule.
    assert rates[5] == pytest.approx(float(straight(4)) / 2)
    for step in range(6, 13):
        assert rates[step] == pytest.approx(float(straight(step - 1)))
    # The same command goes on, or says that all is done; a shorter one is refused.
    run(folder, tmp_path, 12, phases=(first, MLM))
    assert series(tmp_path, 'train/loss') == losses
    with pytest.raises(ValueError, match='steps: 12 -> 4'):
        run(folder, tmp_path, 4, phases=(first, MLM))
    saved = json.loads((tmp_path / 'config.json').read_text())
    assert saved['phases'][0] == first and saved['steps'] == 12


@pytest.mark.slow
def test_without_a_decay_it_is_the_straight_run(folder, tmp_path, capsys):
    constant = dict(name='constant', value=1e-2)
    run(folder, tmp_path / 'straight', 5, constant)
    run(folder, tmp_path / 'longer', 2, constant)
    capsys.readouterr()
    run(folder, tmp_path / 'longer', 5, constant)
    assert 'The learning rate goes on at 0.01.' in capsys.readouterr().err
    straight, longer = (
        series(tmp_path / name, 'train/loss') for name in ('straight', 'longer')
    )
    assert list(straight) == list(longer)
    np.testing.assert_allclose(list(longer.values()), list(straight.values()), rtol=1e-5)


def extended(folder, steps, at, config):
    """The config of so many steps for a run that `config` has brought to step `at`."""
    (folder / 'checkpoints' / str(at) / 'meta').mkdir(parents=True, exist_ok=True)
    (folder / 'checkpoints' / str(at) / 'meta' / 'metadata').write_text('{}')
    (folder / 'checkpoints' / str(at) / 'CHECKSUMS.json').write_text('{}')
    (folder / 'config.json').write_text(json.dumps(config))
    return completion.extended(config | {'steps': steps, 'extended': []}, folder)


def made(steps, schedule=WSD, phases=(MLM,)):
    data = dict(batch_size=8, row_length=32)
    return dict(steps=steps, schedule=schedule, phases=list(phases), data=data)


@pytest.fixture
def newest(monkeypatch):
    """The newest good step of the folders above, whose checkpoints are empty."""

    def step(folder):
        return max(int(path.name) for path in folder.iterdir())

    monkeypatch.setattr(completion.restore, 'newest_good_step', step)


def test_in_the_stable_phase_nothing_changes(tmp_path, newest):
    config = extended(tmp_path, 200, 50, made(100))
    said = extend.lines(config['extended'], config['schedule'], 200, 'mlm')
    assert said[1] == 'The learning rate goes on at 0.01.'


@pytest.mark.slow
def test_the_rate_never_jumps_however_often_a_run_gets_longer(tmp_path, newest):
    """Of every schedule, also cut short, and extended thrice."""
    cosine = dict(name='warmup_cosine', peak=1e-2, warmup=0.1, end=1e-3)
    for number, section in enumerate([WSD, cosine, dict(WSD, warmup=0), 1e-2]):
        folder = tmp_path / str(number)
        config, old = made(100, section), schedules.make(section, 100)
        for steps, at in ((200, 100), (300, 250 - 100), (1000, 300)):
            config = extended(folder, steps, at, config)
            rate = schedules.of_run(section, steps, config['extended'])
            steps_N = np.arange(steps)
            rates_N = np.array(rate(steps_N)) * np.ones(steps)
            # What was before stays, and what comes last is that of a run so long.
            np.testing.assert_allclose(rates_N[:at], (old(steps_N) + 0 * steps_N)[:at])
            new = schedules.make(section, steps)
            assert rates_N[-1] == pytest.approx(float(new(steps - 1)))
            rise = config['extended'][-1]['rise']
            assert abs(rates_N[at] - rates_N[at - 1]) <= 1.1e-2 / rise
            old = rate


def test_shares_keep_the_steps_they_had(tmp_path, newest):
    parts = [dict(share=0.25, objective=dict(name='clm')), MLM]
    config = extended(tmp_path, 300, 100, made(100, phases=parts))
    assert config['phases'][0] == dict(steps=25, objective=dict(name='clm'))
    assert config['phases'][1] == MLM
    may = completion.grows(config, tmp_path)
    assert {'steps', 'schedule', 'extended', 'phases.1.steps'} <= set(may)
    # No more steps, or no checkpoint: as it was given.
    same = made(100, phases=parts)
    assert completion.extended(same, tmp_path) == same
    assert completion.grows(same, tmp_path) == ()
    assert completion.extended(same, tmp_path / 'none') == same
