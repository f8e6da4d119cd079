"""An uploaded folder is complete, or lacks its last file."""

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


def test_the_last_file_is_uploaded_last(store, tmp_path, monkeypatch):
    order = []
    put = type(store).put_file

    def noting(self, source, name, **options):
        order.append(name)
        return put(self, source, name, **options)

    monkeypatch.setattr(type(store), 'put_file', noting)
    transfer.upload_folder(tmp_path, 'memory://shelf/x/', last='manifest.json')
    assert order == ['/shelf/x/deep/a.txt', '/shelf/x/z.bin', '/shelf/x/manifest.json']
    assert {name: store.cat(name).decode() for name in order} == {
        name: name.removeprefix('/shelf/x/') for name in order
    }


def test_a_file_address_creates_its_folders(store, tmp_path):
    top = f'file://{tmp_path}/new'
    transfer.write(f'{top}/a/b.txt', b'b')
    assert transfer.create(f'{top}/c/d.txt', b'd')
    transfer.upload_file(tmp_path / 'z.bin', f'{top}/e/z.bin')
    sizes = {name: file.size for name, file in transfer.list_files(top).items()}
    assert sizes == {'a/b.txt': 1, 'c/d.txt': 1, 'e/z.bin': 5}


def test_existing_files_are_not_overwritten(store, tmp_path):
    transfer.check_free('memory://shelf/x')
    transfer.upload_folder(tmp_path, 'memory://shelf/x', last='manifest.json')
    with pytest.raises(FileExistsError, match='memory://shelf/x already exists'):
        transfer.check_free('memory://shelf/x')


def test_uploads_are_retried(store, tmp_path, monkeypatch):
    put, failures = type(store).put_file, [ConnectionError('cut'), TimeoutError()]

    def failing(self, source, name, **options):
        if failures:
            raise failures.pop()
        return put(self, source, name, **options)

    monkeypatch.setattr(type(store), 'put_file', failing)
    transfer.upload_file(tmp_path / 'z.bin', 'memory://shelf/z.bin')
    assert store.cat('/shelf/z.bin') == b'z.bin'


def test_incomplete_uploads_are_detected(store, tmp_path, monkeypatch):
    def losing(self, source, name, **options):
        self.pipe_file(name, b'less')

    monkeypatch.setattr(type(store), 'put_file', losing)
    with pytest.raises(addresses.AddressError, match='has 4 bytes after 5'):
        transfer.upload_file(tmp_path / 'z.bin', 'memory://shelf/z.bin')
