"""A branch starts from a verified checkpoint of another run and is independent of it."""

import os
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from jepa_text.files import checksums
from jepa_text.running import branch, checkpoint, metrics, restore, retention


class Killed(BaseException):
    pass


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """A run with checkpoints at steps 2 and 4, and metrics."""
    folder = tmp_path_factory.mktemp('source')
    import flax.struct

    @flax.struct.dataclass
    class State:
        step: object
        params: dict

    with checkpoint.Checkpointer(folder / 'checkpoints', keep=5) as store:
        for step in (2, 4):
            params = {'kernel': jnp.full((64, 64), step, jnp.float32)}
            store.save(State(jnp.int32(step), params), {'phase': 0, 'steps': 9})
    with metrics.Writer(folder, tensorboard=False) as writer:
        for step in range(5):
            writer.write(step, {'train/loss': 1 / (step + 1)})
    return folder


@pytest.fixture
def source(made, tmp_path):
    return shutil.copytree(made, tmp_path / 'source')


def begin(source, folder, step=2):
    branch.begin(folder, source, step, lambda meta: meta | {'steps': 7})
    return folder / 'checkpoints' / str(step)


def test_a_branch_has_the_state_the_metrics_and_a_meta_of_its_own(source, tmp_path):
    path = begin(source, tmp_path / 'new')
    assert checksums.verify(path) is None
    assert restore.newest_good(path.parent) == (2, {'phase': 0, 'steps': 7})
    assert restore.meta(source / 'checkpoints', 2)['steps'] == 9
    assert [line['step'] for line in metrics.read(tmp_path / 'new')] == [0, 1, 2]
    arrays = [p for p in path.rglob('*') if p.is_file() and p.stat().st_nlink > 1]
    assert sum(p.stat().st_size for p in arrays) > 1000
    # Removing files of one does not affect the other.
    shutil.rmtree(source)
    assert checksums.verify(path) is None
    assert retention.prepare(path.parent) == 2


def test_files_are_copied_without_hard_links(source, tmp_path, monkeypatch):
    def refuses(*_):
        raise PermissionError(1, 'not permitted')

    monkeypatch.setattr(branch.os, 'link', refuses)
    path = begin(source, tmp_path / 'new')
    assert checksums.verify(path) is None
    assert all(p.stat().st_nlink == 1 for p in path.rglob('*') if p.is_file())


def test_a_run_with_a_checkpoint_is_unchanged(source, tmp_path):
    begin(source, tmp_path / 'new')
    begin(source, tmp_path / 'new', 4)
    assert restore.steps(tmp_path / 'new' / 'checkpoints') == [2]


def test_a_damaged_checkpoint_raises(source, tmp_path):
    files = [path for path in (source / 'checkpoints' / '2').rglob('*') if path.is_file()]
    largest = max(files, key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[-1] ^= 1
    largest.write_bytes(data)
    with pytest.raises(ValueError, match='2 cannot be trusted'):
        begin(source, tmp_path / 'new')
    with pytest.raises(ValueError, match='cannot be trusted'):
        begin(source, tmp_path / 'new', 3)
    assert not (tmp_path / 'new').exists()


@pytest.mark.parametrize('where', ['link', 'write', 'copy', 'rename'])
def test_a_killed_branch_can_be_repeated(source, tmp_path, monkeypatch, where):
    def killed(*_, **__):
        raise Killed

    homes = dict(link=os, write=checksums, copy=metrics, rename=os)
    with monkeypatch.context() as patch:
        patch.setattr(homes[where], where, killed)
        with pytest.raises(Killed):
            begin(source, tmp_path / 'new')
    steps = Path(tmp_path, 'new', 'checkpoints')
    assert restore.steps(steps) == []
    path = begin(source, tmp_path / 'new')
    assert checksums.verify(path) is None and os.listdir(steps) == ['2']
    assert np.isclose(metrics.read(tmp_path / 'new')[-1]['train/loss'], 1 / 3)
