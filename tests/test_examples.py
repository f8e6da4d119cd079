"""Runs the examples in docstrings."""

import doctest
import importlib
import pkgutil

import pytest

import jepa_text

MODULES = [
    module.name for module in pkgutil.walk_packages(jepa_text.__path__, 'jepa_text.')
]


# Whose examples take half a second or more: what they call is compiled.
SLOW = {
    'jepa_text.evaluation.controls.lexical',
    'jepa_text.losses.regularizers',
    'jepa_text.losses.tokens',
    'jepa_text.losses.vectors',
    'jepa_text.models.pooling',
    'jepa_text.optim.muon',
    'jepa_text.optim.schedules',
}


def test_slow_modules_exist():
    assert {*MODULES} >= SLOW


@pytest.mark.parametrize(
    'name',
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in MODULES],
)
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
