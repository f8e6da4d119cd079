"""The cache of remote files: complete, downloaded once, and limited in size."""

import hashlib
import os

import at_once
import fsspec
import pytest

from jepa_text.files import cache

FILES = {'a.bin': b'a' * 1000, 'b.gz': b'not unpacked, as it is no gzip file'}


def entry(content):
    return {'bytes': len(content), 'sha256': hashlib.sha256(content).hexdigest()}


ENTRIES = {name: entry(content) for name, content in FILES.items()}


@pytest.fixture(autouse=True)
def shelf(tmp_path, monkeypatch):
    """Returns the address of a folder with files; the cache is empty."""
    monkeypatch.setenv('JEPA_TEXT_CACHE', str(tmp_path / 'cache'))
    monkeypatch.delenv('JEPA_TEXT_CACHE_GB', raising=False)
    (tmp_path / 'shelf').mkdir()
    for name, content in FILES.items():
        (tmp_path / 'shelf' / name).write_bytes(content)
    return tmp_path / 'shelf'


def visible(folder):
    return sorted(path.name for path in folder.iterdir() if path.name[0] != '.')


def test_files_are_downloaded_once_and_reported(shelf, capsys):
    folder = cache.download(f'file://{shelf}', 'rows-1', ENTRIES)
    assert {path: (folder / path).read_bytes() for path in FILES} == FILES
    assert visible(folder) == sorted(FILES)
    assert f'2 files, 0.0 MB, copied to {folder}' in capsys.readouterr().out
    for path in shelf.iterdir():
        path.unlink()
    assert cache.download(f'file://{shelf}', 'rows-1', ENTRIES) == folder
    assert capsys.readouterr().out == ''


def test_files_that_do_not_match_their_checksum_are_discarded(shelf):
    (shelf / 'a.bin').write_bytes(b'b' * 1000)
    with pytest.raises(ValueError, match=r'a\.bin is damaged: its sha256'):
        cache.download(f'file://{shelf}', 'rows-1', ENTRIES)
    assert 'a.bin' not in visible(cache.root() / 'rows-1')


def test_files_of_a_killed_process_are_deleted(shelf):
    folder = cache.hold('rows-1')
    (folder / 'a.bin.partial-00000000').write_bytes(b'half')
    (folder / 'a.bin').write_bytes(
        b'cut'
    )  # as a file system may do after a power failure
    cache.download(f'file://{shelf}', 'rows-1', ENTRIES)
    assert visible(folder) == sorted(FILES)
    assert (folder / 'a.bin').read_bytes() == FILES['a.bin']


def test_without_locks_files_of_other_processes_are_kept(shelf, monkeypatch):
    folder = cache.hold('rows-1')
    (folder / 'a.bin.partial-00000000').write_bytes(b'half')
    monkeypatch.setattr('jepa_text.files.locks.take', lambda *_, **__: False)
    cache.download(f'file://{shelf}', 'rows-1', ENTRIES)
    assert visible(folder) == sorted((*FILES, 'a.bin.partial-00000000'))


@pytest.mark.parametrize(
    'name', ['../a.bin', '/etc/a', 'x/../../a', 'x/.a', '.lock', '..', '']
)
def test_names_that_leave_the_folder_are_rejected(shelf, name):
    with pytest.raises(ValueError, match='not a valid file name in it'):
        cache.download(f'file://{shelf}', 'rows-1', {name: entry(b'')})
    assert not cache.root().exists()


def test_one_of_two_processes_downloads(shelf):
    program = (
        'from jepa_text.files import cache\n'
        f'cache.download("file://{shelf}", "rows-1", {ENTRIES!r})'
    )
    outputs = at_once.printed(program)
    assert sum(b'copied to' in text for text in outputs) == 1


def test_the_oldest_copy_that_is_not_held_is_evicted(monkeypatch):
    for number, name in enumerate(('held', 'old', 'new')):
        folder = cache.root() / name
        folder.mkdir(parents=True)
        (folder / 'rows').write_bytes(bytes(1000))
        os.utime(folder, (number, number))
    cache.hold('held')
    os.utime(cache.root() / 'held', (0, 0))
    monkeypatch.setenv('JEPA_TEXT_CACHE_GB', str(3500 / 1e9))
    cache.make_room(500)
    assert len(visible(cache.root())) == 3
    cache.make_room(1000)
    assert visible(cache.root()) == ['held', 'new']
    with pytest.raises(OSError, match='has room for 0.00.*JEPA_TEXT_CACHE_GB'):
        cache.make_room(3000)
    assert visible(cache.root()) == ['held']


def test_files_that_vanish_while_room_is_made_have_no_size(monkeypatch):
    # A link that leads nowhere is listed, but has no status, as a file removed since.
    for parent in (cache.root(), cache.root() / 'copy'):
        parent.mkdir(parents=True)
        (parent / 'gone').symlink_to('nowhere')
    monkeypatch.setenv('JEPA_TEXT_CACHE_GB', str(1000 / 1e9))
    cache.make_room(1000)
    assert 'copy' in visible(cache.root())


def test_the_size_limit_must_be_a_number(monkeypatch):
    monkeypatch.setenv('JEPA_TEXT_CACHE_GB', 'much')
    with pytest.raises(ValueError, match="JEPA_TEXT_CACHE_GB='much'"):
        cache.make_room(1)


def test_an_interrupted_download_is_repeated(shelf):
    store = fsspec.filesystem('memory')
    for name, content in FILES.items():
        store.pipe_file(f'/shelf/{name}', content)
    assert cache.download('memory://shelf/', 'rows-1', ENTRIES).is_dir()
