"""Runs the examples in docstrings."""

import doctest
import importlib.util
import pkgutil
from pathlib import Path

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
EXAMPLES = [
    name
    for name in MODULES
    if '    >>> ' in Path(importlib.util.find_spec(name).origin).read_text('utf-8')
]


def test_all_modules_can_be_imported():
    assert {*EXAMPLES} >= SLOW
    for name in MODULES:
        importlib.import_module(name)


@pytest.mark.parametrize(
    'name',
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in EXAMPLES],
)
def test_examples(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted and not found.failed
