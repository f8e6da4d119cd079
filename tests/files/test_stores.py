"""File access over real sockets, from a web server, S3 and GCS."""

import contextlib
import gzip
import hashlib
import random
import socket
from pathlib import Path

import children
import fsspec
import pyarrow
import pytest
import stores
from pyarrow import parquet

from jepa_text import main
from jepa_text.files import addresses, listing, streams
from jepa_text.parallel import exits

pytestmark = pytest.mark.remote

TOY = str(Path(__file__).parents[2] / 'configs' / 'toy.py')

LINES = b''.join(b'line %d of a text\n' % n for n in range(20_000))
BIG = random.Random(0).randbytes(10_000_000)


@pytest.fixture(scope='module')
def shelf(tmp_path_factory):
    """Returns a folder with texts in all formats."""
    for name in ('aiohttp', 's3fs', 'gcsfs', 'moto', 'gcp_storage_emulator'):
        pytest.importorskip(name)
    shelf = tmp_path_factory.mktemp('shelf')
    (shelf / 'deep').mkdir()
    (shelf / 'big.bin').write_bytes(BIG)
    (shelf / 'a.txt').write_bytes(LINES)
    (shelf / 'deep' / 'b.txt.gz').write_bytes(gzip.compress(LINES))
    packed = pyarrow.compress(LINES, codec='zstd', asbytes=True)
    (shelf / 'deep' / 'c.txt.zst').write_bytes(packed)
    parquet.write_table(pyarrow.table({'n': range(100_000)}), shelf / 'd.parquet')
    return shelf


SERVERS = {'s3': stores.s3, 'gs': stores.gcs}


@pytest.fixture(scope='module', params=['web', 's3', 'gs'])
def place(request, shelf):
    """Returns the address of the folder of texts."""
    kind = request.param
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(addresses, 'PAUSES', (0.01,) * 5)
        if kind == 'web':
            address = stack.enter_context(stores.web(shelf))
        else:
            for name, value in stack.enter_context(SERVERS[kind]()).items():
                patch.setenv(name, value)
            address = f'{kind}://{stores.BUCKET}/texts'
            addresses.upload_folder(shelf, address)
        yield address
        type(addresses.filesystem(address)[0]).clear_instance_cache()


def test_files_are_listed_and_read(place):
    with streams.open_bytes(f'{place}/big.bin') as stream:
        assert hashlib.file_digest(stream, 'md5').digest() == hashlib.md5(BIG).digest()
    with streams.open_bytes(f'{place}/big.bin') as stream:
        stream.seek(3_000_000)
        assert stream.read(5_000_000) == BIG[3_000_000:8_000_000]
    with streams.open_bytes(f'{place}/d.parquet') as stream:
        assert parquet.read_table(stream)['n'].to_pylist() == list(range(100_000))
    if place.startswith('http'):
        (file,) = listing.expand(f'{place}/a.txt', ('.txt',)).files
        assert file.size == len(LINES)
        return
    found = listing.expand(place, ('.txt', '.txt.gz', '.txt.zst'))
    names = [file.path.removeprefix(place) for file in found.files]
    assert names == ['/a.txt', '/deep/b.txt.gz', '/deep/c.txt.zst']
    assert found.skipped == 2
    for file in found.files:
        with streams.open_bytes(file) as stream:
            assert stream.read() == LINES
    fits = listing.expand(f'{place}/**/*.gz', ('.gz',))
    assert [file.path for file in fits.files] == [f'{place}/deep/b.txt.gz']


def test_missing_files_are_named(place):
    for name in ('none.txt', 'deep/none.txt'):
        with pytest.raises(FileNotFoundError, match=f'{place}/{name} does not exist'):
            streams.open_bytes(f'{place}/{name}')
    if not place.startswith('http'):
        with pytest.raises(FileNotFoundError):
            listing.expand(place.replace(stores.BUCKET, 'nobodys'), ('.txt',))
        with pytest.raises(FileExistsError, match='already exists'):
            addresses.check_free(place)


def test_servers_without_ranges_or_sizes_are_refused(shelf):
    for option, message in (
        ('--no-ranges', 'must support requests of a part'),
        ('--no-size', 'does not report its size'),
    ):
        with (
            stores.web(shelf, option) as place,
            pytest.raises((ValueError, OSError), match=message),
        ):
            streams.open_bytes(f'{place}/big.bin').read()


def test_an_unreachable_server_is_reported(shelf, monkeypatch):
    monkeypatch.setattr(addresses, 'PAUSES', (0,))
    with stores.web(shelf) as place:
        with pytest.raises(PermissionError, match='403'):
            streams.open_bytes(f'{place}/secret')
        with pytest.raises(addresses.AddressError, match='could not be read.*503'):
            streams.open_bytes(f'{place}/busy')
        stream = streams.open_bytes(f'{place}/big.bin')
        stream.read(1000)
    # The server has ended.
    with pytest.raises(addresses.AddressError, match='could not be read'):
        stream.read()
    with pytest.raises(addresses.AddressError, match='could not be read'):
        streams.open_bytes(f'{place}/big.bin')


@pytest.fixture
def fresh():
    """Makes clients read the environment again, whatever earlier tests set."""
    for name in ('aiohttp', 's3fs', 'gcsfs'):
        pytest.importorskip(name)

    def forget():
        for protocol in ('s3', 'gs'):
            fsspec.get_filesystem_class(protocol).clear_instance_cache()

    forget()
    yield
    forget()


@pytest.mark.parametrize('kind', ['http', 's3', 'gs'])
def test_an_address_without_a_response_is_given_up(kind, fresh, monkeypatch):
    with socket.create_server(('127.0.0.1', 0)) as door:
        port = door.getsockname()[1]
    for name, value in stores.environments(f'http://127.0.0.1:{port}')[kind].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(addresses, 'PAUSES', ())
    address = f'http://127.0.0.1:{port}' if kind == 'http' else f'{kind}://nobody-{port}'
    with pytest.raises(addresses.AddressError, match=f'{address}/a.txt could not be'):
        streams.open_bytes(f'{address}/a.txt')


REMEDY = {
    'http': 'ask its owner',
    's3': 'FSSPEC_S3_ANON=true',
    'gs': 'gcloud auth application-default login',
}


@pytest.mark.parametrize('status', [401, 403])
@pytest.mark.parametrize('kind', ['http', 's3', 'gs'])
def test_denied_access_is_a_config_error(kind, status, fresh, monkeypatch, capsys):
    with stores.closed(status) as url:
        for name, value in stores.environments(url)[kind].items():
            monkeypatch.setenv(name, value)
        address = url if kind == 'http' else f'{kind}://closed-{status}'
        source = f"{{'name': 'jsonl', 'path': '{address}/a.jsonl'}}"
        words = [f'--config={TOY}:mlm', '--workdir=nowhere']
        words += [f'--config.prepare.source={source}']
        assert main.main(['jepa-text', 'prepare', *words]) == exits.USAGE
        error = capsys.readouterr().err
        assert f'Access to {address}/a.jsonl is denied' in error, error
        assert REMEDY[kind] in error and 'Traceback' not in error
        if kind == 'gs':  # the only one that can be a workdir
            workdir = f'--workdir={address}/run'
            words = [f'--config={TOY}:mlm', workdir]
            assert main.main(['jepa-text', 'train', *words]) == exits.USAGE
            assert f'Access to {address}/run is denied' in capsys.readouterr().err


def test_worker_processes_can_read(place, tmp_path):
    """In a new process and in a forked one, as in a pool of workers."""
    program = f"""
import multiprocessing, sys
from jepa_text.files import streams

def count(name):
    with streams.open_bytes({place!r} + name) as stream:
        return sum(1 for _ in stream)

if __name__ == '__main__':
    count('/a.txt')
    for way in ('fork', 'spawn'):
        with multiprocessing.get_context(way).Pool(2) as pool:
            print(pool.map(count, ['/a.txt', '/deep/b.txt.gz']))
"""
    (tmp_path / 'program.py').write_text(program)
    done = children.run(tmp_path / 'program.py', timeout=60)
    assert done.stdout == '[20000, 20000]\n' * 2, done.stderr
