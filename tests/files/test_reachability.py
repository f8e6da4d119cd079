"""A server that does not answer is given up in time, whatever its client does."""

import threading
import time

import pytest

from jepa_text.files import addresses, reachability


@pytest.fixture(autouse=True)
def nobody_known(monkeypatch):
    monkeypatch.setattr(reachability, '_ANSWERED', set())
    monkeypatch.setattr(reachability, 'WITHIN', 0.5)
    monkeypatch.setattr(reachability, '_PAUSE', 0.01)


def failure(error):
    return error.__cause__ if isinstance(error.__cause__, ConnectionError) else None


def refused():
    raise FileNotFoundError('x') from ConnectionError('refused')


def test_a_server_is_asked_until_it_answers_and_only_once():
    calls = []

    def ask():
        calls.append(1)
        if len(calls) < 3:
            refused()

    for _ in range(2):
        if not reachability.is_known('a'):
            reachability.check('a', ask, failure)
    assert len(calls) == 3 and not reachability.is_known('b')


def test_an_error_of_a_server_is_an_answer():
    def ask():
        raise PermissionError('no')

    reachability.check('a', ask, failure)
    assert reachability.is_known('a')


def test_who_refuses_is_asked_again_and_given_up_in_words():
    with pytest.raises(
        TimeoutError, match=r'0\.5 s and \d attempts.*ConnectionError: refused'
    ):
        reachability.check('a', refused, failure)
    assert not reachability.is_known('a')


def test_a_client_that_waits_holds_nobody_up():
    over, began = threading.Event(), time.monotonic()
    with pytest.raises(TimeoutError, match=r'^no answer came in 0\.5 s$'):
        reachability.check('a', over.wait, failure)
    over.set()
    assert time.monotonic() - began < 5


def test_what_needs_no_network_is_not_asked_first():
    for address in ('memory://shelf/none', 'file:///nowhere/none'):
        addresses.filesystem(address)
    assert not reachability._ANSWERED
    assert addresses.place('The workdir', 'memory://shelf/none')
