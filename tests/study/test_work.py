"""Members are trained once, whatever is killed, and a failure stops no other."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import config_of
import draws
import jax
import numpy as np
import psutil
import pytest
import tiny

from jepa_text.files import locks
from jepa_text.parallel import exits
from jepa_text.pretrained import load
from jepa_text.running import workdir
from jepa_text.study import study, work

PROGRAM = """
import json, sys
from jepa_text.study import study
study.study(json.load(open(sys.argv[1])), sys.argv[2])
"""
CLM = dict(objective=dict(name='clm'), steps=6)
MLM = dict(objective=dict(name='mlm'))
RUNS = dict(
    clm=dict(phases=[dict(objective=dict(name='clm'))]),
    split=dict(phases=[CLM, MLM]),
    short=dict(phases=[dict(objective=dict(name='clm'))], steps=10),
    mlm=dict(phases=[MLM]),
)


def config(folder, **changes):
    """Returns a study of four runs of one seed; two of them continue from another."""
    made = tiny.config(folder, steps=14, evaluate=dict(every_steps=5, max_rows=16))
    del made['phases']
    made |= dict(
        baseline='none',
        schedule=dict(name='wsd', peak=3e-3, warmup_steps=2, decay_steps=4),
        checkpoint=dict(every_steps=3, keep=2),
        prepare=config_of.prepare_of(folder, 900),
        runs=[dict(name=name, **run) for name, run in RUNS.items()],
        study=dict(tasks=[]),
    )
    made['data'] |= dict(folder='')
    return made | changes


def start(folder, made, out):
    (folder / 'config.json').write_text(json.dumps(made))
    return subprocess.Popen(
        [sys.executable, '-c', PROGRAM, str(folder / 'config.json'), str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(out, names=tuple(RUNS)):
    """Returns everything that a study produced: parameters, metrics and results."""
    found = {}
    for name in names:
        params = jax.tree.leaves(jax.device_get(load.load(out / name).params))
        found[name] = b''.join(np.asarray(leaf).tobytes() for leaf in params)
        found[name, 'log'] = tiny.log(out / name)
        saved = json.loads((out / 'evaluated' / f'{name}.json').read_text())
        found[name, 'values'] = saved['results']
    return found


@pytest.fixture(scope='module')
def alone(tmp_path_factory):
    """The folder of a study that a single worker completed without interruption."""
    folder = tmp_path_factory.mktemp('alone')
    study.study(config(folder), folder / 'out')
    return folder


@pytest.mark.long
def test_a_driver_and_tasks_that_are_killed_at_random_change_nothing(alone, tmp_path):
    """Two tasks at a time: one of them is killed, then the driver, which is started
    again."""
    out, rng = tmp_path / 'out', random.Random(draws.seed())
    made = config(alone, engine=dict(jobs=2))
    driver = start(alone, made, out)
    while not list(out.glob('logs/train-*')) and driver.poll() is None:
        time.sleep(0.05)
    for victim in ('task', 'driver'):
        time.sleep(rng.uniform(0, 3))
        processes = psutil.Process(driver.pid).children()
        doomed = driver if victim == 'driver' else rng.choice(processes)
        os.kill(doomed.pid, signal.SIGKILL)
    assert driver.wait(60) == -signal.SIGKILL
    assert not (out / 'report.html').exists(), 'the kill came too late'
    last = start(alone, made, out)
    _, said = last.communicate(timeout=300)
    assert last.returncode == 0, said
    assert outcome(out) == outcome(alone / 'out')
    assert (out / 'report.html').is_file() and (out / 'logs' / 'train-clm.log').is_file()


def train(monkeypatch, does):
    """Replaces training by `does(name)`, and returns the list of names in order."""
    order = []

    def one(name, *_):
        order.append(name)
        does(name)

    monkeypatch.setattr(work, 'train', one)
    return order


@pytest.mark.slow
def test_a_failing_run_stops_no_other(tmp_path, monkeypatch):
    def fails(name):
        if name == 'clm':
            raise OSError(5, 'the disk is gone')

    order = train(monkeypatch, fails)
    measured, written = [], []
    monkeypatch.setattr(work, 'measure_member', lambda name, *_: measured.append(name))
    monkeypatch.setattr(study.measure, 'is_measured', lambda *_: False)
    monkeypatch.setattr(study.measure, 'results', lambda *_: {})
    monkeypatch.setattr(study.report, 'write', lambda *given: written.append(given))
    made = config(tmp_path)
    with pytest.raises(RuntimeError, match='Of 4 runs, .*the disk is gone') as caught:
        study.study(made, tmp_path / 'out')
    assert exits.code_of(caught.value) == exits.FAILED
    assert order[0] == 'clm' and {*order} == {*RUNS}
    assert {*measured} == {'untrained', *RUNS} - {'clm'}
    ((_, results, *_),) = written
    assert results['missing'] == {'clm': ('clm', 0)}


@pytest.mark.long
def test_a_study_goes_on_from_a_trunk_that_is_complete(alone, tmp_path):
    """`split` and `short` continue from `clm`. Without its checkpoints, it is known by
    its result, and they begin anew."""
    for name, lost in (('split', ()), ('short', ('clm/checkpoints',))):
        out = tmp_path / name
        shutil.copytree(alone / 'out', out)
        for path in (f'evaluated/{name}.json', name, *lost):
            place = out / path
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        study.study(config(alone), out)
        found, wanted = (outcome(one, [name]) for one in (out, alone / 'out'))
        # The log of a run that was trained alone has the steps of its trunk, too.
        for key in (name, (name, 'values')):
            assert found[key] == wanted[key]


@pytest.mark.slow
def test_a_study_of_diverged_runs_is_not_tried_again(tmp_path, monkeypatch):
    def fails(name):
        raise exits.Diverged('no number')

    train(monkeypatch, fails)
    with pytest.raises(exits.Diverged, match='clm: no number; split: no number'):
        study.study(config(tmp_path), tmp_path / 'out')


def test_a_stop_in_the_last_step_of_a_run_stops_the_study(tmp_path, monkeypatch):
    def last_step(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)

    monkeypatch.setattr(work.training, 'train', last_step)
    with pytest.raises(exits.Stopped):
        work.train('a', {}, str(tmp_path), None)


def test_a_member_waits_for_the_process_that_still_saves_it(tmp_path, monkeypatch):
    """For example one whose driver was killed, and which holds the lock."""
    order, folder = [], tmp_path / 'a'
    folder.mkdir()
    ended = threading.Event()

    def other():
        with locks.held(folder / workdir.LOCK, 'the run'):
            order.append('held')
            ended.wait(20)
            order.append('left')

    monkeypatch.setattr(work.training, 'train', lambda *_, **__: order.append('trained'))
    thread = threading.Thread(target=other)
    thread.start()
    while not order:
        time.sleep(0.01)
    threading.Timer(0.3, ended.set).start()
    work.train('a', {}, str(tmp_path), None)
    thread.join()
    assert order == ['held', 'left', 'trained']
