"""Reports a run: metrics, progress on the terminal, efficiency, traces of some steps.

throughput/tokens_per_second (and per device)    real tokens, padding is not counted
throughput/step_time, input_wait                 seconds per step; waiting for input
throughput/mfu       model FLOPs (../models/flops.py) of real tokens / peak of devices
memory/host_gib, memory/device_peak_gib
"""

import contextlib
import time

import jax
import psutil

from jepa_text.report import progress
from jepa_text.running import metrics

GIB = 2**30


class Reporter(contextlib.ExitStack):
    """Writes the metrics of a workdir and shows progress, in process 0 only.

    `costs` are [(steps, FLOPs of one)] of the phases; `peak` is the peak FLOP/s of a
    device, None if unknown. `resumed` is the step from which the run resumes, None for a
    new run; metrics were written up to step `logged`.
    """

    def __init__(self, folder, name, costs, *, peak, resumed, logged):
        super().__init__()
        self._peak, self._flops_per_token = peak, 0.0
        self._is_active = jax.process_index() == 0
        self.clock = Throughput(devices=jax.device_count())
        if self._is_active:
            start = -1 if resumed is None else resumed
            writer = metrics.Writer(folder, start, logged=logged)
            self._writer = self.enter_context(writer)
            steps = sum(steps for steps, _ in costs)
            self._progress = self.enter_context(
                progress.Progress(name, steps, max(start, 0), costs)
            )

    def begin(self, flops_per_token, lines=()):
        """Starts a phase, whose first step compiles, and prints `lines`.

        `flops_per_token()` is only called if the `peak` is known.
        """
        self.clock.restart()
        for line in lines:
            self.log(line)
        self._flops_per_token = flops_per_token() if self._peak else 0.0

    def stepped(self, number, tokens):
        """Counts a step with so many tokens, as Throughput.step does."""
        if self.clock.step(tokens) and self._is_active:
            self._progress.update(number)  # which now knows when compiling ended

    def step(self, number, values):
        """Writes the metrics of a step, with throughput since the last call."""
        rates = self.clock.window()
        if rates and self._peak:
            per_device = rates['throughput/tokens_per_second_per_device']
            rates['throughput/mfu'] = per_device * self._flops_per_token / self._peak
        self.write(number, {**values, **rates, **memory()})
        if self._is_active:
            self._progress.update(
                number,
                loss=values['train/loss'],
                tokens_per_second=rates.get('throughput/tokens_per_second'),
            )

    def write(self, number, values):
        if self._is_active:
            self._writer.write(number, values)

    def sync(self):
        """Flushes the metrics to the disk; returns the last step written, if any."""
        return self._writer.sync() if self._is_active else None

    def log(self, text):
        if self._is_active:
            self._progress.log(text)


def memory():
    """GiB of this process now, and the highest peak of its devices."""
    held = {'memory/host_gib': psutil.Process().memory_info().rss / GIB}
    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    peaks = [s['peak_bytes_in_use'] for s in stats if 'peak_bytes_in_use' in s]
    return held | ({'memory/device_peak_gib': max(peaks) / GIB} if peaks else {})


class Throughput:
    """Measures tokens per second and time per step between two log points, on the host.

    JAX dispatches asynchronously, so timing single steps would slow them down; the mean
    over a window that ends in `block_until_ready` is exact. The first step compiles and
    is not counted, nor is the next step after `restart` (a new phase). Time inside
    `paused` (evaluation, checkpoints) is not counted.
    """

    def __init__(self, devices=1, now=time.perf_counter):
        self._devices, self._now = devices, now
        self.restart()

    def _reset(self):
        self._start = self._now()
        self._excluded = self._waited = 0.0
        self._tokens = []

    def restart(self):
        """Begins a window after the next step, which compiles."""
        self._is_compiling = True
        self._reset()

    def step(self, tokens):
        """Counts one step; `tokens` without padding, a number or a device scalar.

        Returns whether the step compiled, in which case it has ended.
        """
        if not self._is_compiling:
            self._tokens.append(tokens)
            return False
        # Reading a device scalar blocks until the step has ended.
        int(tokens)
        self._is_compiling = False
        self._reset()
        return True

    @contextlib.contextmanager
    def waiting(self, computes):
        """Around `next(batches)`: counts as waiting for input unless `computes()` is true
        at the end, which says that the device was busy meanwhile."""
        begin = self._now()
        yield
        if not computes():
            self._waited += self._now() - begin

    @contextlib.contextmanager
    def paused(self):
        """Excludes the time of work that is not training."""
        begin = self._now()
        yield
        self._excluded += self._now() - begin

    def window(self):
        """The `throughput/` metrics since the last call; {} if no step was counted.

        Tokens per second (all devices, and per device); `step_time` and `input_wait` in
        seconds per step.
        """
        steps = len(self._tokens)
        seconds = self._now() - self._start - self._excluded
        tokens, waited = sum(int(count) for count in self._tokens), self._waited
        self._reset()
        if not steps or seconds <= 0:
            return {}
        return {
            'throughput/tokens_per_second': tokens / seconds,
            'throughput/tokens_per_second_per_device': tokens / seconds / self._devices,
            'throughput/step_time': seconds / steps,
            'throughput/input_wait': waited / steps,
        }


class Trace(contextlib.ExitStack):
    """Records a range of steps for TensorBoard, XProf or Perfetto, into a folder.

    `steps` are the first and the last to record; (0, 0) or () for none.
    """

    def __init__(self, folder, steps=()):
        super().__init__()
        self._folder, (self._start, self._stop) = str(folder), steps or (0, 0)

    def run(self, step, number, *inputs):
        """Returns `step(*inputs)`, recorded as step `number` of the trace."""
        if number == self._start:
            self.enter_context(jax.profiler.trace(self._folder))
        with jax.profiler.StepTraceAnnotation('train', step_num=number):
            result = step(*inputs)
        if number == self._stop:
            jax.block_until_ready(result)
            self.close()
        return result
