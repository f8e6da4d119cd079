"""What a run tells about itself: its metrics, its progress, and how well it runs.

throughput/tokens_per_second (and per device)    real tokens, padding is not counted
throughput/step_time, input_wait                 seconds a step, and of them for data
throughput/mfu       model FLOPs (../cost/flops.py) of real tokens / peak of devices
throughput/goodput   goodput.py
memory/host_gib, memory/device_peak_gib
"""

import contextlib

import jax
import psutil

from jepa_text.report import console
from jepa_text.running import goodput, metrics

GIB = 2**30


class Reporter:
    """Process 0 writes the metrics of a workdir and shows progress; the others listen.

    A context manager. `name` and `steps` are those of the run, `peak` the FLOP/s of a
    device, None if nobody knows. `resumed` is the step that the run goes on from, None
    for a new run; `seconds` were spent in steps until then, and metrics written up to
    `logged`. `wandb`: as for metrics.Writer.
    """

    def __init__(
        self,
        folder,
        name,
        steps,
        *,
        peak=None,
        resumed=None,
        seconds=0.0,
        logged=None,
        wandb=None,
    ):
        self._folder, self._name, self._steps = folder, name, steps
        self._peak = peak
        self._before = -1 if resumed is None else resumed
        self._earlier, self._logged, self._wandb = seconds, logged, wandb
        self._flops_per_token, self._goodput = 0.0, None
        self._speaks = jax.process_index() == 0
        self.clock = metrics.Throughput(devices=jax.device_count())
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        if self._speaks:
            self._goodput = goodput.Goodput(self._folder)
            self._writer = self._stack.enter_context(
                metrics.Writer(
                    self._folder, self._before, wandb=self._wandb, logged=self._logged
                )
            )
            self._progress = self._stack.enter_context(
                console.Progress(self._name, self._steps, start=max(self._before, 0))
            )
        return self

    def __exit__(self, *_):
        self._stack.close()

    @property
    def seconds(self):
        """Seconds spent in the steps that a state of this moment contains."""
        return self._earlier + self.clock.counted

    def begin(self, flops_per_token, lines=()):
        """A phase begins: its first step compiles, its tokens have FLOPs of their own,
        for which the function is asked if the `peak` is known, too."""
        self.clock.restart()
        for line in lines:
            self.say(line)
        self._flops_per_token = flops_per_token() if self._peak else 0.0

    def step(self, number, values):
        """The metrics of a step, with those of the time since the last."""
        rates = self._rates()
        self.write(number, {**values, **rates})
        if self._speaks:
            self._progress.update(
                number,
                loss=values['train/loss'],
                tokens_per_second=rates.get('throughput/tokens_per_second'),
            )

    def write(self, number, values):
        """Metrics of a step."""
        if self._speaks:
            self._writer.write(number, values)

    def sync(self):
        """Brings the metrics to the disk; the last step that they tell of, if any."""
        return self._writer.sync() if self._speaks else None

    def say(self, text):
        """A line for the person at the terminal."""
        if self._speaks:
            self._progress.log(text)

    def _rates(self):
        rates = self.clock.window()
        if not rates:
            return memory()
        if self._peak:
            per_device = rates['throughput/tokens_per_second_per_device']
            rates['throughput/mfu'] = per_device * self._flops_per_token / self._peak
        if self._goodput:
            rates['throughput/goodput'] = self._goodput.share(self.seconds)
        return rates | memory()


def memory():
    """GiB that this process holds now, and that its fullest device held at most."""
    held = {'memory/host_gib': psutil.Process().memory_info().rss / GIB}
    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    peaks = [one['peak_bytes_in_use'] for one in stats if 'peak_bytes_in_use' in one]
    return held | ({'memory/device_peak_gib': max(peaks) / GIB} if peaks else {})
