"""Claims in an object store behave like those in a folder."""

import os
import signal
import time

import fsspec
import pytest
import stores
from test_claims import logged, start, until

from jepa_text.files import addresses, transfer
from jepa_text.running import claim_objects, claims

FOLDER = 'memory://shelf/exam/claims'


@pytest.fixture(autouse=True)
def store(monkeypatch):
    monkeypatch.setattr(addresses, 'PAUSE', 0.0)
    store = fsspec.filesystem('memory')
    store.store.clear()
    return store


def work(items, do=str.upper, publish=lambda *_: None, **options):
    return claims.work(FOLDER, items, do, publish, **options)


def test_items_are_done_once_and_failures_are_retried():
    order, published = [], []

    def do(item):
        order.append(item)
        if item == 'bad' or (item == 'once' and order.count('once') == 1):
            raise ArithmeticError('no number')
        return item

    def publish(*pair):
        published.append(pair)

    worked = work(['bad', 'once', 'good'], do, publish)
    assert published == [('good', 'good'), ('once', 'once')]
    assert worked.done == ['good', 'once'] and list(worked.failed) == ['bad']
    again = work(['bad', 'once', 'good'], pytest.fail, pytest.fail)
    assert list(again.failed) == ['bad'] and not again.done
    ended = claims.ended(FOLDER)
    assert (
        sorted(ended) == ['bad', 'good', 'once'] and claims.ended(f'{FOLDER}/new') == {}
    )
    assert claims.reopen(FOLDER, 'bad', ended['bad'])
    assert not claims.reopen(FOLDER, 'bad', ended['bad'])
    assert work(['bad']).done == ['bad']
    # Only the history remains.
    assert all('@' in name for name in transfer.list_files(FOLDER))


def test_only_one_of_two_workers_creates_an_entry():
    assert claim_objects.make(FOLDER, 'a', 1, 'claim', 1.0)
    assert claim_objects.make(FOLDER, 'a', 1, 'claim', 1.0) is None
    assert claim_objects.numbers(FOLDER) == {'a': 1}


def test_a_lost_reply_counts_as_success(store, monkeypatch):
    pipe, lost = type(store).pipe_file, [ConnectionError('cut')]

    def losing(self, path, value, **options):
        pipe(self, path, value, **options)
        if lost:
            raise lost.pop()

    monkeypatch.setattr(type(store), 'pipe_file', losing)
    assert claim_objects.make(FOLDER, 'a', 1, 'claim', 1.0) and not lost


def test_heartbeat_keeps_an_item_until_it_stops(monkeypatch):
    path = claim_objects.make(FOLDER, 'a', 1, 'claim', 100.0)
    now = [0.0]
    monkeypatch.setattr(claims.time, 'monotonic', lambda: now[0])
    waiting = claims._Claims(FOLDER, ['a'], 100.0, 3)
    for now[0], beat in ((0, 0), (99, 0), (101, 1), (200, 1)):
        claim_objects.beat(path, beat)
        assert waiting.next() is None, (now, beat)
    now[0] = 202
    assert waiting.next().item == 'a'


def test_a_store_without_conditional_writes_raises(store, monkeypatch):
    pipe = type(store).pipe_file

    def forgetful(self, path, value, mode='', **options):
        pipe(self, path, value, **options)

    monkeypatch.setattr(type(store), 'pipe_file', forgetful)
    with pytest.raises(ValueError, match='in spite of .*Use a folder on a local'):
        work(['a'])
    assert transfer.list_files(FOLDER) == {}
    with pytest.raises(ValueError, match='is a folder of this machine: use its path'):
        claims.work('file:///anywhere', ['a'], str.upper, print)
    transfer.write(f'{FOLDER}/a@1', b'{"beat": 1')
    monkeypatch.undo()
    with pytest.raises(ValueError, match='a@1 is damaged'):
        work(['a'])


@pytest.fixture
def reached(request, monkeypatch):
    """The address of a bucket on a server in a separate process."""
    with stores.reached(request.param, monkeypatch) as bucket:
        yield f'{bucket}/exam/claims'


@pytest.mark.remote
@pytest.mark.parametrize('reached', ['s3', 'gs conditional'], indirect=True)
def test_workers_share_a_bucket_and_a_killed_one_is_replaced(reached, tmp_path):
    (tmp_path / 'first.hold').touch()
    first = start(tmp_path, 'first', 4, lease=3.0, place=reached)
    until(lambda: logged(tmp_path, 'begins'))
    others = [start(tmp_path, f'w{n}', 4, lease=3.0, place=reached) for n in range(2)]
    until(lambda: len(logged(tmp_path, 'publishes')) == 3)
    # While it lives, no other worker takes its item, however long it takes.
    time.sleep(4.0)
    assert len(logged(tmp_path, 'begins')) == 4
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert [worker.wait(60) for worker in others] == [0, 0]
    assert sorted(item for _, item in logged(tmp_path, 'publishes')) == [
        'i0',
        'i1',
        'i2',
        'i3',
    ]
    assert 'first' not in {name for name, _ in logged(tmp_path, 'publishes')}


@pytest.mark.remote
@pytest.mark.parametrize('reached', ['gs'], indirect=True)
def test_an_emulator_without_conditional_writes_raises(reached):
    with pytest.raises(ValueError, match='in spite of'):
        claims.work(reached, ['a'], str.upper, print)
