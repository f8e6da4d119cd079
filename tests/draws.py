"""Seeds of tests that draw some of very many cases: others each day, the same all day."""

import datetime
import os

import pytest

NAME = 'TEST_DRAW'
# Of draws in two parts: the first is drawn always, the second with the long tests.
PARTS = [pytest.param(0, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.long)]


def seed():
    """The seed of today, or of the environment, which is told beside a failure."""
    given = os.environ.get(NAME) or datetime.date.today().toordinal()
    print(f'{NAME}={given} draws the same again.')
    return int(given)
