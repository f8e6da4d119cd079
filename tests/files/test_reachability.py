"""An unreachable server is reported in time, whatever its client does."""

import threading
import time

import pytest

from jepa_text.files import addresses, reachability


@pytest.fixture(autouse=True)
def nobody_known(monkeypatch):
    monkeypatch.setattr(reachability, '_REACHABLE', set())
    monkeypatch.setattr(reachability, 'WITHIN', 0.5)
    monkeypatch.setattr(reachability, '_PAUSE', 0.01)


def failure(error):
    return error.__cause__ if isinstance(error.__cause__, ConnectionError) else None


def refused():
    raise FileNotFoundError('x') from ConnectionError('refused')


def test_a_server_is_contacted_until_it_responds_once():
    calls = []

    def ask():
        calls.append(1)
        if len(calls) < 3:
            refused()

    for _ in range(2):
        if not reachability.is_reachable('a'):
            reachability.check('a', ask, failure)
    assert len(calls) == 3 and not reachability.is_reachable('b')


def test_an_error_of_a_server_is_a_response():
    def ask():
        raise PermissionError('no')

    reachability.check('a', ask, failure)
    assert reachability.is_reachable('a')


def test_refused_connections_are_retried_until_the_time_limit():
    with pytest.raises(
        TimeoutError, match=r'0\.5 s and \d attempts.*ConnectionError: refused'
    ):
        reachability.check('a', refused, failure)
    assert not reachability.is_reachable('a')


def test_a_blocking_client_does_not_exceed_the_time_limit():
    over, began = threading.Event(), time.monotonic()
    with pytest.raises(TimeoutError, match=r'^no response within 0\.5 s$'):
        reachability.check('a', over.wait, failure)
    over.set()
    assert time.monotonic() - began < 5


def test_local_protocols_are_not_checked():
    for address in ('memory://shelf/none', 'file:///nowhere/none'):
        addresses.filesystem(address)
    assert not reachability._REACHABLE
    assert addresses.location('The workdir', 'memory://shelf/none')
