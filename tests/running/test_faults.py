"""Some kills and some damaged files; TRIALS=150 in the environment for more of them."""

import os

import draws
import pytest
from faults import flips, kills


@pytest.mark.parametrize(
    'harness, number', draws.in_stages((flips, 6), (kills, 4)), ids=['flips', 'kills']
)
def test_what_happens_to_a_run_is_detected_or_harmless(tmp_path, harness, number):
    number = int(os.environ.get('TRIALS', number))
    counts, faults = harness.trials(number, draws.seed(), tmp_path)
    print(dict(counts))
    assert counts.total() == number and not faults, faults
