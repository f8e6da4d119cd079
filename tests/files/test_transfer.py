"""A folder arrives at an address whole, or without the file that says it is."""

import fsspec
import pytest

from jepa_text.files import addresses, transfer


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(addresses, 'PAUSE', 0.0)
    (tmp_path / 'deep').mkdir()
    for name in ('z.bin', 'manifest.json', 'deep/a.txt'):
        (tmp_path / name).write_text(name)
    store = fsspec.filesystem('memory')
    store.store.clear()
    return store


def test_the_last_file_is_the_last(store, tmp_path, monkeypatch):
    order = []
    put = type(store).put_file

    def noting(self, source, name, **options):
        order.append(name)
        return put(self, source, name, **options)

    monkeypatch.setattr(type(store), 'put_file', noting)
    transfer.folder(tmp_path, 'memory://shelf/x/', last='manifest.json')
    assert order == ['/shelf/x/deep/a.txt', '/shelf/x/z.bin', '/shelf/x/manifest.json']
    assert {name: store.cat(name).decode() for name in order} == {
        name: name.removeprefix('/shelf/x/') for name in order
    }


def test_an_address_of_this_machine_needs_no_folder(store, tmp_path):
    top = f'file://{tmp_path}/new'
    transfer.write(f'{top}/a/b.txt', b'b')
    assert transfer.create(f'{top}/c/d.txt', b'd')
    transfer.one(tmp_path / 'z.bin', f'{top}/e/z.bin')
    sizes = {name: file.size for name, file in transfer.listed(top).items()}
    assert sizes == {'a/b.txt': 1, 'c/d.txt': 1, 'e/z.bin': 5}


def test_what_is_there_is_not_overwritten(store, tmp_path):
    transfer.check_free('memory://shelf/x')
    transfer.folder(tmp_path, 'memory://shelf/x', last='manifest.json')
    with pytest.raises(FileExistsError, match='memory://shelf/x is there already'):
        transfer.check_free('memory://shelf/x')


def test_a_network_that_fails_is_asked_again(store, tmp_path, monkeypatch):
    put, failures = type(store).put_file, [ConnectionError('cut'), TimeoutError()]

    def failing(self, source, name, **options):
        if failures:
            raise failures.pop()
        return put(self, source, name, **options)

    monkeypatch.setattr(type(store), 'put_file', failing)
    transfer.one(tmp_path / 'z.bin', 'memory://shelf/z.bin')
    assert store.cat('/shelf/z.bin') == b'z.bin'


def test_a_store_that_loses_bytes_is_noticed(store, tmp_path, monkeypatch):
    def losing(self, source, name, **options):
        self.pipe_file(name, b'less')

    monkeypatch.setattr(type(store), 'put_file', losing)
    with pytest.raises(addresses.AddressError, match='has 4 bytes after 5'):
        transfer.one(tmp_path / 'z.bin', 'memory://shelf/z.bin')
