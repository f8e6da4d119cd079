"""Each item is done once, even if workers die, are suspended, or resume."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter

import pytest

from jepa_text.parallel import exits
from jepa_text.running import claim_files, claims

# A worker that writes a line when it starts an item and when it publishes it. It waits
# during an item while the file NAME.hold exists.
WORKER = """
    import os, sys, time
    from pathlib import Path
    from jepa_text.running import claims

    folder, name, count, lease, attempts, place = sys.argv[1:]
    folder = Path(folder)

    def log(what, item):
        with open(folder / 'log', 'a') as file:
            file.write(f'{name} {what} {item}\\n')

    def do(item):
        log('begins', item)
        while (folder / f'{name}.hold').exists():
            time.sleep(0.01)
        return name

    def publish(item, result):
        log('publishes', item)

    worked = claims.work(place, [f'i{n}' for n in range(int(count))], do,
                         publish, lease=float(lease), attempts=int(attempts))
    log('lost', ','.join(worked.lost))
    log('failed', ','.join(worked.failed))
"""


def start(folder, name, count=1, lease=0.4, attempts=3, place=None):
    given = [str(folder), name, str(count), str(lease), str(attempts)]
    given.append(place or str(folder / 'claims'))
    return subprocess.Popen([sys.executable, '-c', textwrap.dedent(WORKER), *given])


def logged(folder, what):
    """[(worker, item)] of the lines of a kind."""
    path = folder / 'log'
    lines = path.read_text().splitlines() if path.exists() else []
    parts = [line.split(' ', 2) for line in lines]
    return [(name, item) for name, kind, item in parts if kind == what]


def until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.slow
def test_four_workers_do_forty_items_once_each(tmp_path):
    workers = [start(tmp_path, f'w{n}', 40, lease=30) for n in range(4)]
    assert [worker.wait(60) for worker in workers] == [0] * 4
    items = Counter(item for _, item in logged(tmp_path, 'publishes'))
    assert items == Counter({f'i{n}': 1 for n in range(40)})
    assert len(logged(tmp_path, 'begins')) == 40
    # A fifth worker finds nothing to do.
    assert start(tmp_path, 'late', 40, lease=30).wait(30) == 0
    assert len(logged(tmp_path, 'begins')) == 40
    # Only the history remains.
    left = {path.name.split('@')[0] for path in (tmp_path / 'claims').iterdir()}
    assert left == set(items)


def test_a_killed_workers_item_is_taken_over_once(tmp_path):
    (tmp_path / 'first.hold').touch()
    first = start(tmp_path, 'first')
    until(lambda: logged(tmp_path, 'begins'))
    others = [start(tmp_path, f'w{n}') for n in range(3)]
    # While it lives, no other worker takes its item, however long it takes.
    time.sleep(1.2)
    assert [name for name, _ in logged(tmp_path, 'begins')] == ['first']
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert [worker.wait(30) for worker in others] == [0] * 3
    assert len(logged(tmp_path, 'begins')) == 2
    [(name, item)] = logged(tmp_path, 'publishes')
    assert name != 'first' and item == 'i0'


def test_a_suspended_worker_publishes_nothing_after_losing_its_claim(tmp_path):
    (tmp_path / 'first.hold').touch()
    first = start(tmp_path, 'first')
    until(lambda: logged(tmp_path, 'begins'))
    first.send_signal(signal.SIGSTOP)
    try:
        assert start(tmp_path, 'second').wait(30) == 0
        assert logged(tmp_path, 'publishes') == [('second', 'i0')]
    finally:
        (tmp_path / 'first.hold').unlink()
        first.send_signal(signal.SIGCONT)
    assert first.wait(30) == 0
    assert logged(tmp_path, 'publishes') == [('second', 'i0')]
    assert ('first', 'i0') in logged(tmp_path, 'lost')


def test_an_item_that_kills_workers_fails_for_good(tmp_path):
    for name in ('first', 'second'):
        (tmp_path / f'{name}.hold').touch()
        worker = start(tmp_path, name, lease=0.2, attempts=2)
        until(lambda name=name: (name, 'i0') in logged(tmp_path, 'begins'))
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    worked = claims.work(
        tmp_path / 'claims', ['i0'], pytest.fail, pytest.fail, lease=0.2, attempts=2
    )
    assert 'disappeared' in worked.failed['i0'] and not worked.done


def test_failures_are_retried_last_and_then_reported(tmp_path):
    order = []

    def do(item):
        order.append(item)
        if item == 'bad' or (item == 'once' and order.count('once') == 1):
            raise ArithmeticError('no number')
        return item

    published = []
    items = ['bad', 'once', 'good']

    def work():
        return claims.work(tmp_path, items, do, lambda *pair: published.append(pair))

    worked = work()
    assert order[:3] == items and Counter(order) == {'bad': 3, 'once': 2, 'good': 1}
    assert worked.done == ['good', 'once'] and list(worked.failed) == ['bad']
    assert 'ArithmeticError: no number' in worked.failed['bad']
    assert published == [('good', 'good'), ('once', 'once')]
    # Another worker gets the error, too, and does not make a fourth attempt.
    assert list(work().failed) == ['bad'] and len(order) == 6


def test_an_interrupted_worker_releases_its_item(tmp_path):
    def interrupted(item):
        raise KeyboardInterrupt

    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            claims.work(tmp_path, ['a'], interrupted, pytest.fail, attempts=1)
    published = []
    work = dict(do=str.upper, publish=lambda *pair: published.append(pair), attempts=1)
    assert claims.work(tmp_path, ['a'], **work).done == ['a']
    assert published == [('a', 'A')]


def test_items_can_be_reopened_once(tmp_path):
    def work():
        return claims.work(tmp_path, ['a', 'b'], str.upper, lambda *_: None, attempts=1)

    assert claims.ended(tmp_path / 'new') == {}
    assert work().done == ['a', 'b'] and work().done == []
    ended = claims.ended(tmp_path)
    assert ended == {'a': 3, 'b': 3}
    assert claims.reopen(tmp_path, 'a', 3) and claims.ended(tmp_path) == {'b': 3}
    assert work().done == ['a']
    # A worker with an older listing does not reopen it again.
    assert not claims.reopen(tmp_path, 'a', 3)
    assert claims.ended(tmp_path) == {'a': 7, 'b': 3} and work().done == []


def test_an_entry_is_created_by_one_of_many_threads(tmp_path):
    ready = threading.Barrier(16)
    made = []

    def run():
        for number in range(1, 6):
            ready.wait()
            made.append((number, claim_files.make(tmp_path, 'a', number, 'claim', 1.0)))

    threads = [threading.Thread(target=run) for _ in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(n for n, path in made if path) == [1, 2, 3, 4, 5]
    assert claim_files.numbers(tmp_path) == {'a': 5}


def test_clocks_of_other_machines_are_ignored(tmp_path, monkeypatch):
    path = claim_files.make(tmp_path, 'a', 1, 'claim', 100.0)
    entry = json.loads(path.read_text())
    path.write_text(json.dumps(entry | {'time': '1999-01-01T00:00:00Z'}))
    os.utime(path, (0, 0))
    now = [0.0]
    monkeypatch.setattr(claims.time, 'monotonic', lambda: now[0])
    waiting = claims._Claims(tmp_path, ['a'], 100.0, 3)
    for now[0], beat in ((0, 0), (99, 0), (101, 1), (200, 1)):
        claim_files.beat(path, beat)
        assert waiting.next() is None, (now, beat)
    now[0] = 202
    assert waiting.next().item == 'a'
    assert claim_files.numbers(tmp_path) == {'a': 2}


def test_a_lost_reply_counts_as_success(tmp_path, monkeypatch):
    link = os.link

    def lost(*given):
        link(*given)
        raise FileExistsError

    monkeypatch.setattr(claim_files.os, 'link', lost)
    assert claim_files.make(tmp_path, 'a', 1, 'claim', 1.0)


def test_invalid_arguments_raise(tmp_path, monkeypatch):
    def work(items=('a',)):
        return claims.work(tmp_path, items, str.upper, lambda *_: None)

    for items, words in ((['a', 'b/c'], "'b/c'"), (['a@1'], "'a@1'"), (['a', 'a'], '2')):
        with pytest.raises(ValueError, match=words):
            work(items)
    (tmp_path / 'a@1').write_text('{"beat": 1')
    with pytest.raises(ValueError, match='a@1 is damaged'):
        work()

    def refuses(*_):
        raise PermissionError(1, 'not permitted')

    monkeypatch.setattr(claim_files.os, 'link', refuses)
    with pytest.raises(OSError, match='without hard links'):
        work(['b'])
    assert not [path for path in tmp_path.iterdir() if path.name.startswith('.')]


def test_a_dead_local_worker_is_replaced_immediately(tmp_path):
    """Regardless of its lease, because the process is known to be dead."""
    (tmp_path / 'first.hold').touch()
    first = start(tmp_path, 'first', lease=1000)
    until(lambda: logged(tmp_path, 'begins'))
    others = claims._Claims(tmp_path / 'claims', ['i0'], 1000, 3)
    assert others.next() is None
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert others.next().item == 'i0'
    others.leave()
    assert not list((tmp_path / 'claims').glob('.*'))


def test_an_item_waits_until_it_is_ready(tmp_path):
    """If items depend on each other, one that failed for good blocks no other."""
    order = []

    def do(item):
        order.append(item)
        if item == 'b':
            raise ArithmeticError

    needs = {'c': 'b', 'b': 'a', 'a': ''}
    worked = claims.work(
        tmp_path,
        list(needs),
        do,
        lambda *_: None,
        attempts=2,
        is_ready=lambda item, open_: needs[item] not in open_,
        pause=pytest.fail,
    )
    assert order == ['a', 'b', 'b', 'c'] and worked.done == ['a', 'c']
    assert list(worked.failed) == ['b']


def test_attempts_are_reset_by_progress(tmp_path):
    far, order = [0], []

    def do(item):
        order.append(far[0])
        far[0] += far[0] < 3
        raise ArithmeticError

    def work():
        return claims.work(
            tmp_path, ['a'], do, pytest.fail, attempts=2, progress=lambda _: far[0]
        )

    assert list(work().failed) == ['a']
    assert order == [0, 1, 2, 3, 3]
    assert list(work().failed) == ['a'] and len(order) == 5


def test_final_errors_are_not_retried(tmp_path):
    order = []

    def do(item):
        order.append(item)
        raise exits.Diverged('no number')

    worked = claims.work(tmp_path, ['a', 'b'], do, pytest.fail)
    assert order == ['a', 'b'] and list(worked.failed) == ['a', 'b']
    claims.reopen(tmp_path, 'a', claims.ended(tmp_path)['a'])
    claims.work(tmp_path, ['a', 'b'], do, pytest.fail)
    assert order == ['a', 'b', 'a']


def test_a_stopped_worker_releases_its_item(tmp_path):
    def stopped(item):
        raise exits.Stopped('saved')

    for _ in range(3):
        with pytest.raises(exits.Stopped):
            claims.work(tmp_path, ['a'], stopped, pytest.fail, attempts=1)
    assert claims.work(tmp_path, ['a'], str.upper, print, attempts=1).done == ['a']


def test_on_lost_is_called_when_a_claim_is_lost(tmp_path):
    lost = threading.Event()

    def do(item):
        number = claim_files.numbers(tmp_path)[item]
        assert claim_files.make(tmp_path, item, number + 1, 'claim', 0.1)
        assert lost.wait(20)
        claim_files.make(tmp_path, item, number + 2, 'done', 0.1)
        raise exits.Stopped('as it was lost')

    worked = claims.work(
        tmp_path, ['a'], do, pytest.fail, lease=0.1, on_lost=lambda item: lost.set()
    )
    assert worked.lost == ['a'] and not worked.done
