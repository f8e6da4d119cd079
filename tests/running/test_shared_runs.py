"""What workers make in one workdir at an address, each sees, and none writes over."""

import jax
import pytest
import stores
from test_mirror import State

from jepa_text.files import checksums, transfer
from jepa_text.running import (
    checkpoint,
    claim,
    claims,
    download,
    mirror,
    restore,
    retention,
    shared_runs,
)

ADDRESS = 'memory://shelf/study'
LEASE = 60.0


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    return stores.memory(monkeypatch, tmp_path / 'cache')


@pytest.fixture
def two():
    """Two workers of one machine."""
    with (
        shared_runs.opened(ADDRESS, ('all.json',)) as one,
        shared_runs.opened(ADDRESS, ()) as other,
    ):
        yield one, other


def run(place, name, *steps, keep=9, check=lambda: None):
    """Saves steps of a run, which it tells in its metrics."""
    with (
        mirror.opened(place.run(name, check)) as part,
        checkpoint.Checkpointer(
            part.folder / mirror.STEPS, keep=keep, saved=part.save
        ) as store,
    ):
        found = store.newest_good()
        part.begin()
        for step in steps:
            with open(part.folder / 'metrics.jsonl', 'a') as file:
                file.write(f'{step}\n')
            w = jax.numpy.full((4, 3), float(step))
            state = State(step=jax.numpy.asarray(step), w=w)
            store.save(state, {'step': step}, wait=True)
    return found and found[0]


def there(name='a'):
    return download.steps(transfer.listed(f'{ADDRESS}/{name}'))


def steps(place, name='a'):
    return restore.steps(place.folder / name / mirror.STEPS)


def at(place, step, name='a'):
    return place.folder / name / mirror.STEPS / str(step)


def test_what_one_makes_the_others_see_and_bring_when_they_need_it(two):
    one, other = two
    assert one.folder != other.folder
    run(one, 'a', 1, 2, 3)
    assert steps(other) == []
    other.look()
    assert steps(other) == [1, 2, 3] and restore.is_away(at(other, 2))
    folder = other.folder / 'a' / mirror.STEPS
    # That it is there and what it says of itself is known, and nothing else was brought.
    assert restore.newest_good(folder) == (3, {'step': 3})
    assert not (at(other, 3) / 'state').exists()
    assert (other.folder / 'a' / 'metrics.jsonl').read_text() == '1\n2\n3\n'
    assert other.bring('a', 2)
    assert checksums.verify(at(other, 2)) is None and not restore.is_away(at(other, 2))
    assert restore.is_away(at(other, 1)) and other.bring('a', 2)
    # Old ones go, here as there.
    assert run(other, 'a', 4, keep=2) == 3
    assert there() == [3, 4]
    one.look()
    assert steps(one) == [3, 4] and restore.is_away(at(one, 4))
    assert not restore.is_away(at(one, 3))


def test_older_states_are_there_for_others_where_a_run_went_on(two):
    """Such as a trunk, of which the worker that takes over needs but the newest."""
    one, other = two
    run(one, 'a', 1, 2)
    other.look()
    run(other, 'a', 3)
    other.look()
    assert steps(other) == [1, 2, 3] and other.bring('a', 1)
    assert restore.meta(other.folder / 'a' / mirror.STEPS, 1) == {'step': 1}
    assert there() == [1, 2, 3]
    # Nor does an address get what was never brought.
    one.look()
    assert all(checksums.verify(at(one, step)) is None for step in (1, 2))


def test_a_state_that_is_removed_meanwhile_is_passed_over(two, monkeypatch):
    one, other = two
    run(one, 'a', 1, 2)
    other.look()
    bring = transfer.bring

    def removed(address, path, names):
        one.retain('a', 1, None, ())
        bring(address, path, names)

    monkeypatch.setattr(transfer, 'bring', removed)
    assert not other.bring('a', 1) and steps(other) == [2]
    monkeypatch.setattr(transfer, 'bring', bring)
    assert there() == [2] == steps(one) and not other.bring('a', 1)
    assert other.bring('a', 2)


@pytest.mark.parametrize('damage', ['flipped', 'missing', 'no meta'])
def test_a_damaged_state_is_passed_over_and_goes(two, store, damage):
    one, other = two
    run(one, 'a', 1, 2)
    other.look()
    top = '/shelf/study/a/checkpoints/2/'
    name = max(store.find(top + 'state'), key=store.size)
    if damage == 'flipped':
        store.pipe_file(name, b'!' + store.cat(name)[1:])
    else:
        store.rm_file(name if damage == 'missing' else top + 'meta/metadata')
    assert not other.bring('a', 2) and there() == [1]
    other.look()
    assert steps(other) == [1]
    assert run(other, 'a', 2) == 1 and there() == [1, 2]


def test_what_a_kill_left_of_a_removal_goes(two, store):
    one, other = two
    run(one, 'a', 1, 2, 3)
    store.rm_file(f'/shelf/study/a/checkpoints/1/{checksums.NAME}')
    # One that is on its way is none of that.
    store.pipe_file('/shelf/study/a/checkpoints/4/state/part', b'half')
    other.look()
    assert other.leavings('a') == [1] and steps(other) == [2, 3]
    other.retain('a', 1, None, (2,))
    assert there() == [2, 3] and not other.leavings('a')
    names = transfer.listed(f'{ADDRESS}/a')
    assert not [name for name in names if '/1/' in name]
    assert f'{mirror.STEPS}/4/state/part' in names
    assert retention.complete(other.folder / 'a' / mirror.STEPS) == [2, 3]


def test_who_was_taken_for_dead_writes_nothing_over_its_successor(two):
    """It may awake at any time: before it begins, and before a save."""
    one, other = two
    held = []

    def entry(number):
        worker = claims._Claims(one.claims, ['a'], LEASE, 9)
        made = worker._files.make(one.claims, 'a', number, 'claim', LEASE)
        assert made
        held.append(claim.Claim(one.claims, 'a', number, LEASE, worker._files, {}))
        return held[-1]

    early = entry(1)
    run(one, 'a', 1, check=early.check)
    late = entry(2)
    run(other, 'a', 2, check=late.check)
    before = {
        name: transfer.read(f'{ADDRESS}/{name}') for name in transfer.listed(ADDRESS)
    }
    for do in (lambda: run(one, 'a', check=early.check), early.check):
        with pytest.raises(claim.Lost, match='took it over'):
            do()
    with (
        pytest.raises(RuntimeError, match='took it over'),
        mirror.opened(one.run('a', late.check)) as part,
    ):
        part.begin()
        entry(3)
        (part.folder / 'metrics.jsonl').write_text('late')
        part.save(1, None, ())
    after = {
        name: transfer.read(f'{ADDRESS}/{name}') for name in transfer.listed(ADDRESS)
    }
    assert {n: x for n, x in after.items() if '@3' not in n} == before


def test_what_another_wrote_meanwhile_is_seen_though_it_is_as_long(two):
    one, other = two
    for text in ('1', '2'):
        (one.folder / 'all.json').write_text(text)
        one.send()
        other.look()
        assert (other.folder / 'all.json').read_text() == text
    transfer.write(f'{ADDRESS}/a/config.json', b'{"n": 1}')
    one.look()
    transfer.write(f'{ADDRESS}/a/config.json', b'{"n": 2}')
    (one.folder / 'all.json').write_text('3')
    one.send()
    one.look()
    assert (one.folder / 'a' / 'config.json').read_text() == '{"n": 2}'


def test_what_was_sent_is_not_brought_again(two, monkeypatch):
    one, other = two
    (one.folder / 'all.json').write_text('1')
    one.send()
    brought = []
    bring = transfer.bring

    def noted(address, path, names):
        brought.extend(names)
        bring(address, path, names)

    monkeypatch.setattr(transfer, 'bring', noted)
    one.look()
    assert brought == []
    other.look()
    other.look()
    assert brought == ['all.json']


def test_what_is_done_once_is_done_by_one_and_the_others_wait_for_it(two):
    one, other = two
    order = []

    def make(place):
        def do():
            order.append(place)
            (place.folder / 'all.json').write_text('made')
            return 'made'

        return place.once('all', (place.folder / 'all.json').is_file, do, LEASE)

    assert make(one) == 'made' and make(other) is None
    assert (other.folder / 'all.json').read_text() == 'made' and order == [one]
    # What is gone is made again, and what cannot be made is told.
    transfer.remove(ADDRESS, ['all.json'])
    (one.folder / 'all.json').unlink()
    assert make(one) == 'made'

    def never():
        raise ValueError('no such thing')

    for _ in range(2):
        with pytest.raises(ValueError, match='no such thing'):
            one.once('bad', lambda: False, never, LEASE)


def test_what_is_looked_at_is_no_older_than_who_has_ended():
    """Who sees that a trunk is done sees its state, too."""
    seen, made = [], []

    def look():
        seen.append(len(made))

    def is_ready(item, open_):
        return item == 'trunk' or ('trunk' not in open_ and seen[-1] == 1)

    claims.work(
        f'{ADDRESS}/claims',
        ['leaf', 'trunk'],
        made.append,
        lambda *_: None,
        is_ready=is_ready,
        look=look,
    )
    assert made == ['trunk', 'leaf']
