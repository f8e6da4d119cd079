"""Tests for rows at an address."""

import subprocess
import sys

import numpy as np
import pytest
import tiny

from jepa_text.data import pipeline
from jepa_text.data.rows import row_folder
from jepa_text.files import addresses
from jepa_text.training import prepare as preparing

ADDRESS = 'memory://shelf/rows'


@pytest.fixture(scope='module')
def local(tmp_path_factory):
    return tiny.rows(tmp_path_factory.mktemp('local'))


@pytest.fixture(autouse=True)
def store(local, memory):
    """A store with these rows."""
    addresses.upload_folder(local, ADDRESS)
    return memory


def test_rows_are_the_same(local):
    there, here = pipeline.Rows(ADDRESS, 'train'), pipeline.Rows(local, 'train')
    assert there.fingerprint == here.fingerprint and len(there) == len(here)
    for index in (0, len(here) - 1):
        for key, values in here[index].items():
            np.testing.assert_array_equal(there[index][key], values)
    assert len(pipeline.Rows(f'{ADDRESS}/', 'heldout')) == len(
        pipeline.Rows(there.folder, 'heldout')
    )
    assert pipeline.verify(ADDRESS) == here.manifest


def test_processes_of_one_machine_copy_once(local):
    program = (
        'from jepa_text.data.rows import row_folder\n'
        f'for _ in range(3): print(row_folder.fetch("file://{local}"))'
    )
    running = [
        subprocess.Popen([sys.executable, '-c', program], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    output = b''.join(process.communicate(timeout=60)[0] for process in running)
    assert [process.returncode for process in running] == [0] * 3
    # The manifest, then all files.
    assert output.count(b'copied to') == 2 and output.count(b'\n') == 11


def test_without_shards_little_is_copied():
    folder = row_folder.fetch(ADDRESS, shards=False)
    names = sorted(path.name for path in folder.iterdir() if path.name[0] != '.')
    assert names == ['manifest.json', 'tokenizer.json']


def test_damage_raises(store):
    shard = next(name for name in store.find('/shelf/rows') if 'train-00000' in name)
    store.pipe_file(shard, store.cat(shard)[:-1] + b'!')
    with pytest.raises(ValueError, match=r'memory://.*train-00000.* is damaged'):
        pipeline.Rows(ADDRESS, 'train')
    manifest = store.cat('/shelf/rows/manifest.json')
    store.pipe_file('/shelf/rows/manifest.json', manifest.replace(b'32', b'33'))
    with pytest.raises(ValueError, match='memory://shelf/rows: .* is damaged'):
        pipeline.Rows(ADDRESS, 'train')


def test_missing_rows_raise(store):
    assert row_folder.exists(ADDRESS) and not row_folder.exists('memory://shelf/none')
    with pytest.raises(
        FileNotFoundError, match='no prepared rows in memory://shelf/none'
    ):
        pipeline.Rows('memory://shelf/none', 'train')


def test_rows_are_prepared_at_an_address(store, capsys, monkeypatch):
    section = dict(source=dict(name='bundled'), tokenizer='bundled', row_length=64)
    section['splits'] = ['heldout']
    put, sent = type(store).put_file, []

    def cut(self, path, *given, **more):
        sent.append(path)
        if len(sent) == 4:
            raise OSError('cut')
        put(self, path, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(type(store), 'put_file', cut)
        with pytest.raises(addresses.AddressError, match='cut'):
            preparing.if_missing(section, 'memory://shelf/new')
    # What is there is a part, which the same command completes.
    assert store.find('/shelf/new') and not row_folder.exists('memory://shelf/new')
    preparing.if_missing(section, 'memory://shelf/new')
    said = capsys.readouterr().out
    assert 'already prepared' in said and 'memory://shelf/new: uploaded' in said
    assert len(pipeline.Rows('memory://shelf/new', 'heldout')) > 0
    # It exists: only differences are reported.
    preparing.if_missing(section, 'memory://shelf/new')
    assert 'and is now' not in capsys.readouterr().out
    preparing.if_missing(section | {'seed': 1}, 'memory://shelf/new')
    words = 'seed was 0 and is now 1. The existing rows are used.'
    assert words in capsys.readouterr().out
    with pytest.raises(FileExistsError, match='not overwritten'):
        preparing.make(section, 'memory://shelf/new')
