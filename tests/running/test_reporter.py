"""The clock counts only training; traces have the steps that were asked for."""

import jax
import jax.numpy as jnp
import pytest
import tiny
from jax.profiler import ProfileData

from jepa_text.running import reporter
from jepa_text.training import config as settings


class Clock:
    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


class Device:
    """Executes steps in order and dispatches asynchronously: its scalar is a number
    when the step has ended."""

    def __init__(self, now):
        self.now, self.free = now, 0.0

    def step(self, seconds, tokens):
        end = self.free = max(self.free, self.now.time) + seconds

        class Scalar:
            def __int__(_):
                self.now.time = max(self.now.time, end)
                return tokens

        return Scalar()


def test_the_first_step_is_awaited_and_does_not_count():
    now = Clock()
    clock, device = reporter.Throughput(now=now), Device(now)
    for _ in range(2):
        assert clock.window() == {}
        with clock.paused(), clock.waiting(lambda: False):
            now.time += 30  # compiles
        clock.step(device.step(5.0, 1000))
        assert clock.window() == {}
        for _ in range(4):
            last = device.step(0.5, 1000)
            clock.step(last)
        int(last)
        assert clock.window()['throughput/step_time'] == 0.5
        clock.restart()


def test_throughput_counts_training_time_only():
    now = Clock()
    clock = reporter.Throughput(devices=4, now=now)
    now.time += 30  # compiles
    clock.step(999)
    for computes in (False, True, False, False, True):
        with clock.waiting(lambda computes=computes: computes):
            now.time += 0.5
        now.time += 1.5
        clock.step(jnp.int32(1000))
    with clock.paused():
        now.time += 60
    assert clock.window() == {
        'throughput/tokens_per_second': 500.0,
        'throughput/tokens_per_second_per_device': 125.0,
        'throughput/step_time': 2.0,
        'throughput/input_wait': 0.3,  # of three steps in five
    }


def test_the_given_steps_are_recorded(tmp_path):
    step = jax.jit(lambda x: x + 1)
    with reporter.Trace(tmp_path / 'profile', [2, 3]) as trace:
        x = jnp.zeros(())
        for number in range(1, 6):
            x = trace.run(step, number, x)
    assert float(x) == 5
    (path,) = (tmp_path / 'profile').rglob('*.xplane.pb')
    data = ProfileData.from_file(str(path))
    numbers = {
        dict(event.stats)['step_num']
        for plane in data.planes
        for line in plane.lines
        for event in line.events
        if event.name == 'train'
    }
    assert numbers == {2, 3}


def test_a_run_that_ends_first_still_leaves_its_trace(tmp_path):
    with pytest.raises(KeyError), reporter.Trace(tmp_path / 'profile', (1, 9)) as trace:
        trace.run(lambda: 0, 1)
        raise KeyError
    assert list((tmp_path / 'profile').rglob('*.xplane.pb'))


def test_nothing_is_recorded_by_default(tmp_path):
    for steps in ((), [], [0, 0]):
        with reporter.Trace(tmp_path / 'profile', steps) as trace:
            assert trace.run(lambda x: x, 1, 7) == 7
    assert not (tmp_path / 'profile').exists()


@pytest.mark.parametrize('steps', [(3, 2), (0, 5), (4,), (1, 2, 3)])
def test_invalid_steps_of_a_trace_raise(folder, steps):
    with pytest.raises(ValueError, match='profile_steps'):
        settings.plain(tiny.config(folder, profile_steps=steps))
