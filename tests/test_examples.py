"""Runs the examples in docstrings."""

import doctest
import importlib
import pkgutil

import pytest

import jepa_text

MODULES = [
    module.name for module in pkgutil.walk_packages(jepa_text.__path__, 'jepa_text.')
]


@pytest.mark.parametrize('name', MODULES)
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
