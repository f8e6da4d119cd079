"""Addresses: syntax, required packages, and retries after network failures."""

import sys
from pathlib import Path

import pytest

from jepa_text.files import addresses


def test_what_is_an_address():
    for text in ('gs://b/x', 's3://b', 'https://h/a.txt', 'hf://datasets/x', 'a::s3://b'):
        assert addresses.is_address(text)
    assert addresses.is_address(Path('gs://b/x'))  # becomes gs:/b/x


@pytest.mark.parametrize(
    'text, message',
    [
        *[
            (text, 'is not a valid address')
            for text in (Path('gs://b/x'), 'zip://a::s3://b/c', 's3://', 's3:/b')
        ],
        ('gopher://b/x', 'gopher.*unsupported protocol.*gcs, gs, hf, http'),
    ],
)
def test_invalid_addresses_are_rejected(text, message):
    with pytest.raises(ValueError, match=message):
        addresses.filesystem(text)


@pytest.mark.parametrize(
    'address, package, extra',
    [
        ('s3://b/x', 's3fs', 's3'),
        ('gs://b/x', 'gcsfs', 'gs'),
        ('https://h/x', 'aiohttp', 'https'),
    ],
)
def test_a_missing_package_is_named(address, package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, 'fsspec.implementations.http', raising=False)
    protocol = address.partition(':')[0]
    monkeypatch.delitem(sys.modules['fsspec.registry']._registry, protocol, raising=False)
    with pytest.raises(ModuleNotFoundError, match=rf"{package}.*'jepa-text\[{extra}\]'"):
        addresses.filesystem(address)


class Answer(Exception):
    """An error with an HTTP status, as raised by aiohttp."""

    def __init__(self, status):
        super().__init__(f'status {status}')
        self.status = status


class Refusal(Exception):
    """An error as raised by botocore."""

    def __init__(self, status, code=''):
        super().__init__(f'status {status}')
        metadata = {'HTTPStatusCode': status}
        self.response = {'ResponseMetadata': metadata, 'Error': {'Code': code}}


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.fixture
def pauses(monkeypatch):
    """The pauses between attempts, which are not waited for."""
    waited = []
    monkeypatch.setattr(addresses.time, 'sleep', waited.append)
    return waited


def attempt(*errors, address='https://h/x'):
    """Calls a function that raises each error, then returns 'well'."""
    left = list(errors)

    def call():
        if left:
            raise left.pop(0)
        return 'well'

    return addresses.with_retries(address, call)


@pytest.mark.parametrize(
    'error',
    [
        ConnectionError('cut'),
        TimeoutError(),
        EOFError('short'),
        *map(Answer, (408, 429, 500, 503)),
        # fsspec raises this for any failure of a web address.
        caused(FileNotFoundError('http://h/x'), ConnectionError('cut')),
    ],
)
def test_failures_on_the_web_are_retried_with_growing_pauses(error, pauses):
    assert attempt(error, error, error) == 'well'
    assert pauses == list(addresses.PAUSES[:3])
    # Clients of stores repeat requests by themselves.
    with pytest.raises(addresses.AddressError, match='s3://b/x could not be read'):
        attempt(error, address='s3://b/x')


DENIED = PermissionError, 's3://b/x is denied with the credentials.*AWS_ACCESS_KEY_ID'
MISSING = FileNotFoundError, 's3://b/x does not exist'


@pytest.mark.parametrize(
    'error, raised',
    [
        (Answer(404), MISSING),
        (Refusal(404), MISSING),
        (FileNotFoundError('x'), MISSING),
        (Answer(401), DENIED),
        (Answer(403), DENIED),
        (Refusal(403), DENIED),
        (PermissionError('x'), DENIED),
        (OSError('Forbidden: https://storage/x'), DENIED),
        (caused(OSError(22, 'no good'), Refusal(400, 'InvalidToken')), DENIED),
        (caused(OSError(22, 'no good'), Refusal(400, 'ExpiredToken')), DENIED),
        (caused(OSError(22, 'no good'), Refusal(401, '401')), DENIED),
    ],
)
def test_final_errors_are_not_retried(error, raised, pauses):
    with pytest.raises(raised[0], match=raised[1]):
        attempt(error, address='s3://b/x')
    with pytest.raises(raised[0]):
        attempt(error)
    assert not pauses


def test_the_last_error_explains_that_retries_are_exhausted(pauses):
    with pytest.raises(addresses.AddressError, match='https://h/x could not.*: cut'):
        attempt(*[ConnectionError('cut')] * 9)
    assert pauses == list(addresses.PAUSES)


def test_a_folder_that_a_console_made_is_empty(memory, monkeypatch):
    marker = {'name': '/shelf/x/', 'size': 0, 'type': 'file'}
    listed = {marker['name']: marker}
    monkeypatch.setattr(type(memory), 'find', lambda *_, **__: listed)
    addresses.check_free('memory://shelf/x')


def test_a_folder_is_uploaded(tmp_path, memory):
    (tmp_path / 'deep').mkdir()
    for name in ('z.bin', 'manifest.json', 'deep/a.txt'):
        (tmp_path / name).write_text(name)
    addresses.check_free('memory://shelf/x')
    addresses.upload_folder(tmp_path, 'memory://shelf/x', last='manifest.json')
    *_, newest = sorted(memory.find('/shelf/x'), key=memory.created)
    assert newest == '/shelf/x/manifest.json'
    assert {
        name: file.size for name, file in addresses.list_files('memory://shelf/x').items()
    } == {'deep/a.txt': 10, 'manifest.json': 13, 'z.bin': 5}
    assert memory.cat('/shelf/x/deep/a.txt') == b'deep/a.txt'
    with pytest.raises(FileExistsError, match='memory://shelf/x already exists'):
        addresses.check_free('memory://shelf/x')
    addresses.upload_folder(tmp_path / 'deep', f'file://{tmp_path}/new')
    assert (tmp_path / 'new' / 'a.txt').read_text() == 'deep/a.txt'
    (tmp_path / 'new' / 'link.txt').symlink_to('a.txt')  # as in a cache of the Hub
    assert {*addresses.list_files(f'file://{tmp_path}/new//')} == {'a.txt', 'link.txt'}
