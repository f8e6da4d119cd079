"""Reports a run: its metrics, its progress on the terminal, and its efficiency.

throughput/tokens_per_second (and per device)    real tokens, padding is not counted
throughput/step_time, input_wait                 seconds per step; waiting for input
throughput/mfu       model FLOPs (../models/flops.py) of real tokens / peak of devices
memory/host_gib, memory/device_peak_gib
"""

import contextlib

import jax
import psutil

from jepa_text.running import compilation, metrics

GIB = 2**30


class Reporter:
    """Writes the metrics of a workdir and shows progress, in process 0 only.

    A context manager. `name` and `steps` are those of the run; `peak` is the peak FLOP/s
    of a device, None if unknown. `resumed` is the step from which the run resumes, None
    for a new run; metrics were written up to step `logged`. `wandb`: as for
    metrics.Writer.
    """

    def __init__(self, folder, name, steps, *, peak, resumed, logged, wandb):
        self._folder, self._name, self._steps = folder, name, steps
        self._peak = peak
        self._start_step = -1 if resumed is None else resumed
        self._logged, self._wandb = logged, wandb
        self._flops_per_token = 0.0
        self._is_active = jax.process_index() == 0
        self.clock = metrics.Throughput(devices=jax.device_count())
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        if self._is_active:
            self._writer = self._stack.enter_context(
                metrics.Writer(
                    self._folder,
                    self._start_step,
                    wandb=self._wandb,
                    logged=self._logged,
                )
            )
            start = max(self._start_step, 0)
            self._progress = self._stack.enter_context(
                compilation.progress(self._name, self._steps, start)
            )
        return self

    def __exit__(self, *_):
        self._stack.close()

    def begin(self, flops_per_token, lines=()):
        """Starts a phase, whose first step compiles; prints `lines`, and that it does.

        `flops_per_token()` is only called if the `peak` is known.
        """
        self.clock.restart()
        for line in (*lines, 'compiling the training step'):
            self.log(line)
        if self._is_active:
            self._progress.begin()
        self._flops_per_token = flops_per_token() if self._peak else 0.0

    def step(self, number, values):
        """Writes the metrics of a step, with throughput since the last call."""
        rates = self._rates()
        self.write(number, {**values, **rates})
        if self._is_active:
            self._progress.update(
                number,
                loss=values['train/loss'],
                tokens_per_second=rates.get('throughput/tokens_per_second'),
            )

    def write(self, number, values):
        """Writes metrics of a step."""
        if self._is_active:
            self._writer.write(number, values)

    def sync(self):
        """Flushes the metrics to the disk; returns the last step written, if any."""
        return self._writer.sync() if self._is_active else None

    def log(self, text):
        """Prints a line on the terminal."""
        if self._is_active:
            self._progress.log(text)

    def _rates(self):
        rates = self.clock.window()
        if not rates:
            return memory()
        if self._peak:
            per_device = rates['throughput/tokens_per_second_per_device']
            rates['throughput/mfu'] = per_device * self._flops_per_token / self._peak
        return rates | memory()


def memory():
    """GiB of this process now, and the highest peak of its devices."""
    held = {'memory/host_gib': psutil.Process().memory_info().rss / GIB}
    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    peaks = [s['peak_bytes_in_use'] for s in stats if 'peak_bytes_in_use' in s]
    return held | ({'memory/device_peak_gib': max(peaks) / GIB} if peaks else {})
