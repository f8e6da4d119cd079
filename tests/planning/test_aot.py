"""Ahead-of-time compilation: errors, and results if a compiler is installed."""

import re
import sys

import pytest

from jepa_text.parallel import hardware
from jepa_text.planning import aot, targets
from jepa_text.settings import config_file


def test_topologies_by_name():
    assert targets.topology('h200:4') == ('gpu', '1x1x4')
    assert targets.topology('H200:16') == ('gpu', '1x2x8')
    assert targets.topology('v5e:8') == ('tpu', 'v5e:2x4')


@pytest.mark.parametrize(
    'name, words',
    [
        ('v5e:5', 'v5e:5 is not a supported slice.* v5e:4, v5e:8, v5e:16'),
        ('h100:12', 'must be a multiple of 8'),
        ('mi250x:8', 'does not support mi250x; .* h100, h200, b200, a100, v5e'),
    ],
)
def test_unsupported_hardware_is_rejected(name, words):
    with pytest.raises(ValueError, match=words):
        targets.topology(name)


@pytest.mark.parametrize('name, extra', [('h200:8', 'cuda'), ('v5e:8', 'tpu')])
def test_missing_compiler_is_reported(name, extra, monkeypatch):
    monkeypatch.setattr(aot.xla_flags, 'installed', lambda *packages: {})
    with pytest.raises(ValueError, match=rf"pip install 'jepa-text\[{extra}\]'"):
        aot.compile_phases({}, name)


def test_the_output_of_a_lost_compile_is_in_the_error(monkeypatch, tmp_path):
    """The folder of its log is gone by then."""
    python = tmp_path / 'python'
    python.write_text('#!/bin/sh\necho out of memory >&2\nexit 9\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, 'executable', str(python))
    monkeypatch.setattr(aot, 'missing', lambda kind: '')
    with pytest.raises(ValueError, match='exit code 9; the last.*:\nout of memory$'):
        aot.compile_phases({}, 'h200:8')


@pytest.mark.parametrize('name', targets.TARGETS)
def test_targets_are_described(name):
    """XLA's description has the name by which jax knows the device."""
    assert hardware.name_of(targets.TARGETS[name].name) == name
    # Brackets are balanced, and keys are unique in each message.
    text = targets.text(name)
    assert text.count('{') == text.count('}') == 4
    keys = re.findall(r'^  (\w+)', text, re.MULTILINE)
    assert len(keys) == len(set(keys)) > 30


def small():
    """A config whose step compiles in seconds."""
    config = config_file.read('pretrain:mlm,size=210m')
    model = dict(name='transformer', preset='tiny', heads=2, kv_heads=2, width=128)
    config['model'] = model | dict(dtype='bfloat16', remat='names', depth=3)
    config['data'] |= dict(batch_size=8, row_length=256)
    config.pop('plan')
    return config


@pytest.mark.slow
@pytest.mark.skipif(bool(aot.missing('gpu')), reason=aot.missing('gpu'))
@pytest.mark.parametrize('name', ['h200:1', 'h200:8'])
def test_step_is_compiled_for_absent_gpus(name):
    config = small() | {'mesh': dict(data=1, fsdp=-1, tensor=1)}
    config['model'] |= {'attention': 'pallas'}
    (made,) = aot.compile_phases(config, name, vocab_size=1024)
    assert made.peak > 1e6
    assert made.notes[0].startswith('attention pallas (pallas): gpu, bfloat16')
    assert made.traffic.bytes > 1e6
    assert bool(made.traffic.collectives) == (name == 'h200:8')


@pytest.mark.slow
@pytest.mark.skipif(bool(aot.missing('tpu')), reason=aot.missing('tpu'))
def test_step_is_compiled_for_absent_tpus():
    (made,) = aot.compile_phases(small(), 'v5e:8', vocab_size=1024)
    assert made.peak > 1e6
    assert made.notes[0].startswith('attention splash (auto): tpu')
    # libtpu's text has no trip counts.
    assert made.traffic is None and 'no roofline' in made.notes[-1]
