"""The watchdog ends a hanging run and reports where it hangs."""

import time

import children
import pytest

from jepa_text.parallel import exits
from jepa_text.running import watchdog


def test_a_hanging_child_prints_its_stacks_and_exits_with_87():
    program = """
        import time
        from jepa_text.running import watchdog

        def waits_for_a_peer():
            time.sleep(60)

        with watchdog.Watchdog(seconds=0.3) as dog:
            dog.beat()
            waits_for_a_peer()
    """
    done = children.run('-c', program, code=exits.HUNG, timeout=55)
    assert 'no progress for 0.3 s (watchdog)' in done.stderr
    assert 'in waits_for_a_peer' in done.stderr


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
