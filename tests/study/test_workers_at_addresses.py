"""Workers on several machines share a study at an address: no run twice, nothing lost."""

import json
import random
import signal
import time
import warnings
from collections import Counter

import pytest
import stores
from test_workers import config, ended, kinds, outcome, start

from jepa_text.files import transfer

NAMES = ('clm', 'split')  # the second goes on from the first


@pytest.fixture
def address(request, monkeypatch):
    """That of a study in a bucket, at a server that is a process of its own."""
    with stores.reached(request.param, monkeypatch) as bucket:
        yield f'{bucket}/study'


def made(folder):
    """The config of a study of two runs, which keeps one state of each."""
    whole = config(folder, checkpoint=dict(every=3, keep=1))
    return whole | dict(runs=[run for run in whole['runs'] if run['name'] in NAMES])


@pytest.fixture
def begin(address, alone, tmp_path):
    """begin(machine, ...) starts a worker there; none outlives the test."""
    begun = []

    def one(machine, **changes):
        here = dict(JEPA_TEXT_CACHE=str(tmp_path / machine))
        begun.append(start(alone, made(alone) | changes, address, **here))
        return begun[-1]

    yield one
    for worker in begun:
        worker.kill()
        worker.wait()


@pytest.fixture(scope='module')
def alone(tmp_path_factory):
    """The folder of a study that one worker did undisturbed, on its disk."""
    folder = tmp_path_factory.mktemp('alone')
    ended(start(folder, made(folder), folder / 'out'))
    return folder


def brought(address, folder):
    """What is at an address, as a folder."""
    transfer.bring(address, folder, list(transfer.listed(address)))
    return folder


def claimed(folder):
    return {name: kinds(folder, name) for name in NAMES}


@pytest.mark.remote
@pytest.mark.slow
@pytest.mark.parametrize('address', ['gs conditional'], indirect=True)
def test_two_workers_do_no_run_twice_and_the_same(address, begin, alone, tmp_path):
    for worker in [begin('a'), begin('b')]:
        ended(worker)
    out = brought(address, tmp_path / 'out')
    entries = [json.loads(path.read_text()) for path in (out / 'claims').glob('*@*')]
    for entry in entries:
        if 'error' in entry:  # what fails is tried again, in another attempt
            warnings.warn(entry['error'], stacklevel=1)
    for name, found in claimed(out).items():
        once = Counter(claim=1 + found['failed'], writing=1, done=1)
        assert found - Counter(failed=found['failed']) == once, name
    assert outcome(out, NAMES) == outcome(alone / 'out', NAMES)
    assert (out / 'report.html').is_file()


@pytest.mark.remote
@pytest.mark.slow
@pytest.mark.parametrize('address', ['s3'], indirect=True)
def test_killed_and_stopped_at_random_they_change_nothing(
    address, begin, alone, tmp_path
):
    """One is stopped for longer than its lease, and awakes when a worker on another
    machine has taken over, was killed, and was started again."""
    rng, quick = random.Random(0), dict(lease=3, attempts=9)

    def until_claimed(count):
        """Until claims of runs have so many entries; and a little longer."""
        end = time.monotonic() + 120
        while sum('claims/train=' in name for name in transfer.listed(address)) < count:
            assert time.monotonic() < end
            time.sleep(0.2)
        time.sleep(rng.uniform(0, 5))

    asleep = begin('a', **quick)
    until_claimed(1)
    asleep.send_signal(signal.SIGSTOP)
    doomed = begin('b', **quick)
    until_claimed(2)
    doomed.send_signal(signal.SIGKILL)
    doomed.communicate()
    last = begin('b', **quick)
    until_claimed(3)
    asleep.send_signal(signal.SIGCONT)
    ended(last)
    ended(asleep)
    out = brought(address, tmp_path / 'out')
    assert outcome(out, NAMES) == outcome(alone / 'out', NAMES)
    results = [
        json.loads((at / 'results.json').read_text()) for at in (out, alone / 'out')
    ]
    assert results[0]['results'] == results[1]['results']
