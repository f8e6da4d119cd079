"""The watchdog ends a hanging run and reports where it hangs."""

import time

import pytest

from jepa_text.parallel import exits
from jepa_text.running import watchdog


def ended(monkeypatch, live, seconds=0.2, pause=10):
    """Whether the watchdog ends the process while `live` runs."""
    codes = []
    monkeypatch.setattr(watchdog.os, '_exit', codes.append)
    with watchdog.Watchdog(seconds=seconds, pause_seconds=pause) as dog:
        live(dog)
    return codes == [exits.HUNG]


@pytest.mark.slow
def test_beats_and_pauses_prevent_the_exit(monkeypatch):
    def steps(dog):
        for _ in range(6):
            dog.beat()
            time.sleep(0.1)

    def evaluates(dog):
        dog.beat()
        dog.pause()
        time.sleep(0.5)

    def prepares(dog):
        dog.suspend()
        time.sleep(0.5)

    def forgets(dog):
        dog.beat()
        time.sleep(0.5)

    assert not ended(monkeypatch, steps)
    assert not ended(monkeypatch, evaluates)
    assert not ended(monkeypatch, evaluates, pause=0)
    assert not ended(monkeypatch, prepares, pause=0.1)
    assert not ended(monkeypatch, lambda dog: time.sleep(0.5))  # the first step compiles
    assert not ended(monkeypatch, forgets, seconds=0)
    assert ended(monkeypatch, forgets)
    assert ended(monkeypatch, evaluates, pause=0.2)
