"""What is an address, which package it needs, and patience with a network."""

import sys
from pathlib import Path

import pytest

from jepa_text.files import addresses


def test_what_is_an_address():
    for text in ('gs://b/x', 's3://b', 'https://h/a.txt', 'hf://datasets/x', 'a::s3://b'):
        assert addresses.is_address(text)
    assert addresses.is_address(Path('gs://b/x'))  # gs:/b/x by now
    for text in ('runs/a', '/a:b/c', 'C:/x', '~/runs', 'a:b', '.'):
        assert not addresses.is_address(text)


@pytest.mark.parametrize(
    'text', [Path('gs://b/x'), 'zip://a::s3://b/c', 's3://', 's3:/b']
)
def test_half_an_address_is_refused(text):
    with pytest.raises(ValueError, match='is no address that can be read'):
        addresses.filesystem(text)


def test_an_unknown_protocol_is_refused():
    with pytest.raises(ValueError, match='gopher.*no protocol.*gcs, gs, hf, http'):
        addresses.filesystem('gopher://b/x')


@pytest.mark.parametrize(
    'address, package, extra',
    [
        ('s3://b/x', 's3fs', 's3'),
        ('gs://b/x', 'gcsfs', 'gs'),
        ('https://h/x', 'aiohttp', 'https'),
    ],
)
def test_a_missing_package_is_asked_for_by_name(address, package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, 'fsspec.implementations.http', raising=False)
    protocol = address.partition(':')[0]
    monkeypatch.delitem(sys.modules['fsspec.registry']._registry, protocol, raising=False)
    with pytest.raises(ModuleNotFoundError, match=rf"{package}.*'jepa-text\[{extra}\]'"):
        addresses.filesystem(address)


def failing(errors):
    """A call that raises one after the other, then says 'well'; and how often it ran."""
    left, calls = list(errors), []

    def call():
        calls.append(1)
        if left:
            raise left.pop(0)
        return 'well'

    return call, calls


def test_a_network_that_fails_is_asked_again_after_longer_and_longer_pauses():
    call, calls = failing([ConnectionError('cut'), TimeoutError(), EOFError('short')])
    pauses = []
    assert addresses.patiently('s3://b/x', call, pauses.append) == 'well'
    assert len(calls) == 4
    assert pauses == [addresses.PAUSE * 2**i for i in range(3)]


def test_patience_ends_in_words():
    call, calls = failing([ConnectionError('cut')] * 100)
    pauses = []
    with pytest.raises(addresses.AddressError, match='s3://b/x could not.*: cut'):
        addresses.patiently('s3://b/x', call, pauses.append)
    assert len(calls) == addresses.RETRIES + 1 and len(pauses) == addresses.RETRIES
    assert max(pauses) <= addresses.LONGEST_PAUSE


class Answer(Exception):
    """An error as a client of the web raises it, with the status of an answer."""

    def __init__(self, status):
        super().__init__(f'status {status}')
        self.status = status


Answer.__module__ = 'aiohttp.client_exceptions'


class Refusal(Exception):
    """An error as botocore raises it."""

    def __init__(self, status):
        super().__init__(f'status {status}')
        self.response = {'ResponseMetadata': {'HTTPStatusCode': status}}


Refusal.__module__ = 'botocore.errorfactory'


@pytest.mark.parametrize(
    'error, raised, match',
    [
        (Answer(404), FileNotFoundError, 'nothing at s3://b/x'),
        (Refusal(404), FileNotFoundError, 'nothing at s3://b/x'),
        (Answer(403), PermissionError, 'keys of this machine'),
        (Refusal(403), PermissionError, 'keys of this machine'),
        (FileNotFoundError('x'), FileNotFoundError, 'nothing at s3://b/x'),
        (PermissionError('x'), PermissionError, 'keys of this machine'),
        (Answer(400), addresses.AddressError, 'cannot be read .*status 400'),
        (ValueError('a fault of ours'), ValueError, '^a fault of ours$'),
    ],
)
def test_what_another_attempt_does_not_mend_is_not_tried_again(error, raised, match):
    call, calls = failing([error])
    with pytest.raises(raised, match=match):
        addresses.patiently('s3://b/x', call, stop=None)
    assert len(calls) == 1


@pytest.mark.parametrize('status', [408, 429, 500, 503])
def test_a_busy_server_is_asked_again(status):
    call, calls = failing([Answer(status), Refusal(status)])
    assert addresses.patiently('s3://b/x', call, lambda pause: None) == 'well'
    assert len(calls) == 3


@pytest.mark.parametrize('cause', [Answer(400), Refusal(412)])
def test_what_a_cut_answer_was_made_of_does_not_make_it_final(cause):
    # aiohttp calls half an answer a 400, and what S3 answers is another error in s3fs.
    error = ConnectionError('not enough data')
    error.__cause__ = cause
    call, calls = failing([error])
    assert addresses.patiently('s3://b/x', call, lambda pause: None) == 'well'
    assert len(calls) == 2


@pytest.mark.parametrize(
    ('status', 'code'), [(400, 'InvalidToken'), (400, 'ExpiredToken'), (401, '401')]
)
def test_keys_that_s3_refuses_in_other_words_do_not_open(status, code):
    error = OSError(22, 'the token is no good')
    error.__cause__ = Refusal(status)
    error.__cause__.response['Error'] = {'Code': code}
    with pytest.raises(PermissionError, match='AWS_ACCESS_KEY_ID'):
        addresses.patiently('s3://b/x', failing([error])[0], stop=None)


def test_a_missing_file_that_was_a_cut_connection_is_asked_for_again():
    # So does fsspec raise what happens to a web address, whatever it was.
    error = FileNotFoundError('http://h/x')
    error.__cause__ = ConnectionError('cut')
    call, calls = failing([error])
    assert addresses.patiently('http://h/x', call, lambda pause: None) == 'well'
