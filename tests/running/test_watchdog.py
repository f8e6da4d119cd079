"""The watchdog ends a hanging run and reports where it hangs."""

import math
import subprocess
import sys
import textwrap
import time

import pytest

from jepa_text.parallel import exits
from jepa_text.running import watchdog


def test_a_hanging_child_writes_its_stacks_and_exits_with_87(tmp_path):
    program = f"""
        import time
        from jepa_text.running import watchdog

        def waits_for_a_peer():
            time.sleep(60)

        with watchdog.Watchdog({str(tmp_path / 'stacks.txt')!r}, seconds=0.3) as dog:
            dog.beat()
            waits_for_a_peer()
    """
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=55,
    )
    assert done.returncode == exits.HUNG and time.monotonic() - began < 50
    for text in (done.stderr, (tmp_path / 'stacks.txt').read_text()):
        assert 'no progress for 0.3 s (watchdog, step)' in text
        assert 'in waits_for_a_peer' in text


def ended(tmp_path, live, **allowances):
    """Whether the watchdog ends the process while `live` runs."""
    codes = []
    given = dict(seconds=0.2, compile=10, pause=10) | allowances
    dog = watchdog.Watchdog(tmp_path / 'stacks.txt', end=codes.append, **given)
    with dog:
        live(dog)
    return codes == [exits.HUNG]


@pytest.mark.slow
def test_beats_and_pauses_prevent_the_exit(tmp_path):
    def steps(dog):
        for _ in range(6):
            dog.beat()
            time.sleep(0.1)

    def evaluates(dog):
        dog.beat()
        dog.expect('pause')
        time.sleep(0.5)

    def forgets(dog):
        dog.beat()
        time.sleep(0.5)

    assert not ended(tmp_path, steps)
    assert not ended(tmp_path, evaluates)
    assert not ended(tmp_path, lambda dog: time.sleep(0.5))  # the first step compiles
    assert not ended(tmp_path, forgets, seconds=0)
    assert ended(tmp_path, forgets)
    assert ended(tmp_path, evaluates, pause=0.2)


def test_zero_disables_the_watchdog():
    dog = watchdog.Watchdog('unused', seconds=5, pause=0)
    dog.expect('pause')
    assert dog._deadline == math.inf
