"""Compiling for hardware that is not here: what is said where it cannot be."""

import importlib.util

import pytest

from jepa_text.planning import ahead


def test_devices_that_are_not_here_are_named():
    with pytest.raises(ValueError, match='machine must have it, but it has 4 x cpu'):
        ahead.devices('h100:8')


def test_slices_that_do_not_exist_are_named():
    with pytest.raises(ValueError, match='v5e:5 is no slice .* v5e:4, v5e:8, v5e:16'):
        ahead.devices('v5e:5')


@pytest.mark.skipif(
    importlib.util.find_spec('libtpu') is not None, reason='libtpu is here'
)
def test_a_missing_compiler_is_named():
    with pytest.raises(ValueError, match=r"pip install 'jepa-text\[tpu\]'"):
        ahead.devices('v5e:8')


@pytest.mark.skipif(importlib.util.find_spec('libtpu') is None, reason='no libtpu here')
def test_a_slice_has_its_devices():
    assert len(ahead.devices('v5e:8')) == 8
