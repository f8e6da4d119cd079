"""The fast part of the harnesses in faults/: some kills, some damaged files.

All of it: python -m tests.faults.kills --trials=100, python -m tests.faults.flips.
"""

import draws
import pytest
from faults import flips, kills


@pytest.mark.slow
def test_killed_runs_end_like_uninterrupted_runs(tmp_path):
    counts, faults = kills.trials(2, draws.seed(), tmp_path)
    assert counts.total() == 2 and not faults, faults


@pytest.mark.slow
def test_damage_is_detected_or_harmless(tmp_path):
    counts, faults = flips.trials(6, draws.seed(), tmp_path)
    assert counts.total() == 6 and not faults, faults
