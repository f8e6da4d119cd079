"""A seal fits a folder that did not change, and no other."""

import json
import os

import pytest

from jepa_text.files import seal


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / 'step'
    (folder / 'a' / 'b').mkdir(parents=True)
    (folder / 'a' / 'b' / 'data').write_bytes(bytes(range(256)) * 40)
    (folder / 'a' / 'empty').write_bytes(b'')
    (folder / 'meta').write_text('{}')
    return folder


def _flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_sealed_folder_verifies_and_lists_every_file(folder):
    seal.seal(folder)
    assert seal.verify(folder) is None
    entries = json.loads((folder / seal.NAME).read_text())['files']
    assert set(entries) == {'a/b/data', 'a/empty', 'meta'}
    assert entries['a/b/data']['bytes'] == 10240
    assert entries['a/empty']['sha256'].startswith('e3b0c44298fc1c14')


def test_sealing_twice_is_sealing_once(folder):
    seal.seal(folder)
    first = (folder / seal.NAME).read_bytes()
    seal.seal(folder)
    assert (folder / seal.NAME).read_bytes() == first


def test_unsealed_folder_is_named_as_such(folder):
    assert 'no SEAL.json' in seal.verify(folder)


@pytest.mark.parametrize('position', [0, 5000, 10239])
def test_one_flipped_bit_anywhere_is_found(folder, position):
    seal.seal(folder)
    _flip(folder / 'a' / 'b' / 'data', position)
    assert seal.verify(folder) == (
        'the contents of a/b/data are not those that were sealed'
    )


def test_every_other_damage_is_found_and_named(folder):
    seal.seal(folder)
    data = folder / 'a' / 'b' / 'data'
    whole = data.read_bytes()
    data.write_bytes(whole[:100])
    assert seal.verify(folder) == 'a/b/data has 100 bytes instead of 10240'
    data.unlink()
    assert seal.verify(folder) == 'a/b/data is missing'
    data.write_bytes(whole)
    assert seal.verify(folder) is None


def test_files_of_others_are_no_damage(folder):
    seal.seal(folder)
    (folder / '.DS_Store').write_text('icons')
    (folder / 'a' / 'new').write_text('')
    assert seal.verify(folder) is None


@pytest.mark.parametrize(
    'content', ['', '{"files"', '[]', '{}', '{"files": {"meta": 1}}']
)
def test_damaged_seal_is_a_reason_and_no_crash(folder, content):
    (folder / seal.NAME).write_text(content)
    assert 'its SEAL.json is damaged' in seal.verify(folder)


def test_unreadable_disk_is_no_damage(folder, monkeypatch):
    seal.seal(folder)

    def fail(path):
        raise OSError(5, 'Input/output error', str(path))

    monkeypatch.setattr(seal, 'sha256', fail)
    with pytest.raises(OSError, match='Input/output error'):
        seal.verify(folder)


def test_files_are_flushed_before_the_seal_appears(folder, monkeypatch):
    flushed, order = os.fsync, []

    def watch(descriptor):
        order.append((os.readlink(f'/proc/self/fd/{descriptor}'), _sealed(folder)))
        flushed(descriptor)

    monkeypatch.setattr(os, 'fsync', watch)
    seal.seal(folder)
    before = {name for name, sealed in order if not sealed}
    for inner in ('a/b/data', 'a/empty', 'meta', 'a/b', 'a', ''):
        assert str(folder / inner) in before
    assert [name for name, sealed in order if sealed] == [str(folder), str(folder.parent)]


def _sealed(folder):
    return (folder / seal.NAME).exists()


def test_failed_seal_leaves_the_folder_unsealed(folder, monkeypatch):
    def full(descriptor):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(os, 'fsync', full)
    with pytest.raises(OSError, match='No space left'):
        seal.seal(folder)
    assert 'no SEAL.json' in seal.verify(folder)


def test_filesystem_that_cannot_flush_folders_is_no_error(folder, monkeypatch):
    flush = os.fsync

    def folders_fail(descriptor):
        if os.path.isdir(f'/proc/self/fd/{descriptor}'):
            raise OSError(22, 'Invalid argument')
        flush(descriptor)

    monkeypatch.setattr(os, 'fsync', folders_fail)
    seal.seal(folder)
    assert seal.verify(folder) is None


def test_stamp_changes_with_any_change(folder):
    before = seal.stamp(folder)
    assert seal.stamp(folder) == before
    _flip(folder / 'a' / 'b' / 'data', 3)
    assert seal.stamp(folder) != before
