"""A manifest matches an unchanged folder, and no other."""

import json
import os

import pytest

from jepa_text.files import checksums


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


def test_complete_folder_verifies_and_lists_every_file(folder):
    checksums.write(folder)
    assert checksums.verify(folder) is None
    entries = json.loads((folder / checksums.NAME).read_text())['files']
    assert set(entries) == {'a/b/data', 'a/empty', 'meta'}
    assert entries['a/b/data']['bytes'] == 10240
    assert entries['a/empty']['sha256'].startswith('e3b0c44298fc1c14')


def test_writing_checksums_is_idempotent(folder):
    checksums.write(folder)
    first = (folder / checksums.NAME).read_bytes()
    checksums.write(folder)
    assert (folder / checksums.NAME).read_bytes() == first


def test_an_incomplete_folder_is_reported(folder):
    assert 'no CHECKSUMS.json' in checksums.verify(folder)


@pytest.mark.parametrize('position', [0, 5000, 10239])
def test_a_flipped_bit_is_detected_anywhere(folder, position):
    checksums.write(folder)
    _flip(folder / 'a' / 'b' / 'data', position)
    assert checksums.verify(folder) == (
        'the content of a/b/data does not match its checksum'
    )


def test_other_damage_is_detected_and_named(folder):
    checksums.write(folder)
    data = folder / 'a' / 'b' / 'data'
    whole = data.read_bytes()
    data.write_bytes(whole[:100])
    assert checksums.verify(folder) == 'a/b/data has 100 bytes instead of 10240'
    data.unlink()
    assert checksums.verify(folder) == 'a/b/data is missing'
    data.write_bytes(whole)
    assert checksums.verify(folder) is None


def test_unknown_files_are_not_damage(folder):
    checksums.write(folder)
    (folder / '.DS_Store').write_text('icons')
    (folder / 'a' / 'new').write_text('')
    assert checksums.verify(folder) is None


@pytest.mark.parametrize(
    'content', ['', '{"files"', '[]', '{}', '{"files": {"meta": 1}}']
)
def test_a_damaged_manifest_is_a_reason_not_a_crash(folder, content):
    (folder / checksums.NAME).write_text(content)
    assert 'its CHECKSUMS.json is damaged' in checksums.verify(folder)


def test_an_unreadable_disk_is_not_damage(folder, monkeypatch):
    checksums.write(folder)

    def fail(path):
        raise OSError(5, 'Input/output error', str(path))

    monkeypatch.setattr(checksums, 'sha256', fail)
    with pytest.raises(OSError, match='Input/output error'):
        checksums.verify(folder)


def test_files_are_flushed_before_the_manifest_is_written(folder, monkeypatch):
    flushed, order = os.fsync, []

    def watch(descriptor):
        order.append((os.readlink(f'/proc/self/fd/{descriptor}'), _complete(folder)))
        flushed(descriptor)

    monkeypatch.setattr(os, 'fsync', watch)
    checksums.write(folder)
    before = {name for name, complete in order if not complete}
    for inner in ('a/b/data', 'a/empty', 'meta', 'a/b', 'a', ''):
        assert str(folder / inner) in before
    assert [name for name, complete in order if complete] == [
        str(folder),
        str(folder.parent),
    ]


def _complete(folder):
    return (folder / checksums.NAME).exists()


def test_a_failed_manifest_leaves_the_folder_incomplete(folder, monkeypatch):
    def full(descriptor):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(os, 'fsync', full)
    with pytest.raises(OSError, match='No space left'):
        checksums.write(folder)
    assert 'no CHECKSUMS.json' in checksums.verify(folder)


def test_file_systems_that_cannot_flush_folders_are_supported(folder, monkeypatch):
    flush = os.fsync

    def folders_fail(descriptor):
        if os.path.isdir(f'/proc/self/fd/{descriptor}'):
            raise OSError(22, 'Invalid argument')
        flush(descriptor)

    monkeypatch.setattr(os, 'fsync', folders_fail)
    checksums.write(folder)
    assert checksums.verify(folder) is None


def test_stamp_changes_with_any_change(folder):
    before = checksums.stamp(folder)
    assert checksums.stamp(folder) == before
    _flip(folder / 'a' / 'b' / 'data', 3)
    assert checksums.stamp(folder) != before
