"""The table of chips, found by name and by jax's device kind."""

import pytest

from jepa_text.parallel import hardware

# jax.devices()[0].device_kind of each chip.
KINDS = {
    'NVIDIA H100 80GB HBM3': 'h100',
    'NVIDIA H200': 'h200',
    'NVIDIA A100-SXM4-80GB': 'a100',
    'NVIDIA B200': 'b200',
    'NVIDIA L4': 'l4',
    'NVIDIA L40S': None,
    'Tesla T4': 't4',
    'TPU v5 lite': 'v5e',
    'TPU v5': 'v5p',
    'TPU v5p': 'v5p',
    'TPU v6 lite': 'v6e',
    'cpu': None,
    'NVIDIA H100 PCIe': None,
    'NVIDIA GH200 480GB': None,
    'NVIDIA GB200': None,
    'NVIDIA GeForce RTX 4090': None,
}


@pytest.mark.parametrize('kind', KINDS)
def test_a_device_of_jax_has_the_peak_of_its_chip(kind):
    name = KINDS[kind]
    assert hardware.peak(kind) == (hardware.CHIPS[name].peak if name else None)


@pytest.mark.parametrize('name', sorted({*hardware.CHIPS} - {'core'}))
def test_figures_are_plausible(name):
    chip = hardware.CHIPS[name]
    # float32 runs at an eighth of the speed of tensor cores.
    narrow = chip.peak * (8 if chip.dtype == 'float32' else 1)
    assert 5e13 < narrow < 3e15 and 1e10 < chip.memory < 3e11
    # FLOPs per byte of memory traffic.
    assert 100 < narrow / chip.bandwidth < 600
    assert 0.1 < chip.mfu < hardware.REACHED


def test_count_after_the_colon():
    assert hardware.find('h100:8') == (hardware.CHIPS['h100'], 8)
    assert hardware.find('h100:08') == hardware.find('H100:8')
    assert hardware.find('V5E') == (hardware.CHIPS['v5e'], 1)


@pytest.mark.parametrize('name', ['h900:8', 'h100:0', 'h100:00', 'h100:²', 'h100:', ''])
def test_unknown_hardware_is_named(name):
    with pytest.raises(ValueError, match='h100:8; available chips: h100, h200'):
        hardware.find(name)
