"""The metrics log survives kills and resumes; the clock counts only training."""

import errno
import io
import json
import math
import os
import sys

import children
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from jepa_text.running import metrics


def log(folder):
    return (folder / metrics.FILE).read_bytes()


def write_steps(folder, steps, resume_step=None):
    with metrics.Writer(folder, resume_step, tensorboard=False) as writer:
        for step in steps:
            writer.write(step, {'train/loss': 1 / (step + 3), 'train/tokens': 7 * step})


def test_values_are_read_back_exactly(tmp_path):
    values = {
        'z': 0.1 + 0.2,
        'a': 1e-300,
        'count': 2**60 + 1,
        'f32': np.float32(0.1),
        'jax': jnp.float32(1 / 3),
        'bf16': jnp.bfloat16(1.5),
        'one': np.ones(1),
    }
    with metrics.Writer(tmp_path, tensorboard=False) as writer:
        writer.write(np.int64(5), values)
        # Before it is closed, as after a kill.
        (row,) = metrics.read(tmp_path)
    assert row == {
        'step': 5,
        **{name: np.asarray(v).item() for name, v in values.items()},
    }
    assert list(row) == ['step', *sorted(values)]


def test_not_finite_values_are_strings_in_strict_json_and_floats_when_read(tmp_path):
    with metrics.Writer(tmp_path, tensorboard=False) as writer:
        writer.write(0, {'a': math.nan, 'b': math.inf, 'c': -math.inf})
    parsed = json.loads(log(tmp_path), parse_constant=lambda name: pytest.fail(name))
    del parsed['crc']
    assert parsed == {'step': 0, 'a': 'nan', 'b': 'inf', 'c': '-inf'}
    (row,) = metrics.read(tmp_path)
    assert math.isnan(row['a']) and row['b'] == math.inf and row['c'] == -math.inf


@pytest.mark.parametrize(
    'name, value, words',
    [
        *[('train/x', x, "'train/x' must be one number") for x in (np.ones(3), [1, 2])],
        *[('train/x', x, "'train/x' must be one number") for x in ('text', None, 1j)],
        *[(name, 1, f'cannot be named "{name}"') for name in ('step', 'crc')],
    ],
)
def test_metrics_are_numbers_with_a_free_name(tmp_path, name, value, words):
    with (
        metrics.Writer(tmp_path, tensorboard=False) as writer,
        pytest.raises(ValueError, match=words),
    ):
        writer.write(1, {name: value})
    assert log(tmp_path) == b''


@pytest.mark.parametrize('killed_after', range(7))
@pytest.mark.parametrize('cut', [0, 1, 20])
def test_a_resumed_log_equals_an_uninterrupted_one(tmp_path, killed_after, cut):
    write_steps(tmp_path / 'straight', range(7))
    resumed = tmp_path / 'resumed'
    write_steps(resumed, range(killed_after + 1))
    path = resumed / metrics.FILE
    path.write_bytes(path.read_bytes()[: -cut or None])
    checkpoint = max(killed_after - 2, 0)
    write_steps(resumed, range(checkpoint + 1, 7), resume_step=checkpoint)
    if not (killed_after == 0 and cut):  # then step 0 itself was lost
        assert log(resumed) == log(tmp_path / 'straight')
    assert os.listdir(resumed) == [metrics.FILE]


def test_resuming_before_the_first_step_starts_an_empty_log(tmp_path):
    write_steps(tmp_path, range(4))
    write_steps(tmp_path, range(2), resume_step=-1)
    assert [row['step'] for row in metrics.read(tmp_path)] == [0, 1]


def test_opening_without_a_step_keeps_complete_lines(tmp_path):
    with pytest.raises(FileNotFoundError, match='There is no .*metrics.jsonl'):
        metrics.read(tmp_path)
    write_steps(tmp_path, range(3))
    before = log(tmp_path)
    (tmp_path / metrics.FILE).write_bytes(before + b'{"step": 3, "tra')
    assert [row['step'] for row in metrics.read(tmp_path)] == [0, 1, 2]
    write_steps(tmp_path, [3])
    assert log(tmp_path).startswith(before)
    assert [row['step'] for row in metrics.read(tmp_path)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    'damage', [b'{"step": 1, "a\n', b'\0\0\0\n', b'[1]\n', b'{}\n', b'{"step": 1e999}\n']
)
@pytest.mark.parametrize('reader', [metrics.read, lambda path: metrics.Writer(path, 0)])
def test_damage_before_the_end_raises_with_the_line_number(tmp_path, damage, reader):
    write_steps(tmp_path, [0])
    (tmp_path / metrics.FILE).write_bytes(log(tmp_path) + damage + b'{"step": 2}\n')
    with pytest.raises(ValueError, match='damaged at line 2 of 3'):
        reader(tmp_path)


def test_series_picks_one_metric():
    rows = [{'step': 0, 'a': 1.0}, {'step': 1, 'b': 2.0}, {'step': 2, 'a': 3}]
    steps, values = metrics.series(rows, 'a')
    assert_array_equal(steps, [0, 2])
    assert_array_equal(values, [1.0, 3.0])
    assert [x.size for x in metrics.series(rows, 'never')] == [0, 0]


def tensorboard_events(path):
    """(step, {tag: value}) of an event file: length, checksum, event, checksum."""
    from tensorboardX.proto.event_pb2 import Event

    data, events = path.read_bytes(), []
    while data:
        size = int.from_bytes(data[:8], 'little')
        events.append(Event.FromString(data[12 : 12 + size]))
        data = data[16 + size :]
    return events


def test_tensorboard_gets_the_same_values_and_a_resume_purges(tmp_path):
    for resume_step, steps in ((-1, (1, 2, 3)), (2, (3,))):
        with metrics.Writer(tmp_path, resume_step) as writer:
            for step in steps:
                writer.write(step, {'train/loss': 0.5 * step, 'train/none': math.nan})
    first, second = sorted(tmp_path.glob('events.*'), key=lambda path: path.name)
    read = [
        (event.step, event.summary.value[0].tag, event.summary.value[0].simple_value)
        for event in tensorboard_events(first)
        if event.summary.value
    ]
    assert read == [(step, 'train/loss', 0.5 * step) for step in (1, 2, 3)]
    starts = [e.step for e in tensorboard_events(second) if e.HasField('session_log')]
    assert starts == [3]  # hides what the first file says from step 3 on


def test_tensorboard_does_not_import_torch_and_leaves_it_importable(tmp_path):
    (tmp_path / 'torch.py').write_text('')
    code = (
        'import sys\n'
        'from jepa_text.running import metrics\n'
        'metrics.Writer(sys.argv[1]).close()\n'
        'assert "tensorboardX" in sys.modules and "torch" not in sys.modules\n'
        'import torch\n'
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    children.run('-c', code, tmp_path / 'run', env={'PYTHONPATH': path})


class Disk(io.FileIO):
    """A file on a disk with room for so many bytes."""

    room = 2000

    def __init__(self, path, mode, buffering):
        super().__init__(path, mode)

    def write(self, content):
        part = content[: Disk.room]
        if not part:
            raise OSError(errno.ENOSPC, 'No space left on device')
        Disk.room -= len(part)
        return super().write(part)


def test_what_a_full_disk_does_not_take_waits(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(metrics, 'open', Disk, raising=False)
    with metrics.Writer(tmp_path, tensorboard=True) as writer:
        for step in range(100):
            writer.write(step, {'a': step})
        assert Disk.room == 0 and len(metrics.read(tmp_path)) < 50
        assert caplog.text.count('The disk is full') == 2
        Disk.room = 10**6
        assert writer.sync() == 99
    assert [row['a'] for row in metrics.read(tmp_path)] == list(range(100))
    (events,) = tmp_path.glob('events.*')
    read = [e.summary.value[0].simple_value for e in tensorboard_events(events)[1:]]
    assert read == list(range(100))


def test_every_changed_byte_is_detected(tmp_path, rng):
    write_steps(tmp_path, range(3))
    whole, rows = log(tmp_path), metrics.read(tmp_path)
    for position in range(len(whole)):
        for mask in {1, 1 << int(rng.integers(8)), int(rng.integers(1, 256))}:
            flipped = bytearray(whole)
            flipped[position] ^= mask
            (tmp_path / metrics.FILE).write_bytes(flipped)
            try:
                found = metrics.read(tmp_path)
            except ValueError as error:
                assert str(tmp_path / metrics.FILE) in str(error)
            else:
                # A blank replaced by other white space: the same rows.
                assert found == rows, (position, mask, bytes(flipped))


def test_lines_of_older_versions_are_read(tmp_path):
    (tmp_path / metrics.FILE).write_text('{"step": 1, "a": 0.5, "b": "nan"}\n')
    write_steps(tmp_path, [2])
    assert [row['step'] for row in metrics.read(tmp_path)] == [1, 2]


def test_lost_lines_are_warned_about(tmp_path, caplog):
    with metrics.Writer(tmp_path, tensorboard=False) as writer:
        for step in range(5):
            writer.write(step, {'a': step})
        assert writer.sync() == 4
    lines = log(tmp_path).splitlines(keepends=True)
    for kept, warned in ((5, False), (3, True), (0, True)):
        (tmp_path / metrics.FILE).write_bytes(b''.join(lines[:kept]))
        caplog.clear()
        metrics.Writer(tmp_path, 4, tensorboard=False, logged=4).close()
        assert (str(tmp_path / metrics.FILE) in caplog.text) == warned


def test_the_newest_measurements_up_to_a_step(tmp_path):
    rows = [
        {'step': 4, 'heldout/mlm_loss': 3.0, 'heldout/old': 1.0},
        {'step': 6, 'heldout/mlm_loss': 2.0},
        {'step': 7, 'train/loss': 1.0},
        {'step': 8, 'heldout/mlm_loss': 1.0},
    ]
    lines = ''.join(json.dumps(row) + '\n' for row in rows)
    newest = metrics.newest
    assert newest(tmp_path, 'heldout/', 7) == (None, {})
    (tmp_path / metrics.FILE).write_text(lines)
    assert newest(tmp_path, 'heldout/', 7) == (6, {'heldout/mlm_loss': 2.0})
    assert newest(tmp_path, 'heldout/') == (8, {'heldout/mlm_loss': 1.0})
