"""Restoring raises on any mismatch with the requested state, naming the leaf."""

import logging

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from jepa_text.files import checksums
from jepa_text.parallel import exits
from jepa_text.running import checkpoint, restore


@flax.struct.dataclass
class State:
    step: jax.Array
    params: dict


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('run')
    with checkpoint.Checkpointer(folder) as store:
        store.save(_state(), {'phase': 1}, wait=True)
    return folder


def _state():
    rng = np.random.default_rng(0)
    kernel = jnp.asarray(rng.standard_normal((8, 4)), jnp.float32)
    params = {'encoder': {'kernel': kernel}, 'head': {'bias': jnp.ones(3, jnp.bfloat16)}}
    return State(jnp.int32(5), params)


def _wanted(**params):
    shapes = {
        'encoder': {'kernel': jax.ShapeDtypeStruct((8, 4), jnp.float32)},
        'head': {'bias': jax.ShapeDtypeStruct((3,), jnp.bfloat16)},
    }
    return State(jax.ShapeDtypeStruct((), jnp.int32), {**shapes, **params})


def _shape(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def test_leaves_without_sharding_go_to_the_first_device(folder):
    state = restore.read_state(folder / '5', _wanted())
    kernel = state.params['encoder']['kernel']
    assert kernel.devices() == {jax.local_devices()[0]}
    assert np.array_equal(kernel, _state().params['encoder']['kernel'])


def test_meta_leaves_and_steps(folder):
    assert restore.steps(folder) == [5]
    assert restore.steps(folder / 'nowhere') == []
    assert restore.newest_good(folder) == (5, {'phase': 1})
    assert restore.newest_good(folder / 'nowhere') is None
    assert restore.meta(folder, 5) == {'phase': 1}
    assert restore.read_json(folder / '5', 'leaves') == {
        'step': 'int32[]',
        'params/encoder/kernel': 'float32[8,4]',
        'params/head/bias': 'bfloat16[3]',
    }


@pytest.mark.parametrize(
    'params, words',
    [
        (
            {'encoder': {'kernel': _shape(8, 4, dtype=jnp.bfloat16)}},
            r'kernel is float32\[8,4\] in the checkpoint, bfloat16\[8,4\] is expected',
        ),
        ({'encoder': {'kernel': _shape(8, 5)}}, r'float32\[8,5\] is expected'),
        ({'encoder': None}, r'kernel is float32\[8,4\] in the checkpoint, not expected'),
        ({'new': _shape(2)}, r'params/new is not in the checkpoint, float32\[2\]'),
    ],
)
def test_other_dtype_shape_or_tree_raises_with_paths(folder, params, words):
    with pytest.raises(ValueError, match=words) as caught:
        restore.read_state(folder / '5', _wanted(**params))
    assert str(folder / '5') in str(caught.value)
    assert 'Use the config' in str(caught.value)


def test_at_most_ten_leaves_are_listed(folder):
    many = {f'new{i:02d}': _shape(1) for i in range(15)}
    with pytest.raises(ValueError, match='and 5 more') as caught:
        restore.read_state(folder / '5', _wanted(**many))
    assert str(caught.value).count('is not in the checkpoint') == 10


def test_part_restores_a_subtree_without_placeholders(folder):
    wanted = {'params': {'encoder': {'kernel': _shape(8, 4)}}}
    found = restore.part(folder, 5, wanted)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    kernel = _state().params['encoder']['kernel']
    assert np.array_equal(found['params']['encoder']['kernel'], kernel)
    with pytest.raises(ValueError, match='params/lost is not in the checkpoint'):
        restore.part(folder, 5, {'params': {'lost': _shape(1)}})
    with pytest.raises(ValueError, match=r'float32\[4,8\] is expected'):
        restore.part(folder, 5, {'params': {'encoder': {'kernel': _shape(4, 8)}}})


@pytest.mark.parametrize(
    'read',
    [
        lambda folder: restore.read_state(folder / '6', _wanted()),
        lambda folder: restore.part(folder, 6, {}),
        lambda folder: restore.meta(folder, 6),
    ],
)
def test_missing_step_raises_and_lists_existing_steps(folder, read):
    with pytest.raises(
        FileNotFoundError, match='no checkpoint of step 6 .* There are: 5'
    ):
        read(folder)


def test_damaged_step_is_not_restored(folder, tmp_path):
    with checkpoint.Checkpointer(tmp_path) as store:
        store.save(_state(), {}, wait=True)
    (tmp_path / '5' / checksums.NAME).unlink()
    with pytest.raises(ValueError, match='cannot be trusted: it has no CHECKSUMS.json'):
        restore.part(tmp_path, 5, {})


def test_step_removed_while_reading_is_a_problem(folder, monkeypatch):
    def removed(path):
        raise FileNotFoundError(2, 'No such file or directory')

    monkeypatch.setattr(checksums, 'stamp', removed)
    assert 'it cannot be read' in restore.problem(folder / '5')


def test_unchanged_step_is_hashed_once(folder, monkeypatch):
    restore.problem(folder / '5')
    monkeypatch.setattr(checksums, 'verify', None)
    assert restore.problem(folder / '5') is None


def test_arrays_that_orbax_leaves_out_are_an_error(folder, monkeypatch):
    def holes(self, path, args):
        if 'state' not in args.keys():  # noqa: SIM118, a Composite is no dict
            return whole(self, path, args=args)
        return ocp.args.Composite(state=args.state.item)

    whole = ocp.Checkpointer.restore
    monkeypatch.setattr(ocp.Checkpointer, 'restore', holes)
    with pytest.raises(RuntimeError, match='not read back .*3 arrays are missing'):
        restore.read_state(folder / '5', _wanted())


def test_quiet_hides_orbax_messages_but_no_errors(caplog):
    absl = logging.getLogger('absl')

    def records(level, path='x/orbax/checkpoint/y.py', function='save', trace=None):
        caplog.clear()
        record = absl.makeRecord('absl', level, path, 1, 'words', (), trace, function)
        with restore.quiet():
            absl.handle(record)
        return [r for r in caplog.records if r.name == 'absl']

    trace = (ValueError, ValueError(), None)
    assert not records(logging.WARNING)
    assert not records(logging.ERROR, function='_thread_func', trace=trace)
    assert records(logging.ERROR)
    assert records(logging.ERROR, trace=trace)
    assert records(logging.WARNING, path='x/elsewhere.py')
    assert not absl.filters


@pytest.mark.parametrize(
    'error',
    [
        ValueError('NOT_FOUND: Error opening "zarr" driver'),
        ValueError('DATA_LOSS: Error reading local file'),
        OSError(5, 'Input/output error'),
    ],
)
def test_a_disk_failure_while_reading_arrays_suggests_a_retry(folder, monkeypatch, error):
    def broken(self, path, args):
        raise error

    monkeypatch.setattr(ocp.Checkpointer, 'restore', broken)
    with (
        pytest.raises(RuntimeError, match='could not be read') as caught,
        exits.config_errors(),
    ):
        restore.read_state(folder / '5', _wanted())
    assert str(folder / '5') in str(caught.value)
    assert exits.code_of(caught.value) == exits.FAILED
