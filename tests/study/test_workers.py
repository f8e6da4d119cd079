"""Workers that share the folder of a study train each run once and lose nothing."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace
from unittest import mock

import draws
import jax
import numpy as np
import pytest
import tiny

from jepa_text import load
from jepa_text.parallel import exits
from jepa_text.running import shared_runs, workdir
from jepa_text.study import study, training_work

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
    pytest.importorskip('sklearn')
    rng = np.random.default_rng(0)
    sentences = [f'The {" ".join(rng.choice(tiny.NOUNS, 11))} end.' for _ in range(900)]
    parts = [' '.join(sentences[n : n + 15]) for n in range(0, len(sentences), 15)]
    (folder / 'own.txt').write_text('\n\n'.join(parts))
    source = dict(name='text', path=str(folder / 'own.txt'), heldout_every=4)
    made = tiny.config(folder, steps=14, evaluate=dict(every=5, max_rows=16))
    del made['phases']
    made |= dict(
        baseline='none',
        schedule=dict(name='wsd', peak=3e-3, warmup=2, decay=4),
        checkpoint=dict(every=3, keep=2),
        prepare=dict(source=source, tokenizer='bundled', row_length=32, shards=1),
        runs=[dict(name=name, **run) for name, run in RUNS.items()],
        study=dict(tasks=[], sentences=[]),
        lease=20,
    )
    made['data'] |= dict(folder='')
    return made | changes


def start(folder, made, out, **environment):
    (folder / 'config.json').write_text(json.dumps(made))
    return subprocess.Popen(
        [sys.executable, '-c', PROGRAM, str(folder / 'config.json'), str(out)],
        env=os.environ | {'JAX_DISABLE_MOST_OPTIMIZATIONS': '1'} | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(worker):
    _, said = worker.communicate(timeout=300)
    assert worker.returncode == 0, said
    return said


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


def kinds(out, name):
    """Returns the kinds of the claim entries on the training of a member."""
    found = (out / 'claims').glob(f'{training_work.item_of("train", name)}@*')
    return Counter(json.loads(path.read_text())['kind'] for path in found)


def entries(out):
    """Returns the number of claim entries on the training of all members."""
    return sum(kinds(out, name).total() for name in RUNS)


@pytest.fixture(scope='module')
def alone(tmp_path_factory):
    """The folder of a study that a single worker completed without interruption."""
    folder = tmp_path_factory.mktemp('alone')
    study.study(config(folder), folder / 'out')
    return folder


@pytest.mark.slow
def test_two_workers_train_each_run_once_with_equal_results(alone, tmp_path):
    workers = [start(alone, config(alone), tmp_path / 'out') for _ in range(2)]
    for worker in workers:
        ended(worker)
    once = Counter(claim=1, writing=1, done=1)
    assert {name: kinds(tmp_path / 'out', name) for name in RUNS} == dict.fromkeys(
        RUNS, once
    )
    assert outcome(tmp_path / 'out') == outcome(alone / 'out')
    assert (tmp_path / 'out' / 'report.html').is_file()


@pytest.mark.slow
def test_workers_that_are_killed_at_random_change_nothing(alone, tmp_path):
    out, rng, made = tmp_path / 'out', random.Random(draws.seed()), config(alone)
    workers = [start(alone, made, out) for _ in range(2)]
    known, codes = 0, []
    for _ in range(2):
        # A random time after something new was claimed or done, not while they start.
        end = time.monotonic() + 120
        while entries(out) == known and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(rng.uniform(0, 2))
        doomed = rng.randrange(2)
        workers[doomed].send_signal(signal.SIGKILL)
        workers[doomed].communicate()
        codes.append(workers[doomed].returncode)
        known = entries(out)
        assert known
        workers[doomed] = start(alone, made, out)
    assert -signal.SIGKILL in codes, 'the kills came too late to mean anything'
    for worker in workers:
        ended(worker)
    assert outcome(out) == outcome(alone / 'out')


def train(monkeypatch, does):
    """Replaces training by `does(name)`, and returns the list of names in order."""
    order = []

    def one(name, *_):
        order.append(name)
        does(name)

    monkeypatch.setattr(training_work, 'train_one', one)
    return order


@pytest.mark.slow
def test_a_failing_run_is_retried_reported_and_stops_no_other(tmp_path, monkeypatch):
    def fails(name):
        if name == 'split':
            raise OSError(5, 'the disk is gone')
        if name == 'mlm':
            raise exits.Diverged('no number')

    order = train(monkeypatch, fails)
    seen = []
    measuring, report = mock.MagicMock(), mock.MagicMock()
    measuring.return_value.results = lambda configs: seen.append(configs) or {}
    measuring.return_value.questions = dict
    monkeypatch.setattr(study.measure, 'Measuring', measuring)
    monkeypatch.setattr(study, 'report', report)
    made = config(tmp_path, attempts=2)
    with pytest.raises(RuntimeError, match='split: .*the disk is gone') as caught:
        study.study(made, tmp_path / 'out')
    assert (
        'mlm: no number' in str(caught.value)
        and exits.code_of(caught.value) == exits.FAILED
    )
    assert [list(one) for one in seen] == [['clm', 'short']]
    _, results, *_ = report.write.call_args.args
    assert results['missing'] == {'split': ('split', 0), 'mlm': ('mlm', 0)}
    # A run that can only diverge again is not retried.
    assert Counter(order) == Counter(clm=1, split=2, short=1, mlm=1)
    with pytest.raises(RuntimeError, match='Of 4 runs, these have no results: '):
        study.study(made, tmp_path / 'out')
    assert Counter(order)['split'] == 4


@pytest.mark.parametrize(
    'changes, says',
    [
        (dict(steps=4000, data=dict(repeat=False)), "run 'clm': .*rows"),
        (dict(study=dict(tasks=['word_ordr'])), 'word_ordr'),
        (dict(runs=[dict(name='a', phases=[CLM, MLM], steps=6)]), "run 'a': phases"),
        (dict(runs=[dict(name='a', phases=[MLM])] * 2), "2 runs have the name 'a'"),
        (dict(attempts=0), 'attempts=0'),
        (dict(examine=dict(x=dict(tasks=[dict(name='sst9')]))), 'examine.x: .*sst9'),
        (dict(examine=dict(x=dict(tasks=[dict(name='cloze')], step=1))), "no key 'step'"),
        (dict(examine=dict(x=dict(models=['hf:a']))), 'examine.x=.*without models'),
        (dict(checkpoint=dict(every=0)), "run 'clm': checkpoint.every=0"),
    ],
)
def test_an_invalid_study_fails_before_training(tmp_path, monkeypatch, changes, says):
    order, made = train(monkeypatch, print), config(tmp_path)
    for key, value in changes.items():
        made[key] = {**made.get(key, {}), **value} if isinstance(value, dict) else value
    with pytest.raises(ValueError, match=says) as caught:
        study.study(made, tmp_path / 'out')
    assert exits.code_of(caught.value) == exits.USAGE
    assert not order and not list((tmp_path / 'out').glob('*/checkpoints'))


def test_a_member_is_not_trained_while_another_worker_still_trains_it(
    tmp_path, monkeypatch
):
    """For example one that was suspended longer than its lease, and holds the lock."""
    order, folder = [], tmp_path / 'a'
    folder.mkdir()
    ended = threading.Event()

    def other():
        with workdir.locked(folder):
            order.append('held')
            ended.wait(20)
            order.append('left')

    monkeypatch.setattr(
        training_work.train, 'train', lambda *_, **__: order.append('trained')
    )
    thread = threading.Thread(target=other)
    thread.start()
    while not order:
        time.sleep(0.01)
    threading.Timer(0.3, ended.set).start()
    trunks = SimpleNamespace(
        of=lambda name: None, retrained=lambda name: '', milestones={'a': {3}}
    )
    with training_work.Worker(shared_runs.Local(tmp_path), 60, 1) as worker:
        training_work.train_one('a', {'checkpoint': {'keep_at': []}}, trunks, worker)
    thread.join()
    assert order == ['held', 'left', 'trained']
