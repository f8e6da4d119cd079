"""Restoring raises on any mismatch with the requested state, naming the leaf."""

import json
import re
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from test_checkpoint import State, _raise, _shape

from jepa_text.files import checksums
from jepa_text.parallel import exits
from jepa_text.running import checkpoint, restore


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
    return State(jnp.int32(5), params, None, ())


def _read(folder, **params):
    device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    encoder, bias = {'kernel': _shape(8, 4)}, _shape(3, dtype=jnp.bfloat16)
    shapes = {'encoder': encoder, 'head': {'bias': bias}} | params
    placed = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device),
        State(_shape(dtype=jnp.int32), shapes, None, ()),
    )
    return checkpoint.read(folder, 5, lambda *_: placed)[0]


def _verify(folder):
    return restore.verified_meta(folder, 5)


def _read_nothing(folder):
    return restore.part(folder, 5, {})


def test_a_step_that_the_run_removes_meanwhile_is_no_fault(tmp_path):
    (tmp_path / '100').mkdir()

    def read(folder, step):
        if step == 100:
            (folder / '100').rmdir()
            (folder / '200').mkdir()
            raise FileNotFoundError('There is no checkpoint of step 100')
        return 'good'

    assert restore.newest(tmp_path, read) == (200, 'good')


def test_meta_leaves_and_steps(folder):
    assert restore.steps(folder) == [5]
    assert restore.steps(folder / 'nowhere') == []
    assert restore.newest_good(folder) == (5, {'phase': 1})
    assert restore.newest_good(folder / 'nowhere') is None
    assert restore.meta(folder, 5) == {'phase': 1}
    assert restore.record(restore.folder_of(folder, 5)).kinds == {
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
        _read(folder, **params)
    assert str(folder / '5') in str(caught.value)
    assert 'Use the config' in str(caught.value)


def test_part_restores_a_subtree_without_placeholders(folder):
    wanted = {'params': {'encoder': {'kernel': _shape(8, 4)}}}
    found = restore.part(folder, 5, wanted)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    kernel = _state().params['encoder']['kernel']
    assert np.array_equal(found['params']['encoder']['kernel'], kernel)
    for params, words in (
        ({'lost': _shape(1)}, 'params/lost is not in the checkpoint'),
        ({'encoder': {'kernel': _shape(4, 8)}}, r'float32\[4,8\] is expected'),
    ):
        with pytest.raises(ValueError, match=words):
            restore.part(folder, 5, {'params': params})


@pytest.mark.parametrize('read', [restore.meta, restore.verified_meta, restore.identity])
def test_missing_step_raises_and_lists_existing_steps(folder, read):
    words = 'no checkpoint of step 6 .* There are: 5'
    with pytest.raises(FileNotFoundError, match=words):
        read(folder, 6)
    with pytest.raises(FileNotFoundError, match=words):
        restore.part(folder, 6, {})


@pytest.fixture
def copy(folder, tmp_path):
    return Path(shutil.copytree(folder, tmp_path / 'copy'))


@pytest.mark.parametrize(
    'change, words',
    [
        (lambda saved: saved['meta'].update(phase=2), 'content of meta has changed'),
        (lambda saved: saved.pop('leaves'), "KeyError: 'leaves'"),
        (lambda saved: saved['leaves'].clear(), 'content of meta has changed'),
    ],
)
def test_damaged_meta_is_not_used(copy, change, words):
    path = copy / '5' / 'meta' / 'metadata'
    saved = json.loads(path.read_text())
    change(saved)
    path.write_text(json.dumps(saved))
    for read in (_verify, _read, _read_nothing):
        with pytest.raises(restore.DamagedError, match=f'cannot be trusted: .*{words}'):
            read(copy)


@pytest.mark.parametrize('item', ['meta', 'state'])
def test_a_step_without_an_item_is_damaged(copy, item):
    shutil.rmtree(copy / '5' / item)
    assert restore.newest_good(copy) is None
    for read in (_verify, _read):
        with pytest.raises(restore.DamagedError):
            read(copy)


def test_a_step_is_read_once_until_it_changes(copy, monkeypatch):
    assert _verify(copy) == {'phase': 1}
    with monkeypatch.context() as patched:
        patched.setattr(restore, 'record', None)
        assert _verify(copy) == {'phase': 1}
    (copy / '5' / 'meta' / 'metadata').write_text('{}')
    with pytest.raises(restore.DamagedError):
        _verify(copy)


def test_a_part_is_checked_by_its_own_checksums(copy):
    """Damage elsewhere does not matter to what is read."""
    saved = json.loads((copy / '5' / 'meta' / 'metadata').read_text())
    saved['leaves']['params/head/bias']['sums'] = [1, 2]
    del saved['sha256']
    saved['sha256'] = checksums.checksum(saved)
    (copy / '5' / 'meta' / 'metadata').write_text(json.dumps(saved))
    assert restore.part(copy, 5, {'params': {'encoder': {'kernel': _shape(8, 4)}}})
    bias = {'params': {'head': {'bias': _shape(3, dtype=jnp.bfloat16)}}}
    words = 'values of params/head/bias have changed'
    for read in (_verify, _read, lambda folder: restore.part(folder, 5, bias)):
        with pytest.raises(restore.DamagedError, match=words):
            read(copy)


def test_arrays_that_orbax_leaves_out_are_damage(folder, monkeypatch):
    def holes(self, path, args):
        return args.item

    monkeypatch.setattr(ocp.PyTreeCheckpointHandler, 'restore', holes)
    with pytest.raises(restore.DamagedError, match='3 arrays are not read as saved'):
        _read(folder)


@pytest.mark.parametrize(
    'error',
    [
        ValueError("UNKNOWN: Error reading [os_error_code='5']"),
        ValueError('UNAVAILABLE: Failed to connect'),
        OSError(5, 'Input/output error'),
        PermissionError(13, 'Permission denied'),
    ],
)
def test_failures_of_the_machine_are_not_damage(folder, monkeypatch, error):
    monkeypatch.setattr(ocp.PyTreeCheckpointHandler, 'restore', _raise(error))
    with pytest.raises(OSError, match='cannot be read') as caught, exits.config_errors():
        _read(folder)
    assert str(folder / '5') in str(caught.value)
    assert exits.code_of(caught.value) == exits.FAILED
    monkeypatch.undo()
    assert restore.newest_good(folder) == (5, {'phase': 1})


def test_damage_reported_by_tensorstore_is_damage(folder, monkeypatch):
    for text in ('DATA_LOSS: x', "NOT_FOUND: x [os_error_code='2']", 'odd'):
        broken = _raise(ValueError(text))
        monkeypatch.setattr(ocp.PyTreeCheckpointHandler, 'restore', broken)
        with pytest.raises(restore.DamagedError, match=re.escape(text)):
            _read(folder)
