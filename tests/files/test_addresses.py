"""Addresses: syntax, required packages, and retries after network failures."""

import sys
from pathlib import Path

import pytest

from jepa_text.files import addresses


def test_what_is_an_address():
    for text in ('gs://b/x', 's3://b', 'https://h/a.txt', 'hf://datasets/x', 'a::s3://b'):
        assert addresses.is_address(text)
    assert addresses.is_address(Path('gs://b/x'))  # becomes gs:/b/x
    for text in ('runs/a', '/a:b/c', 'C:/x', '~/runs', 'a:b', '.'):
        assert not addresses.is_address(text)


@pytest.mark.parametrize(
    'text', [Path('gs://b/x'), 'zip://a::s3://b/c', 's3://', 's3:/b']
)
def test_malformed_addresses_are_rejected(text):
    with pytest.raises(ValueError, match='is not a valid address'):
        addresses.filesystem(text)


def test_unknown_protocols_are_rejected():
    with pytest.raises(
        ValueError, match='gopher.*unsupported protocol.*gcs, gs, hf, http'
    ):
        addresses.filesystem('gopher://b/x')


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


def failing(errors):
    """Returns a function that raises each error, then returns 'well'; and its calls."""
    left, calls = list(errors), []

    def call():
        calls.append(1)
        if left:
            raise left.pop(0)
        return 'well'

    return call, calls


def test_network_failures_are_retried_with_growing_pauses():
    call, calls = failing([ConnectionError('cut'), TimeoutError(), EOFError('short')])
    pauses = []
    assert addresses.with_retries('s3://b/x', call, pauses.append) == 'well'
    assert len(calls) == 4
    assert pauses == [addresses.PAUSE * 2**i for i in range(3)]


def test_the_last_error_explains_that_retries_are_exhausted():
    call, calls = failing([ConnectionError('cut')] * 100)
    pauses = []
    with pytest.raises(addresses.AddressError, match='s3://b/x could not.*: cut'):
        addresses.with_retries('s3://b/x', call, pauses.append)
    assert len(calls) == addresses.RETRIES + 1 and len(pauses) == addresses.RETRIES
    assert max(pauses) <= addresses.LONGEST_PAUSE


class Answer(Exception):
    """An error with an HTTP status, as raised by aiohttp."""

    def __init__(self, status):
        super().__init__(f'status {status}')
        self.status = status


Answer.__module__ = 'aiohttp.client_exceptions'


class Refusal(Exception):
    """An error as raised by botocore."""

    def __init__(self, status):
        super().__init__(f'status {status}')
        self.response = {'ResponseMetadata': {'HTTPStatusCode': status}}


Refusal.__module__ = 'botocore.errorfactory'


@pytest.mark.parametrize(
    'error, raised, match',
    [
        (Answer(404), FileNotFoundError, 's3://b/x does not exist'),
        (Refusal(404), FileNotFoundError, 's3://b/x does not exist'),
        (Answer(403), PermissionError, 'credentials of this machine'),
        (Refusal(403), PermissionError, 'credentials of this machine'),
        (FileNotFoundError('x'), FileNotFoundError, 's3://b/x does not exist'),
        (PermissionError('x'), PermissionError, 'credentials of this machine'),
        (Answer(400), addresses.AddressError, 'cannot be read .*status 400'),
        (ValueError('a fault of ours'), ValueError, '^a fault of ours$'),
    ],
)
def test_final_errors_are_not_retried(error, raised, match):
    call, calls = failing([error])
    with pytest.raises(raised, match=match):
        addresses.with_retries('s3://b/x', call, sleep=None)
    assert len(calls) == 1


@pytest.mark.parametrize('status', [408, 429, 500, 503])
def test_a_busy_server_is_retried(status):
    call, calls = failing([Answer(status), Refusal(status)])
    assert addresses.with_retries('s3://b/x', call, lambda pause: None) == 'well'
    assert len(calls) == 3


@pytest.mark.parametrize('cause', [Answer(400), Refusal(412)])
def test_the_cause_of_a_truncated_response_is_not_final(cause):
    # aiohttp gives a truncated response 400; s3fs converts the responses of S3.
    error = ConnectionError('not enough data')
    error.__cause__ = cause
    call, calls = failing([error])
    assert addresses.with_retries('s3://b/x', call, lambda pause: None) == 'well'
    assert len(calls) == 2


@pytest.mark.parametrize(
    ('status', 'code'), [(400, 'InvalidToken'), (400, 'ExpiredToken'), (401, '401')]
)
def test_invalid_s3_credentials_raise_permission_errors(status, code):
    error = OSError(22, 'the token is no good')
    error.__cause__ = Refusal(status)
    error.__cause__.response['Error'] = {'Code': code}
    with pytest.raises(PermissionError, match='AWS_ACCESS_KEY_ID'):
        addresses.with_retries('s3://b/x', failing([error])[0], sleep=None)


def test_a_file_missing_due_to_a_broken_connection_is_retried():
    # fsspec raises this for any failure of a web address.
    error = FileNotFoundError('http://h/x')
    error.__cause__ = ConnectionError('cut')
    call, calls = failing([error])
    assert addresses.with_retries('http://h/x', call, lambda pause: None) == 'well'
