"""Workers on several machines that share a study at an address lose nothing."""

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

NAMES = ('clm', 'split')  # the second continues from the first


@pytest.fixture
def address(request, monkeypatch):
    """The address of a study in a bucket, on a server in a separate process."""
    with stores.reached(request.param, monkeypatch) as bucket:
        yield f'{bucket}/study'


def made(folder):
    """Returns the config of a study of two runs, with one checkpoint of each."""
    whole = config(folder, checkpoint=dict(every=3, keep=1))
    return whole | dict(runs=[run for run in whole['runs'] if run['name'] in NAMES])


@pytest.fixture
def begin(address, alone, tmp_path):
    """begin(machine, ...) starts a worker there; all end with the test."""
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
    """The local folder of a study that a single worker completed."""
    folder = tmp_path_factory.mktemp('alone')
    ended(start(folder, made(folder), folder / 'out'))
    return folder


def brought(address, folder):
    """Downloads what is at an address to a folder."""
    transfer.download_files(address, folder, list(transfer.list_files(address)))
    return folder


def claimed(folder):
    return {name: kinds(folder, name) for name in NAMES}


@pytest.mark.remote
@pytest.mark.slow
@pytest.mark.parametrize('address', ['gs conditional'], indirect=True)
def test_two_workers_train_each_run_once_with_equal_results(
    address, begin, alone, tmp_path
):
    for worker in [begin('a'), begin('b')]:
        ended(worker)
    out = brought(address, tmp_path / 'out')
    entries = [json.loads(path.read_text()) for path in (out / 'claims').glob('*@*')]
    for entry in entries:
        if 'error' in entry:  # a failure is retried in another attempt
            warnings.warn(entry['error'], stacklevel=1)
    for name, found in claimed(out).items():
        once = Counter(claim=1 + found['failed'], writing=1, done=1)
        assert found - Counter(failed=found['failed']) == once, name
    assert outcome(out, NAMES) == outcome(alone / 'out', NAMES)
    assert (out / 'report.html').is_file()


@pytest.mark.remote
@pytest.mark.slow
@pytest.mark.parametrize('address', ['s3'], indirect=True)
def test_workers_killed_and_suspended_at_random_change_nothing(
    address, begin, alone, tmp_path
):
    """One is suspended for longer than its lease, and resumes when a worker on another
    machine has taken over, was killed, and was started again."""
    rng, quick = random.Random(0), dict(lease=3, attempts=9)

    def until_claimed(count):
        """Waits until claims of runs have `count` entries, and a little longer."""
        end = time.monotonic() + 120
        while (
            sum('claims/train=' in name for name in transfer.list_files(address)) < count
        ):
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
