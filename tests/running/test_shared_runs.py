"""Workers see each other's results in a workdir at an address, and overwrite none."""

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
    """Two workers on one machine."""
    with (
        shared_runs.opened(ADDRESS, ('all.json',)) as one,
        shared_runs.opened(ADDRESS, ()) as other,
    ):
        yield one, other


def run(place, name, *steps, keep=9, check=lambda: None):
    """Saves steps of a run, and writes them to its metrics."""
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
    return download.steps(transfer.list_files(f'{ADDRESS}/{name}'))


def steps(place, name='a'):
    return restore.steps(place.folder / name / mirror.STEPS)


def at(place, step, name='a'):
    return place.folder / name / mirror.STEPS / str(step)


def test_steps_of_other_workers_are_visible_and_fetched_on_demand(two):
    one, other = two
    assert one.folder != other.folder
    run(one, 'a', 1, 2, 3)
    assert steps(other) == []
    other.refresh()
    assert steps(other) == [1, 2, 3] and restore.is_remote(at(other, 2))
    folder = other.folder / 'a' / mirror.STEPS
    # Its existence and meta are known; nothing else was downloaded.
    assert restore.newest_good(folder) == (3, {'step': 3})
    assert not (at(other, 3) / 'state').exists()
    assert (other.folder / 'a' / 'metrics.jsonl').read_text() == '1\n2\n3\n'
    assert other.fetch('a', 2)
    assert checksums.verify(at(other, 2)) is None and not restore.is_remote(at(other, 2))
    assert restore.is_remote(at(other, 1)) and other.fetch('a', 2)
    # Old steps are removed, locally and at the address.
    assert run(other, 'a', 4, keep=2) == 3
    assert there() == [3, 4]
    one.refresh()
    assert steps(one) == [3, 4] and restore.is_remote(at(one, 4))
    assert not restore.is_remote(at(one, 3))


def test_older_steps_are_available_to_other_workers(two):
    """Such as those of a trunk, of which its next worker downloads only the newest."""
    one, other = two
    run(one, 'a', 1, 2)
    other.refresh()
    run(other, 'a', 3)
    other.refresh()
    assert steps(other) == [1, 2, 3] and other.fetch('a', 1)
    assert restore.meta(other.folder / 'a' / mirror.STEPS, 1) == {'step': 1}
    assert there() == [1, 2, 3]
    # Steps that were not downloaded are not uploaded, either.
    one.refresh()
    assert all(checksums.verify(at(one, step)) is None for step in (1, 2))


def test_a_step_removed_meanwhile_is_skipped(two, monkeypatch):
    one, other = two
    run(one, 'a', 1, 2)
    other.refresh()
    bring = transfer.download_files

    def removed(address, path, names):
        one.retain('a', 1, None, ())
        bring(address, path, names)

    monkeypatch.setattr(transfer, 'download_files', removed)
    assert not other.fetch('a', 1) and steps(other) == [2]
    monkeypatch.setattr(transfer, 'download_files', bring)
    assert there() == [2] == steps(one) and not other.fetch('a', 1)
    assert other.fetch('a', 2)


@pytest.mark.parametrize('damage', ['flipped', 'missing', 'no meta'])
def test_a_damaged_step_is_skipped_and_removed(two, store, damage):
    one, other = two
    run(one, 'a', 1, 2)
    other.refresh()
    top = '/shelf/study/a/checkpoints/2/'
    name = max(store.find(top + 'state'), key=store.size)
    if damage == 'flipped':
        store.pipe_file(name, b'!' + store.cat(name)[1:])
    else:
        store.rm_file(name if damage == 'missing' else top + 'meta/metadata')
    assert not other.fetch('a', 2) and there() == [1]
    other.refresh()
    assert steps(other) == [1]
    assert run(other, 'a', 2) == 1 and there() == [1, 2]


def test_leftovers_of_a_killed_removal_are_removed(two, store):
    one, other = two
    run(one, 'a', 1, 2, 3)
    store.rm_file(f'/shelf/study/a/checkpoints/1/{checksums.NAME}')
    # An upload in progress is not a leftover.
    store.pipe_file('/shelf/study/a/checkpoints/4/state/part', b'half')
    other.refresh()
    assert other.leftovers('a') == [1] and steps(other) == [2, 3]
    other.retain('a', 1, None, (2,))
    assert there() == [2, 3] and not other.leftovers('a')
    names = transfer.list_files(f'{ADDRESS}/a')
    assert not [name for name in names if '/1/' in name]
    assert f'{mirror.STEPS}/4/state/part' in names
    assert retention.complete(other.folder / 'a' / mirror.STEPS) == [2, 3]


def test_a_worker_that_lost_its_claim_overwrites_nothing(two):
    """It may resume at any time: before it begins, and before a save."""
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
        name: transfer.read(f'{ADDRESS}/{name}') for name in transfer.list_files(ADDRESS)
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
        name: transfer.read(f'{ADDRESS}/{name}') for name in transfer.list_files(ADDRESS)
    }
    assert {n: x for n, x in after.items() if '@3' not in n} == before


def test_changed_files_of_the_same_size_are_downloaded(two):
    one, other = two
    for text in ('1', '2'):
        (one.folder / 'all.json').write_text(text)
        one.send()
        other.refresh()
        assert (other.folder / 'all.json').read_text() == text
    transfer.write(f'{ADDRESS}/a/config.json', b'{"n": 1}')
    one.refresh()
    transfer.write(f'{ADDRESS}/a/config.json', b'{"n": 2}')
    (one.folder / 'all.json').write_text('3')
    one.send()
    one.refresh()
    assert (one.folder / 'a' / 'config.json').read_text() == '{"n": 2}'


def test_uploaded_files_are_not_downloaded(two, monkeypatch):
    one, other = two
    (one.folder / 'all.json').write_text('1')
    one.send()
    downloaded = []
    bring = transfer.download_files

    def noted(address, path, names):
        downloaded.extend(names)
        bring(address, path, names)

    monkeypatch.setattr(transfer, 'download_files', noted)
    one.refresh()
    assert downloaded == []
    other.refresh()
    other.refresh()
    assert downloaded == ['all.json']


def test_once_runs_in_one_worker_while_others_wait(two):
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
    # A missing result is made again, and an error is raised.
    transfer.delete_files(ADDRESS, ['all.json'])
    (one.folder / 'all.json').unlink()
    assert make(one) == 'made'

    def never():
        raise ValueError('no such thing')

    for _ in range(2):
        with pytest.raises(ValueError, match='no such thing'):
            one.once('bad', lambda: False, never, LEASE)


def test_refresh_is_not_older_than_the_list_of_ended_items():
    """A worker that sees that a trunk is done also sees its checkpoint."""
    seen, made = [], []

    def refresh():
        seen.append(len(made))

    def is_ready(item, open_):
        return item == 'trunk' or ('trunk' not in open_ and seen[-1] == 1)

    claims.work(
        f'{ADDRESS}/claims',
        ['leaf', 'trunk'],
        made.append,
        lambda *_: None,
        is_ready=is_ready,
        refresh=refresh,
    )
    assert made == ['trunk', 'leaf']
