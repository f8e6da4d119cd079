"""Runs the examples in docstrings."""

import doctest
import importlib
import pkgutil

import pytest

from jepa_text import analysis, evaluation, measures

MODULES = ['jepa_text.models.pooling']
MODULES += [
    module.name
    for package in (measures, evaluation, analysis)
    for module in pkgutil.walk_packages(package.__path__, f'{package.__name__}.')
]


@pytest.mark.parametrize('name', MODULES)
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
