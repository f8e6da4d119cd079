"""The clock counts only training."""

import jax.numpy as jnp

from jepa_text.running import reporter


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


def test_the_first_step_is_awaited():
    now = Clock()
    clock, device = reporter.Throughput(now=now), Device(now)
    for _ in range(2):
        now.time += 30  # compiles
        clock.step(device.step(5.0, 1000))
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


def test_what_precedes_the_first_step_is_not_training_time():
    """A run is evaluated, or restored, before its first phase begins."""
    now = Clock()
    clock = reporter.Throughput(now=now)
    with clock.paused():
        now.time += 60  # evaluates
    clock.restart()
    now.time += 30  # compiles
    clock.step(1)
    now.time += 2
    clock.step(1)
    assert clock.window()['throughput/step_time'] == 2


def test_throughput_windows_are_separate_and_restart_excludes_compilation():
    now = Clock()
    clock = reporter.Throughput(now=now)
    assert clock.window() == {}
    now.time += 50
    clock.step(1)
    assert clock.window() == {}
    now.time += 1
    clock.step(10)
    assert clock.window()['throughput/tokens_per_second'] == 10
    clock.restart()
    now.time += 7
    with clock.paused(), clock.waiting(lambda: False):
        now.time += 40
    clock.step(10**6)
    now.time += 2
    clock.step(10)
    assert clock.window()['throughput/step_time'] == 2
