"""The start of a run: what it says, and programs that it compiles."""

import collections

import jax
import pytest
import tiny

from jepa_text.parallel import hardware
from jepa_text.running import metrics, self_test


@pytest.fixture
def compiled():
    """A growing Counter of the names of programs that are compiled or loaded."""
    names = collections.Counter()

    def count(event, seconds, fun_name=None, **_):
        if event == '/jax/core/compile/backend_compile_duration':
            names[fun_name] += 1

    self_test.check()
    jax.clear_caches()
    jax.monitoring.register_event_duration_secs_listener(count)
    yield names
    jax.monitoring.unregister_event_duration_listener(count)


@pytest.mark.slow
def test_each_program_is_compiled_once(tmp_path, compiled, monkeypatch):
    """FLOPs are counted only if the peak of the device is known."""
    monkeypatch.setattr(hardware, 'peak', lambda kind: 1e9)
    phases = tiny.phases('mlm')
    config = tiny.config(tmp_path, steps=2, phases=phases, mesh=dict(data=-1))
    state = tiny.train(config, tmp_path / 'run')
    whole = {name: count for name, count in compiled.items() if count}
    # Op by op: the table of learning rates, and the check of the final state.
    small = ('jit(stage)', 'jit(broadcast_in_dim)', 'jit(slice)', 'jit(<lambda>)')
    whole = {name: count for name, count in whole.items() if name not in small}
    once = dict.fromkeys(('jit(_threefry_seed)', 'jit(created)', 'jit(step)'), 1)
    # The checksum of an array once for each shape: all are whole on each device.
    shapes = {(x.shape, x.dtype) for x in jax.tree.leaves(state)}
    assert whole == once | {'jit(_sums)': 2, 'jit(_of_array)': len(shapes)}
    assert any('throughput/mfu' in line for line in metrics.read(tmp_path / 'run'))
    compiled.clear()
    tiny.train(config, tmp_path / 'run')
    assert not compiled['jit(step)'] and not compiled['jit(created)']  # it is complete
    # A run of another seed has the same programs.
    compiled.clear()
    tiny.train(config | {'seed': 1}, tmp_path / 'other')
    assert not {'jit(created)', 'jit(step)', 'jit(_sums)', 'jit(_of_array)'} & set(
        +compiled
    )
