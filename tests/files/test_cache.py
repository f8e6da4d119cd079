"""Copies of what lies at an address: once, whole, and bounded."""

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
    """An address with the files, and an empty cache."""
    monkeypatch.setenv('JEPA_TEXT_CACHE', str(tmp_path / 'cache'))
    monkeypatch.delenv('JEPA_TEXT_CACHE_GB', raising=False)
    (tmp_path / 'shelf').mkdir()
    for name, content in FILES.items():
        (tmp_path / 'shelf' / name).write_bytes(content)
    return tmp_path / 'shelf'


def visible(folder):
    return sorted(path.name for path in folder.iterdir() if path.name[0] != '.')


def test_a_copy_is_made_once_and_says_where(shelf, capsys):
    folder = cache.copied(f'file://{shelf}', 'rows-1', ENTRIES)
    assert {path: (folder / path).read_bytes() for path in FILES} == FILES
    assert visible(folder) == sorted(FILES)
    assert f'2 files, 0.0 MB, copied to {folder}' in capsys.readouterr().out
    for path in shelf.iterdir():
        path.unlink()
    assert cache.copied(f'file://{shelf}', 'rows-1', ENTRIES) == folder
    assert capsys.readouterr().out == ''


def test_what_is_not_as_its_checksum_says_is_not_kept(shelf):
    (shelf / 'a.bin').write_bytes(b'b' * 1000)
    with pytest.raises(ValueError, match=r'a\.bin is damaged: its sha256'):
        cache.copied(f'file://{shelf}', 'rows-1', ENTRIES)
    assert 'a.bin' not in visible(cache.top() / 'rows-1')


def test_what_a_killed_process_left_is_taken_away(shelf):
    folder = cache.hold('rows-1')
    (folder / 'a.bin.partial-00000000').write_bytes(b'half')
    (folder / 'a.bin').write_bytes(b'cut')  # as a file system may after a power cut
    cache.copied(f'file://{shelf}', 'rows-1', ENTRIES)
    assert visible(folder) == sorted(FILES)
    assert (folder / 'a.bin').read_bytes() == FILES['a.bin']


@pytest.mark.parametrize(
    'name', ['../a.bin', '/etc/a', 'x/../../a', 'x/.a', '.lock', '..', '']
)
def test_a_name_leads_nowhere_else(shelf, name):
    with pytest.raises(ValueError, match='no name of a file in it'):
        cache.copied(f'file://{shelf}', 'rows-1', {name: entry(b'')})
    assert not cache.top().exists()


def test_of_two_processes_one_copies(shelf):
    program = (
        'from jepa_text.files import cache\n'
        f'cache.copied("file://{shelf}", "rows-1", {ENTRIES!r})'
    )
    said = at_once.printed(program)
    assert sum(b'copied to' in text for text in said) == 1


def test_the_oldest_copy_that_nobody_holds_makes_room(monkeypatch):
    for number, name in enumerate(('held', 'old', 'new')):
        folder = cache.top() / name
        folder.mkdir(parents=True)
        (folder / 'rows').write_bytes(bytes(1000))
        os.utime(folder, (number, number))
    cache.hold('held')
    os.utime(cache.top() / 'held', (0, 0))
    monkeypatch.setenv('JEPA_TEXT_CACHE_GB', str(3500 / 1e9))
    cache.make_room(500)
    assert len(visible(cache.top())) == 3
    cache.make_room(1000)
    assert visible(cache.top()) == ['held', 'new']
    with pytest.raises(OSError, match='has room for 0.00.*JEPA_TEXT_CACHE_GB'):
        cache.make_room(3000)
    assert visible(cache.top()) == ['held']


def test_a_bound_is_a_number(monkeypatch):
    monkeypatch.setenv('JEPA_TEXT_CACHE_GB', 'much')
    with pytest.raises(ValueError, match="JEPA_TEXT_CACHE_GB='much'"):
        cache.make_room(1)


def test_a_torn_copy_is_begun_again(shelf):
    store = fsspec.filesystem('memory')
    for name, content in FILES.items():
        store.pipe_file(f'/shelf/{name}', content)
    assert cache.copied('memory://shelf/', 'rows-1', ENTRIES).is_dir()
