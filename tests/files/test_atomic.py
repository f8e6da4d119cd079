"""Atomic writes leave no partial file or folder, whatever fails; locks exclude."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from jepa_text.data import partial
from jepa_text.files import atomic
from jepa_text.pretrained import export, saved


def fails(*_):
    raise OSError(28, 'No space left on device')


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_are_written_atomically(tmp_path, monkeypatch):
    path = tmp_path / 'config.json'
    atomic.write(path, 'old')
    atomic.write(path, b'new')
    for call in ('fsync', 'replace'):
        monkeypatch.setattr(os, call, fails)
        with pytest.raises(OSError, match='No space left.*config.json'):
            atomic.write(path, 'newer')
        assert path.read_text() == 'new' and names(tmp_path) == ['config.json']
        monkeypatch.undo()


def test_one_of_several_concurrent_writers_wins(tmp_path):
    path = tmp_path / 'lines.jsonl'

    def write(text):
        for _ in range(50):
            atomic.write(path, text)
            assert path.read_text() in texts

    texts = ['a' * 5000, 'b' * 4000, 'c' * 3000]
    with ThreadPoolExecutor() as pool:
        list(pool.map(write, texts))
    assert names(tmp_path) == ['lines.jsonl']


def fill(folder):
    (folder / 'inside').mkdir()
    (folder / 'inside' / 'file').write_text('text')


@pytest.mark.parametrize('what', ['fsync', 'rename', 'body'])
def test_folders_are_written_atomically(tmp_path, monkeypatch, what):
    wanted = tmp_path / 'new' / 'folder'
    if what != 'body':
        monkeypatch.setattr(os, what, fails)
    with pytest.raises(OSError, match='No space left'), atomic.folder(wanted) as partial:
        fill(partial)
        if what == 'body':
            fails()
    assert names(wanted.parent) == []
    monkeypatch.undo()
    with atomic.folder(wanted) as partial:
        fill(partial)
        assert names(wanted.parent) == [partial.name]
        assert partial.name.startswith('.folder.partial-')
    assert names(wanted.parent) == ['folder']
    assert (wanted / 'inside' / 'file').read_text() == 'text'


def test_a_folder_with_files_is_not_overwritten(tmp_path):
    with atomic.folder(tmp_path / 'x') as partial:
        fill(partial)
    with pytest.raises(OSError, match='not empty'), atomic.folder(tmp_path / 'x'):
        pass
    assert names(tmp_path) == ['x'] and names(tmp_path / 'x') == ['inside']


def test_of_a_link_the_folder_is_filled(tmp_path):
    (tmp_path / 'large').mkdir()
    (tmp_path / 'x').symlink_to('large')
    with atomic.folder(tmp_path / 'x') as whole:
        fill(whole)
    (tmp_path / 'large' / 'inside' / 'file').unlink()
    (tmp_path / 'large' / 'inside').rmdir()
    with partial.open_folder(tmp_path / 'x', {}) as parts:
        fill(parts)
    assert names(tmp_path) == ['large', 'x'] and (tmp_path / 'x').is_symlink()
    assert names(tmp_path / 'large') == ['inside']


def test_a_folder_is_flushed_before_it_is_renamed(tmp_path, monkeypatch):
    flushed, before = os.fsync, set()

    def watch(descriptor):
        if not (tmp_path / 'x').exists():
            before.add(os.readlink(f'/proc/self/fd/{descriptor}'))
        flushed(descriptor)

    monkeypatch.setattr(os, 'fsync', watch)
    with atomic.folder(tmp_path / 'x') as partial:
        fill(partial)
    inside = (partial, partial / 'inside', partial / 'inside' / 'file')
    assert set(map(str, inside)) <= before


WRITE = [atomic.folder, lambda path: partial.open_folder(path, {})]
WRITE += [export.check_free, saved.check_free]  # before a model is loaded


@pytest.mark.parametrize('write', WRITE)
def test_a_folder_that_cannot_be_written_to_is_named(write, tmp_path, monkeypatch):
    monkeypatch.setattr('os.access', lambda *_: False)
    said = f'The folder {tmp_path} cannot be written to'
    with pytest.raises(PermissionError, match=said), write(tmp_path / 'new' / 'rows'):
        pass
    assert not names(tmp_path)
