"""Workdirs in a bucket: Orbax writes the checkpoints there, other files are sent."""

import shutil
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny
from numpy.testing import assert_array_equal
from test_damaged import CHANGES

from jepa_text.files import addresses
from jepa_text.parallel import exits
from jepa_text.pretrained import load
from jepa_text.running import places, restore

REFERENCES = Path(__file__).parents[1] / 'references'


@pytest.mark.parametrize('address', ['s3://b/run', 'memory://b/run', 'gcs://b/run'])
def test_stores_that_orbax_cannot_write_are_refused_with_the_remedy(address):
    with (
        pytest.raises(ValueError, match='unsupported protocol .*mount the bucket'),
        places.opened(address),
    ):
        pass
    if address.startswith('gcs'):
        with pytest.raises(ValueError, match='protocol gcs.* an address on gs:// or'):
            places.model_folder('The model', address)


def test_changed_files_are_sent_and_read_again(tmp_path, monkeypatch):
    """To a folder that stands for an address."""
    there, here, list_files = tmp_path / 'there', tmp_path / 'here', addresses.list_files
    monkeypatch.setattr(addresses, 'list_files', lambda at: list_files(f'file://{at}'))
    here.mkdir()
    place = places.Place(here, str(there), is_run=True)
    assert (place.folder / 'checkpoints').read_text() == f'{there}/checkpoints'
    for name in ('config.json', 'lock', 'profile/trace', 'half.tmp'):
        (place.folder / name).parent.mkdir(exist_ok=True)
        (place.folder / name).write_text(name)
    place.send()
    sent = sorted(p.relative_to(there).as_posix() for p in there.rglob('*'))
    assert sent == ['config.json', 'profile', 'profile/trace']
    (there / 'profile' / 'trace').write_text('kept, as the file here is unchanged')
    (place.folder / 'config.json').write_text('{}')
    place.send()
    assert (there / 'config.json').read_text() == '{}'
    assert (there / 'profile' / 'trace').read_text().startswith('kept')
    shutil.rmtree(here)
    here.mkdir()
    again = places.Place(here, str(there), is_run=True)
    assert (here / 'config.json').read_text() == '{}'
    (there / 'config.json').write_text('of another process')
    again.send()  # what was only read is not sent back
    assert (there / 'config.json').read_text() == 'of another process'


def _flip_largest(store, folder):
    path = max(store.find(folder), key=store.size)
    content = bytearray(store.cat(path))
    content[len(content) // 2] ^= 1
    store.pipe_file(path, bytes(content))


@pytest.mark.remote
def test_a_run_in_a_bucket_equals_a_local_one(bucket, tmp_path, caplog):
    """Stopped, its newest step damaged, resumed; then loaded."""
    config, address = tiny.config(tmp_path, **CHANGES | dict(steps=6)), f'{bucket}/run'
    straight = tiny.fingerprint(tiny.train(config, tmp_path / 'straight'))
    stop = SimpleNamespace(requested=True)
    with pytest.raises(exits.Stopped):
        tiny.train(config, address, stop=stop)
    with pytest.raises(exits.Stopped):
        tiny.train(config, address, stop=stop)
    steps = f'{address}/checkpoints'
    assert restore.steps(steps) == [1, 2]
    _flip_largest(*addresses.filesystem(f'{steps}/2/state'))
    assert tiny.fingerprint(tiny.train(config, address)) == straight
    assert f'{steps}/2 was deleted' in caplog.text
    assert restore.steps(steps) == [4, 6]
    with places.opened(address) as place:
        assert tiny.log(place.folder) == tiny.log(tmp_path / 'straight')
    # Another config raises.
    with pytest.raises(exits.ConfigError, match='another config'):
        tiny.train(config | {'seed': 1}, address)
    vectors_ND = [
        load.load(at).encode(['One text.']) for at in (address, tmp_path / 'straight')
    ]
    assert_array_equal(*vectors_ND)
    assert load.load(address, step=4).name == f'{address} at step 4'
    with pytest.raises(FileNotFoundError, match='There are: 4, 6'):
        load.load(address, step=2)


def test_a_run_at_another_address_is_copied(tmp_path, memory, caplog):
    """With its newest intact step; here in the format of version 0.1."""
    with tarfile.open(REFERENCES / 'run_of_0.1.tar.gz') as archive:
        archive.extractall(tmp_path, filter='data')
    run, address = tmp_path / 'run', f'memory://{tmp_path.name}/one'
    path = addresses.filesystem(address)[1]
    memory.put(str(run), path, recursive=True)
    (step,) = restore.steps(run / 'checkpoints')[-1:]
    vectors_ND = [load.load(at).encode(['One text.']) for at in (address, run)]
    assert_array_equal(*vectors_ND)
    with pytest.raises(FileNotFoundError, match=f'step 7 in .*There are: .*{step}'):
        load.load(address, step=7)
    # A flipped byte is found, also at the address.
    _flip_largest(memory, f'{path}/checkpoints/{step}/state')
    with pytest.raises(restore.DamagedError, match='content of state/.* has changed'):
        load.load(address, step=step)
    folder = places.model_folder('the run', address)
    assert restore.newest_good(folder / 'checkpoints') is None
    assert f'checkpoints/{step} is skipped' in caplog.text
