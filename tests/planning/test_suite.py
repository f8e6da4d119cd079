"""The compile suite, with a fake compiler: checks, resuming, and the table."""

import dataclasses
import json

import pytest

from jepa_text.parallel import exits
from jepa_text.planning import aot, cells, checks, compiled, fit, suite
from jepa_text.training import config as settings

CELL = ('mlm', '210m', 'cudnn', 'fsdp 8')
SMALL = dict(name='transformer', preset='tiny', remat='names', dtype='bfloat16')


def config(*cell):
    """The config of a cell with a small model."""
    made, hardware = MAKE(*cell)
    made['model'] = SMALL | dict(attention=cell[2])
    return made, hardware


MAKE = cells.config


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(cells, 'config', config)
    monkeypatch.setattr(cells, 'VOCABULARY', 512)
    monkeypatch.setattr(aot, 'missing', lambda kind: '')


@pytest.fixture
def sized(small):
    made, hardware = cells.config(*CELL)
    return fit.size(settings.plain(made), hardware, cells.VOCABULARY)


def kernel(kind='pass', **about):
    given = dict(kind=kind, name='x', op='fusion', times=1, shape='', dtype='bf16')
    return compiled.Kernel(**given | about)


def program(*kernels, peak=1000):
    return aot.Compiled(peak=peak, kernels=kernels, notes=(), seconds=1.0)


def test_failed_checks_are_reported(sized):
    (phase,) = sized.made.phases
    depth = phase.network.encoder.depth

    def found(*kernels, peak=1000):
        made = program(*kernels, peak=peak)
        return checks.failures(made, 1000, sized.made, phase)

    must = checks.required_bytes_sent(sized.made, phase)
    once = kernel('attention', forward=1, times=depth)
    sends = kernel('collective', sent=must)
    product = kernel('product', dtype='f32', flops=2e9, name='ffn/up')
    copy = kernel('copy', bytes=2**30, shape='f32[4096,512]')
    assert found(once, sends, peak=1090) == {}
    assert found(once, sends, peak=1110) == {'memory': '+11% of the plan'}
    assert found(sends, sends) == {'sent': '2.00 x the formula'}
    assert found(product) == {'float32': 'ffn/up'}
    assert found(dataclasses.replace(product, name='rotary/dot_general')) == {}
    assert found(copy) == {'copies': 'f32[4096,512]'}
    assert found(dataclasses.replace(copy, shape='f32[4096,500]')) == {}
    assert found(once, once) == {
        'attention': f'{2 * depth} forward passes, expected {depth}'
    }


def test_required_bytes_depend_on_the_mesh(small):
    def must(layout):
        made, hardware = cells.config('mlm', '210m', 'xla', layout)
        one = fit.size(settings.plain(made), hardware, cells.VOCABULARY).made
        (phase,) = one.phases
        return checks.required_bytes_sent(one, phase), phase

    assert must('1')[0] == 0
    sent, phase = must('fsdp 8')
    layers, _, head = checks._parameters(_made(cells.config(*CELL)), phase)
    width = phase.network.encoder.width
    # Two passes and the head in two bytes, gradients in four; embedded rows both ways.
    parameters = 2 * (2 * layers + head) + 4 * (layers + head)
    rows = 4 * phase.length * width * 2
    assert sent == pytest.approx((parameters + 4 * rows) * 7 / 8)
    assert must('fsdp 4 x tensor 2')[0] > sent


def _made(cell):
    made, hardware = cell
    return fit.size(settings.plain(made), hardware, cells.VOCABULARY).made


@pytest.mark.slow
def test_cells_are_compiled_once_and_errors_are_reported(small, tmp_path, monkeypatch):
    calls = []

    def compile_phases(config, name, vocab_size, text_to):
        calls.append(config['model']['attention'])
        if config['model']['attention'] == 'pallas':
            raise ValueError('no such kernel')
        return [program(kernel('product', flops=1e9))]

    monkeypatch.setattr(aot, 'compile_phases', compile_phases)
    given = [f'--workdir={tmp_path}', '--cells=2']
    assert suite.main(given) == exits.FAILED
    assert calls == ['cudnn', 'pallas']
    # Nothing is compiled again, including cells with errors.
    assert suite.main(given) == exits.FAILED and len(calls) == 2
    lines = (tmp_path / 'cells.jsonl').read_text().splitlines()
    assert [json.loads(line)['name'] for line in lines] == [
        'mlm 210m cudnn 1',
        'mlm 610m pallas fsdp 8',
    ]
    table = (tmp_path / 'table.md').read_text().splitlines()
    assert len({line.count('|') for line in table}) == 1 and len(table) == 4
    assert 'memory: -' in table[2] and 'does not compile: no such kernel' in table[3]


def test_cell_without_its_package_is_skipped(small, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(suite.importlib.util, 'find_spec', lambda package: None)
    given = [f'--workdir={tmp_path}', '--only=mntp 210m tokamax']
    assert suite.main(given) == exits.DONE
    assert 'skipped: tokamax is not installed: pip install' in capsys.readouterr().out
    assert not suite.read(tmp_path)


def test_number_of_cells_must_be_positive(tmp_path, capsys):
    with pytest.raises(SystemExit):
        suite.main([f'--workdir={tmp_path}', '--cells=-1'])
    assert '--cells=-1 must be at least 1' in capsys.readouterr().err


def test_cells_are_skipped_without_a_compiler(small, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(aot, 'missing', lambda kind: 'no plugin: pip install it')
    assert suite.main([f'--workdir={tmp_path}', '--cells=3']) == exits.DONE
    out = capsys.readouterr().out
    assert out.count('skipped: no plugin: pip install it') == 3
    assert (tmp_path / 'table.md').exists()
