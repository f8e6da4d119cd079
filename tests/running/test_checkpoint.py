"""Checkpoints are restored exactly or not at all, after any failure."""

import contextlib
import errno
import functools
import logging
import shutil
import threading
import time
from types import SimpleNamespace
from typing import Any

import children
import disks
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from jepa_text.parallel import exits
from jepa_text.running import checkpoint, restore


@flax.struct.dataclass
class State:
    step: jax.Array
    params: dict
    target: Any
    opt_state: Any


@functools.cache  # of arrays that nothing changes
def _state(step, width=8, target=False):
    rng = np.random.default_rng(step)
    params = {
        'encoder': {
            'kernel': jnp.asarray(rng.standard_normal((width, 4)), jnp.float32),
            'half': jnp.asarray(rng.standard_normal((width, 3)), jnp.bfloat16),
        },
        'ids': jnp.asarray(rng.integers(0, 99, (5,)), jnp.int32),
        'nothing': {},
    }
    opt_state = _after_a_step(params['encoder'])
    kept = params['encoder'] if target else None
    return State(jnp.int32(step), params, kept, opt_state)


@jax.jit
def _after_a_step(params):
    chain = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    gradients = jax.tree.map(jnp.ones_like, params)
    return chain.update(gradients, chain.init(params), params)[1]


def _abstract(state):
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
    )


def _assert_same(left, right):
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert a.dtype == b.dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def _save(folder, *steps, **options):
    with checkpoint.Checkpointer(folder, **options) as store:
        for step in steps:
            assert store.save(_state(step), {'cursor': step * 10}) is True


def _restored(store):
    """(state, meta) of the newest good step."""
    return store.restore(lambda step, _: _abstract(_state(step)))


def _steps(folder):
    return sorted(p.name for p in folder.iterdir())


def _largest(folder, item='state'):
    return max(
        (p for p in (folder / item).rglob('*') if p.is_file()),
        key=lambda p: p.stat().st_size,
    )


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize('target', [False, True])
def test_state_and_meta_are_restored_exactly(tmp_path, target):
    state = _state(7, target=target)
    meta = {'cursor': 3, 'history': [{'start': 0, 'name': 'clm'}], 'betas': (0.9, 0.95)}
    with checkpoint.Checkpointer(tmp_path / 'run') as store:
        assert _restored(store) is None
        assert store.last_step is None
        assert store.save(state, meta, wait=True) is True
        assert store.last_step == 7
    with checkpoint.Checkpointer(tmp_path / 'run') as store:
        assert store.last_step == 7
        restored, known = store.restore(lambda *_: _abstract(state))
    assert known == meta | {'betas': [0.9, 0.95]}
    _assert_same(restored, state)
    assert type(restored.opt_state[1][0]) is type(state.opt_state[1][0])


def test_resharding_is_exact(tmp_path):
    mesh = jax.make_mesh((4,), ('data',), axis_types=(AxisType.Auto,))

    def spread(x):
        rows = x.ndim == 2 and x.shape[0] % 4 == 0
        spec = P('data') if rows else P()
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, spec))

    state = _state(1)
    with checkpoint.Checkpointer(tmp_path) as store:
        store.save(state, {})
        on_four, _ = store.restore(lambda *_: jax.tree.map(spread, state))
        assert len(on_four.params['encoder']['kernel'].sharding.device_set) == 4
        assert on_four.params['encoder']['kernel'].sharding.spec == P('data')
        _assert_same(on_four, state)
        store.save(on_four.replace(step=on_four.step + 1), {})
        on_one, _ = store.restore(lambda *_: _abstract(state))
        assert len(on_one.params['encoder']['kernel'].sharding.device_set) == 1
        _assert_same(on_one, state.replace(step=jnp.int32(2)))


def test_donating_the_state_after_save_does_not_change_what_is_saved(tmp_path):
    double = jax.jit(lambda s: jax.tree.map(lambda x: x + x, s), donate_argnums=0)
    kernel = np.random.default_rng(0).standard_normal((1000, 1000), np.float32)
    # A result of jit: XLA owns its memory and may reuse it, unlike that of numpy.
    params = jax.jit(lambda x: {'kernel': x + 0})(kernel)
    state = State(jnp.int32(1), params, None, ())
    with checkpoint.Checkpointer(tmp_path) as store:
        store.save(state, {})
        jax.block_until_ready(double(state.params))
    params = restore.part(tmp_path, 1, {'params': {'kernel': _shape(1000, 1000)}})[
        'params'
    ]
    assert np.array_equal(params['kernel'], kernel)


def _shape(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def test_step_can_be_read_by_plain_orbax(tmp_path):
    _save(tmp_path, 3)
    state = _state(3)
    wanted = ocp.args.Composite(state=ocp.args.StandardRestore(_abstract(state)))
    with ocp.CheckpointManager(tmp_path) as manager:
        assert manager.all_steps() == [3]
        _assert_same(manager.restore(3, args=wanted).state, state)


def test_saved_steps_must_increase_after_reopening(tmp_path):
    with checkpoint.Checkpointer(tmp_path) as store:
        store.save(_state(5), {})
        with pytest.raises(
            ValueError, match='Step 5 cannot be saved.*steps must increase'
        ):
            store.save(_state(5), {})
    with checkpoint.Checkpointer(tmp_path) as store:
        with pytest.raises(ValueError, match='step 5 exists already'):
            store.save(_state(4), {})
        assert store.save(_state(6), {}) is True


def test_leaves_that_are_not_arrays_raise(tmp_path):
    with checkpoint.Checkpointer(tmp_path) as store:
        with pytest.raises(ValueError, match='leaf target of the state is 0.5, a float'):
            store.save(_state(1).replace(target=0.5), {})
        assert store.save(_state(1), {}) is True


@pytest.mark.parametrize('item', ['state', 'meta'])
def test_damaged_newest_step_is_moved_aside(tmp_path, caplog, item):
    _save(tmp_path, 1, 2, 3)
    _flip(_largest(tmp_path / '3', item))
    assert restore.newest_good(tmp_path) == (2, {'cursor': 20})
    assert _steps(tmp_path) == ['1', '2', '3'], 'reading moves nothing'
    caplog.clear()
    with checkpoint.Checkpointer(tmp_path) as store:
        state, meta = _restored(store)
        _assert_same(state, _state(2))
        assert meta == {'cursor': 20} and store.last_step == 2
        skipped = [r for r in caplog.records if 'is skipped' in r.getMessage()]
        assert len(skipped) == 1
        assert str(tmp_path / '3') in skipped[0].getMessage()
        assert _steps(tmp_path) == ['1', '2', 'damaged-3']
        # That step can be saved again, and later ones.
        for step in (3, 4):
            assert store.save(_state(step), {'cursor': step}) is True
        assert _restored(store)[1] == {'cursor': 4}


def test_no_good_step_raises_and_moves_nothing(tmp_path):
    _save(tmp_path, 1, 2)
    for step in ('1', '2'):
        _flip(_largest(tmp_path / step))
    assert restore.newest_good(tmp_path) is None
    with (
        checkpoint.Checkpointer(tmp_path) as store,
        pytest.raises(exits.ConfigError, match='2 saved checkpoints, and none is good'),
    ):
        _restored(store)
    assert _steps(tmp_path) == ['1', '2']


def test_leftovers_are_cleaned_on_opening(tmp_path):
    _save(tmp_path, 1)
    (tmp_path / '5.orbax-checkpoint-tmp' / 'state').mkdir(parents=True)
    for name in ('.DS_Store', '7'):  # foreign files
        (tmp_path / name).write_text('')
    with checkpoint.Checkpointer(tmp_path) as store:
        assert store.last_step == 1
        assert store.save(_state(5), {}) is True
    assert _steps(tmp_path) == ['.DS_Store', '1', '5', '7']


def test_step_completes_in_the_background(tmp_path):
    with checkpoint.Checkpointer(tmp_path) as store:
        store.save(_state(1), {})
        children.until(lambda: restore.newest_good(tmp_path) == (1, {}))


def test_the_newest_steps_and_those_of_keep_at_are_kept(tmp_path):
    _save(tmp_path, *range(1, 9), keep=2, keep_at_steps=(2, 3, 70))
    assert _steps(tmp_path) == ['2', '3', '7', '8']


def _raise(error):
    def fail(*args, **kwargs):
        raise error

    return fail


@pytest.fixture
def broken(monkeypatch):
    """A context in which each save fails at its end, in the background."""

    @contextlib.contextmanager
    def during(error):
        with monkeypatch.context() as patch:
            patch.setattr(ocp.path.atomicity.async_path, 'rename', _raise(error))
            yield

    return during


def test_a_failed_save_keeps_the_old_step_and_raises_on_the_next_call(
    tmp_path, broken, caplog
):
    with checkpoint.Checkpointer(tmp_path, keep=1) as store:
        store.save(_state(1), {}, wait=True)
        with broken(OSError(errno.EIO, 'Input/output error')):
            store.save(_state(2), {})
            with pytest.raises(RuntimeError, match='Step 2 could not be saved') as caught:
                store.wait()
        assert isinstance(caught.value.__cause__, OSError)
        assert not [r for r in caplog.records if r.name == 'absl' and r.levelno > 20]
        assert store.last_step == 1 and restore.newest_good(tmp_path) == (1, {})
        store.wait()
        assert store.save(_state(2), {}, wait=True) is True
    assert _steps(tmp_path) == ['2']


def test_error_inside_the_block_is_not_hidden_by_that_of_the_last_save(
    tmp_path, broken, caplog
):
    with (
        broken(OSError(errno.EIO, 'Input/output error')),
        pytest.raises(ZeroDivisionError),
        checkpoint.Checkpointer(tmp_path) as store,
    ):
        store.save(_state(1), {})
        raise ZeroDivisionError
    assert 'The last save failed as well' in caplog.text


def test_old_step_that_cannot_be_removed_is_a_warning(tmp_path, monkeypatch, caplog):
    deleter = ocp.path.deleter.StandardCheckpointDeleter
    monkeypatch.setattr(deleter, 'delete_steps', _raise(OSError(errno.EBUSY, 'busy')))
    _save(tmp_path, 1, 2, keep=1)
    assert 'could not be removed' in caplog.text
    assert restore.newest_good(tmp_path)[0] == 2


def test_low_disk_space_warns_while_training_and_raises_at_the_end(
    tmp_path, monkeypatch, caplog
):
    with checkpoint.Checkpointer(tmp_path) as store:
        store.save(_state(1), {}, wait=True)
        with monkeypatch.context() as patch:
            free = SimpleNamespace(free=1000)
            patch.setattr(shutil, 'disk_usage', lambda folder: free)
            state = _state(2, width=10_000)
            assert store.save(state, {}) is False
            needed = 1.2 * sum(x.nbytes for x in jax.tree.leaves(state)) / 1e6
            assert f'needs {needed:.1f} MB and the disk has 0.0 MB free' in caplog.text
            assert 'Free some space' in caplog.text
            with pytest.raises(OSError, match='Step 2 cannot be saved') as caught:
                store.save(state, {}, wait=True)
            assert caught.value.errno == errno.ENOSPC
        assert store.last_step == 1
        assert store.save(_state(2), {}, wait=True) is True
    assert _steps(tmp_path) == ['1', '2']


def test_disk_full_while_saving(tmp_path, monkeypatch, caplog):
    """A disk that is full although the check before the save reported free space."""
    monkeypatch.setattr(shutil, 'disk_usage', lambda folder: SimpleNamespace(free=10**12))

    def big(step):
        noise = np.random.default_rng(0).standard_normal((8, 200_000), np.float32)
        return State(jnp.int32(step), {'noise': jnp.asarray(noise)}, None, ())

    with (
        disks.small(tmp_path / 'disk', '4m') as disk,
        checkpoint.Checkpointer(disk) as store,
    ):
        store.save(_state(1), {}, wait=True)
        assert store.save(big(2), {}) is True, 'not known yet'
        store.wait()
        warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
        assert len(warnings) == 1
        assert f'full while step 2 was saved in {disk}' in warnings[0].getMessage()
        assert _steps(disk) == ['1'], 'the space was given back'
        with pytest.raises(OSError, match='The disk was full while step 3') as caught:
            store.save(big(3), {}, wait=True)
        assert 'No space left' in str(caught.value.__cause__)
        assert restore.newest_good(disk) == (1, {})
        assert store.save(_state(4), {}, wait=True) is True
    assert not [r for r in caplog.records if r.name == 'absl' and r.levelno > 20]


def test_an_early_failure_of_a_save_raises_immediately(tmp_path, monkeypatch):
    with checkpoint.Checkpointer(tmp_path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(ocp.CheckpointManager, 'save', _raise(ValueError('odd')))
            with pytest.raises(RuntimeError, match='ValueError: odd'):
                store.save(_state(1), {})
            patch.setattr(ocp.CheckpointManager, 'save', lambda *_, **__: False)
            with pytest.raises(RuntimeError, match='Orbax declined'):
                store.save(_state(1), {})
            quota = OSError(errno.EDQUOT, 'quota')
            patch.setattr(ocp.CheckpointManager, 'save', _raise(quota))
            assert store.save(_state(1), {}) is False
        assert store.save(_state(1), {}) is True


def test_nothing_is_printed_in_normal_use(tmp_path, capfd, caplog):
    absl = logging.getLogger('absl')
    caplog.set_level(logging.INFO, logger='absl')
    filters = list(absl.filters)
    _save(tmp_path, 1, 2)
    with checkpoint.Checkpointer(tmp_path) as store:
        _restored(store)
    restore.newest_good(tmp_path)
    assert absl.filters == filters
    assert not [r for r in caplog.records if r.name == 'absl']
    assert capfd.readouterr() == ('', '')


def test_failed_folder_creation_leaves_no_waiting_thread(tmp_path):
    before = set(threading.enumerate())
    with checkpoint.Checkpointer(tmp_path / 'run') as store:
        store.save(_state(1), {}, wait=True)
        shutil.rmtree(tmp_path / 'run')
        (tmp_path / 'run').write_text('in the way')
        with pytest.raises(RuntimeError, match='Step 2 could not be saved'):
            store.save(_state(2), {}, wait=True)
    left = set(threading.enumerate()) - before
    deadline = time.monotonic() + 60
    for thread in left:
        thread.join(max(0.0, deadline - time.monotonic()))
    assert not [thread.name for thread in left if thread.is_alive()]
