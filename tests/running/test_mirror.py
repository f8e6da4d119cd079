"""A run at an address equals a local one, after kills, losses and damage."""

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import flax.struct
import jax
import numpy as np
import pytest
import stores
import tiny

from jepa_text.files import addresses, cache, checksums, transfer
from jepa_text.parallel import exits
from jepa_text.running import (
    checkpoint,
    download,
    fresh_start,
    mirror,
    restore,
)

ADDRESS = 'memory://shelf/runs/one'


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    return stores.memory(monkeypatch, tmp_path / 'cache')


def elsewhere(monkeypatch, tmp_path, name):
    """Simulates another machine, with an empty cache."""
    monkeypatch.setenv('JEPA_TEXT_CACHE', str(tmp_path / name))


@flax.struct.dataclass
class State:
    """A small state."""

    step: jax.Array
    w: jax.Array


def state(step):
    return State(step=jax.numpy.asarray(step), w=jax.numpy.full((4, 3), float(step)))


def run(steps, begin=True, keep=2, keep_every=None, address=ADDRESS):
    """Saves steps at an address; returns the step from which it resumed."""
    with mirror.opened(address) as place:
        place.folder.mkdir(parents=True, exist_ok=True)
        (place.folder / 'config.json').write_text('{}')
        with checkpoint.Checkpointer(
            place.folder / mirror.STEPS,
            keep=keep,
            keep_every=keep_every,
            saved=place.save,
        ) as store:
            found = store.newest_good()
            if begin:
                place.begin()
            for step in steps:
                with open(place.folder / 'metrics.jsonl', 'a') as file:
                    file.write(f'{step}\n')
                store.save(state(step), {'step': step}, wait=True)
    return found and found[0]


def there(address=ADDRESS):
    """The complete steps at an address."""
    return download.steps(transfer.list_files(address))


def test_another_machine_resumes(tmp_path, monkeypatch):
    assert run([1, 2, 3]) is None
    assert there() == [2, 3]
    elsewhere(monkeypatch, tmp_path, 'second')
    assert run([4]) == 3
    assert there() == [3, 4]
    assert transfer.read(f'{ADDRESS}/metrics.jsonl') == b'1\n2\n3\n4\n'
    folder = mirror.folder_of(ADDRESS) / mirror.STEPS
    assert restore.meta(folder, 4) == {'step': 4}
    assert checksums.verify(folder / '4') is None
    names = transfer.list_files(ADDRESS)
    assert not [n for n in names if 'lock' in n or n.endswith('.tmp') or 'tmp' in n]


def test_the_address_is_authoritative(store):
    run([1, 2])
    store.rm('/shelf/runs/one/checkpoints/2', recursive=True)
    assert run([]) == 1
    assert there() == [1]


def test_steps_are_not_downloaded_twice(store, monkeypatch):
    run([1, 2])
    downloaded = []
    bring = transfer.download_files
    monkeypatch.setattr(
        transfer,
        'download_files',
        lambda address, path, names: (
            downloaded.extend(names) or bring(address, path, names)
        ),
    )
    assert run([3]) == 2
    assert downloaded == []
    transfer.write(f'{ADDRESS}/config.json', b'{"another": 1}')
    run([])
    assert downloaded == ['config.json']


@pytest.mark.parametrize('damage', ['flipped', 'cut', 'missing', 'incomplete'])
def test_a_damaged_step_is_skipped_and_replaced(
    store, tmp_path, monkeypatch, damage, caplog
):
    run([1, 2])
    top = '/shelf/runs/one/checkpoints/2/'
    name = max(store.find(top + 'state'), key=store.size)
    if damage == 'incomplete':
        store.rm(top + checksums.NAME)
    elif damage == 'missing':
        store.rm(name)
    else:
        data = store.cat(name)
        flipped = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
        store.pipe_file(name, flipped if damage == 'flipped' else data[:-1])
    elsewhere(monkeypatch, tmp_path, 'second')
    with caplog.at_level(logging.WARNING):
        assert run([2, 3]) == 1
    assert ('is damaged' in caplog.text) == (damage != 'incomplete')
    assert there() == [2, 3]
    elsewhere(monkeypatch, tmp_path, 'third')
    store.rm('/shelf/runs/one/checkpoints/3', recursive=True)
    assert run([]) == 2


def test_an_incomplete_upload_is_removed(store):
    run([1])
    store.pipe_file('/shelf/runs/one/checkpoints/2/state/odd', b'half')
    run([2])
    assert f'{mirror.STEPS}/2/state/odd' not in transfer.list_files(ADDRESS)
    assert there() == [1, 2]


def test_a_run_killed_in_its_first_save_can_restart(monkeypatch, tmp_path):
    """A partial upload is not mistaken for a run whose checkpoints were lost."""
    sent, one, write = [], transfer.upload_file, transfer.write

    def note(call):
        def noted(first, second):
            call(first, second)
            sent.append(transfer.list_files(ADDRESS))

        return noted

    with monkeypatch.context() as patch:
        patch.setattr(transfer, 'upload_file', note(one))
        patch.setattr(transfer, 'write', note(write))
        run([1])
    assert there() == [1] and len(sent) > 5
    files = {name: transfer.read(f'{ADDRESS}/{name}') for name in sent[-1]}
    for number, names in enumerate(sent[:-1]):
        address = f'memory://shelf/killed/{number}'
        for name in names:
            transfer.write(f'{address}/{name}', files[name])
        elsewhere(monkeypatch, tmp_path, f'cache {number}')
        with mirror.opened(address) as place:
            place.folder.mkdir(parents=True, exist_ok=True)
            fresh_start.check(place.folder)
            assert restore.newest_good_step(place.folder / mirror.STEPS) is None


def test_kept_steps_are_not_removed_at_the_address(tmp_path, monkeypatch):
    run([1, 2, 3], keep=1, keep_every=2)
    elsewhere(monkeypatch, tmp_path, 'second')
    # Step 2 was not downloaded, and is not removed.
    run([4, 5], keep=1, keep_every=2)
    assert there() == [2, 4, 5]


def test_a_rejected_run_changes_nothing(store):
    run([1])
    before = {name: store.cat(name) for name in store.find('/shelf')}
    with pytest.raises(ZeroDivisionError), mirror.opened(ADDRESS) as place:
        (place.folder / 'config.json').write_text('{"other": 1}')
        raise ZeroDivisionError
    assert {name: store.cat(name) for name in store.find('/shelf')} == before


def test_the_later_of_two_machines_continues():
    owner = json.dumps({'id': 'other', 'process': 7, 'machine': 'm'}).encode()
    taken = pytest.raises(RuntimeError, match='was taken over by process 7 on m')
    with taken, mirror.opened(ADDRESS) as place:
        place.begin()
        transfer.write(f'{ADDRESS}/{mirror.OWNER}', owner)
    # The files of the other process are unchanged.
    assert json.loads(transfer.read(f'{ADDRESS}/{mirror.OWNER}'))['id'] == 'other'


def test_a_workdir_is_locked_on_one_machine():
    in_use = pytest.raises(RuntimeError, match='in use by process')
    with mirror.opened(ADDRESS), in_use, mirror.opened(ADDRESS):
        pass


def test_temporary_network_failures_are_warnings(monkeypatch, caplog):
    put, failing = transfer.upload_folder, [1]

    def folder(*arguments):
        # Fails the first time, for the first save.
        if failing:
            failing.pop()
            raise addresses.AddressError('no network')
        put(*arguments)

    monkeypatch.setattr(transfer, 'upload_folder', folder)
    with caplog.at_level(logging.WARNING):
        run([1, 2])
    assert 'lacks the newest checkpoint' in caplog.text and there() == [1, 2]


@pytest.mark.parametrize('address', ['https://host/run', 'hf://datasets/a/run'])
def test_unwritable_addresses_raise(address):
    with (
        pytest.raises(ValueError, match=f"The workdir='{address}' is an address with"),
        mirror.opened(address),
    ):
        pass
    assert not cache.root().exists()


@pytest.mark.slow
def test_a_run_at_an_address_equals_a_local_one(tmp_path, monkeypatch):
    config = tiny.config(tmp_path, phases=(dict(objective=dict(name='mlm')),), steps=12)
    straight = tiny.fingerprint(tiny.train(config, tmp_path / 'straight'))

    class Stop:
        requested = True

    with pytest.raises(exits.Stopped):
        tiny.train(config, ADDRESS, stop=Stop())
    shutil.rmtree(tmp_path / 'cache')
    elsewhere(monkeypatch, tmp_path, 'second')
    assert tiny.fingerprint(tiny.train(config, ADDRESS)) == straight
    np.testing.assert_equal(
        tiny.log(mirror.folder_of(ADDRESS)), tiny.log(tmp_path / 'straight')
    )
    # Another config raises, and nothing changes at the address.
    with pytest.raises(exits.ConfigError, match='another config'):
        tiny.train(config | {'seed': 1}, ADDRESS)


@pytest.fixture(params=['s3', 'gs'])
def bucket(request, monkeypatch):
    """The address of a bucket on a server in a separate process."""
    for name in ('s3fs', 'gcsfs', 'moto', 'gcp_storage_emulator'):
        pytest.importorskip(name)
    with {'s3': stores.s3, 'gs': stores.gcs}[request.param]() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        address = f'{request.param}://{stores.BUCKET}/runs/one'
        yield address
        type(addresses.filesystem(address)[0]).clear_instance_cache()


@pytest.mark.remote
def test_runs_in_buckets(bucket, tmp_path, monkeypatch):
    assert run([1, 2, 3], address=bucket) is None
    assert there(bucket) == [2, 3]
    elsewhere(monkeypatch, tmp_path, 'second')
    system, path = addresses.filesystem(bucket)
    name = max(system.find(f'{path}/checkpoints/3/state'), key=system.size)
    system.pipe_file(name, system.cat(name)[:-1] + b'!')
    elsewhere(monkeypatch, tmp_path, 'third')
    assert run([3, 4], address=bucket) == 2
    assert there(bucket) == [3, 4]
    elsewhere(monkeypatch, tmp_path, 'fourth')
    assert run([], address=bucket) == 4
    assert transfer.read(f'{bucket}/metrics.jsonl') == b'1\n2\n3\n3\n4\n'


@pytest.mark.remote
@pytest.mark.slow
@pytest.mark.parametrize('bucket', ['s3'], indirect=True)
def test_a_killed_run_resumes_elsewhere_exactly(bucket, tmp_path):
    changes = dict(phases=[dict(objective=dict(name='mlm'))], steps=16)
    (tmp_path / 'changes.json').write_text(json.dumps(changes))
    tiny.rows(tmp_path)
    program = [sys.executable, str(Path(tiny.__file__)), str(tmp_path)]

    def start(workdir, cache):
        here = {**os.environ, 'JEPA_TEXT_CACHE': str(tmp_path / cache)}
        return subprocess.Popen([*program, workdir], stdout=subprocess.PIPE, env=here)

    straight = start(str(tmp_path / 'straight'), 'unused')
    killed = start(bucket, 'first')
    end = time.monotonic() + 300
    while not there(bucket):
        assert killed.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    killed.kill()
    killed.communicate()
    assert there(bucket) != [16]
    output = start(bucket, 'second').communicate(timeout=180)[0].split()
    assert output[-1] == straight.communicate(timeout=180)[0].split()[-1]
    assert there(bucket)[-1] == 16
