"""The fast part of the harnesses in faults/: some kills, some damaged files.

All of it: python -m tests.faults.kills --trials=100, python -m tests.faults.flips.
"""

import draws
import pytest
from faults import flips, kills


@pytest.mark.slow
def test_killed_runs_are_bit_equal_to_an_uninterrupted_run(tmp_path):
    counts, faults = kills.trials(3, draws.seed(), tmp_path)
    assert counts.total() == 3 and not faults, faults


@pytest.mark.slow
def test_damage_is_detected_or_harmless(tmp_path):
    counts, faults = flips.trials(6, draws.seed(), tmp_path)
    assert counts.total() == 6 and not faults, faults
