"""The checks of an accelerator, on a CPU: what passes, what is said, how it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from jepa_text.models.attention import attend, blockwise
from jepa_text.planning import accelerator
from jepa_text.running import arithmetic

ROOT = Path(__file__).parents[2]
ONE = [dict(dtype='float32', head_width=16, causal=True, window=None)]
TRAINED = dict(
    preset='toy',
    rows=16,
    length=64,
    steps=10,
    losses=[9.0, 8.0],
    learns=True,
    tokens_per_second=100.0,
    mfu=None,
)


@pytest.fixture
def quick(monkeypatch):
    """One question to each backend, and no training."""
    monkeypatch.setattr(accelerator, 'questions', lambda: ONE)
    monkeypatch.setattr(accelerator, 'trained', lambda *given: TRAINED)
    monkeypatch.setattr(accelerator.allocator, 'keep_freed_memory', lambda: None)


def ask(folder):
    path = folder / 'new' / 'found.json'
    code = accelerator.main([f'--to={path}', '--seconds=1'])
    return code, json.loads(path.read_text())


def test_what_is_right_passes_and_what_cannot_run_says_why(quick, tmp_path, capsys):
    code, found = ask(tmp_path)
    assert code == 0 and found['failed'] == []
    results = {one['backend']: one['result'] for one in found['attention']}
    assert set(results) == set(attend.BACKENDS)
    assert results.pop('xla') == results.pop('blockwise') == 'right'
    assert all(result.startswith('cannot: it runs on') for result in results.values())
    assert found['versions']['jax'] == jax.__version__ and found['platform'] == 'cpu'
    said = capsys.readouterr().out
    assert 'xla: 1 of 1 right' in said and 'cannot: it runs on NVIDIA GPUs' in said
    assert 'MFU unknown' in said and 'FAILED' not in said


def test_a_wrong_kernel_fails(quick, tmp_path, monkeypatch, capsys):
    sound = blockwise.attend
    monkeypatch.setattr(blockwise, 'attend', lambda *x, **o: 1.1 * sound(*x, **o))
    code, found = ask(tmp_path)
    assert code == 1
    (failed,) = found['failed']
    assert failed.startswith('attention: blockwise') and 'was off by' in failed
    assert failed in capsys.readouterr().out


def test_what_breaks_and_what_does_not_learn_fail(quick, tmp_path, monkeypatch):
    def breaks():
        raise RuntimeError('no such device')

    monkeypatch.setattr(accelerator, 'sums', breaks)
    flat = TRAINED | {'losses': [8.0, 9.0], 'learns': False}
    monkeypatch.setattr(accelerator, 'trained', lambda *given: flat)
    code, found = ask(tmp_path)
    assert code == 1
    assert found['failed'] == [
        'arithmetic: RuntimeError: no such device',
        'training: the loss did not fall from 8.0 to 9.0',
    ]


def test_wrong_sums_fail(quick, tmp_path, monkeypatch):
    wrong = {'a sum': (0.5, 1e-4), 'another': (float('nan'), 1e-4), 'right': (0.0, 1e-4)}
    monkeypatch.setattr(arithmetic, 'deviations', lambda devices: wrong)
    code, found = ask(tmp_path)
    assert code == 1
    assert [text.split(' is off')[0] for text in found['failed']] == [
        'arithmetic: a sum',
        'arithmetic: another',
    ]


def test_large_presets_are_trained_as_the_papers_trained_them(tmp_path):
    toy, large = (accelerator.configured(name, tmp_path) for name in ('toy', '210m'))
    assert large['model']['vocab_rows'] == 128_256 and 'vocab_rows' not in toy['model']
    assert (large['model']['dtype'], large['schedule']['peak']) == ('bfloat16', 5e-4)
    # They end when their seconds are over, never by themselves.
    assert toy['steps'] == large['steps'] == 1_000_000


def test_no_time_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        accelerator.main(['--seconds=0'])
    assert ended.value.code == 2
    assert '--seconds=0.0 is not a time above 0' in capsys.readouterr().err


@pytest.mark.slow
def test_the_script_on_a_cpu(tmp_path):
    path = tmp_path / 'found.json'
    done = subprocess.run(
        ['bash', 'launch/accelerator.sh', '--seconds=5', f'--to={path}'],
        cwd=ROOT,
        env=os.environ | {'PYTHON_RUN': sys.executable, 'XLA_FLAGS': ''},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())
    assert found['training']['tokens_per_second'] > 0
    assert found['training']['preset'] == 'toy' and found['training']['learns']
    assert [p.name for p in tmp_path.iterdir()] == ['found.json']
    assert 'tokens/s' in done.stdout
