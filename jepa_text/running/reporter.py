"""What a run tells about itself: its metrics, its progress, and how well it runs.

throughput/tokens_per_second (and per device)    real tokens, padding is not counted
throughput/step_time, input_wait                 seconds a step, and of them for data
throughput/mfu       model FLOPs (../cost/flops.py) of real tokens / peak of devices
throughput/goodput   goodput.py
memory/host_gib, memory/device_peak_gib
"""

import contextlib
import functools

import jax
import jax.numpy as jnp
import psutil
from clu import parameter_overview

from jepa_text.cost import flops, hardware
from jepa_text.measures import frequencies
from jepa_text.models.attention import attend
from jepa_text.report import console
from jepa_text.running import budget, goodput, metrics

GIB = 2**30


class Reporter:
    """Process 0 writes the metrics of a workdir and shows progress; the others listen.

    A context manager. `resumed` is the step that the run goes on from, None for a new
    run; `seconds` were spent in steps until then, and metrics written up to `logged`.
    """

    def __init__(self, folder, config, recipe, *, resumed=None, seconds=0.0, logged=None):
        self._folder, self._config, self._recipe = folder, config, recipe
        self._resumed, self._goodput = resumed, None
        self._earlier, self._logged = seconds, logged
        self._flops_per_token = 0.0
        self._peak = hardware.peak(jax.devices()[0].device_kind)
        self.clock = metrics.Throughput(devices=jax.device_count())
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        self._speaks = jax.process_index() == 0
        if self._speaks:
            before = -1 if self._resumed is None else self._resumed
            self._goodput = goodput.Goodput(self._folder)
            self._writer = self._stack.enter_context(
                metrics.Writer(
                    self._folder,
                    before,
                    wandb=self._config['metrics'].get('wandb'),
                    logged=self._logged,
                )
            )
            self._progress = self._stack.enter_context(
                console.Progress(
                    self._config['name'], self._recipe.steps, start=max(before, 0)
                )
            )
            for line in introduction(self._recipe):
                self.say(line)
        return self

    def __exit__(self, *_):
        self._stack.close()

    @property
    def seconds(self):
        """Seconds spent in the steps that a state of this moment contains."""
        return self._earlier + self.clock.counted

    def begin(self, phase):
        """A phase begins: its first step compiles, and its steps have their own FLOPs."""
        self.clock.restart()
        # All processes: a kernel may be tried out for it.
        for line in attending(self._recipe, phase):
            self.say(line)
        self._flops_per_token = flops.per_token(
            phase.network,
            phase.objective,
            self._recipe.batch_size,
            self._recipe.rows.row_length,
        )

    def step(self, number, values):
        """The metrics of a step, with those of the time since the last."""
        rates = self._rates()
        seen = number * budget.tokens_per_step(self._config, self._recipe.batch_size)
        self.write(number, {**values, 'train/total_tokens': seen, **rates})
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

    def conclude(self):
        """Says how the last evaluation compares with token frequencies."""
        if self._speaks:
            _, values = metrics.newest(self._folder, frequencies.PREFIX)
            evaluator = self._recipe.evaluator
            # The first is what the last phase learns.
            own = next(iter(evaluator.objectives), 'mlm') if evaluator else 'mlm'
            for line in frequencies.sentences(values, own):
                self.say(line)

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


def introduction(recipe):
    """What runs where, in lines."""
    devices, mesh = jax.devices(), recipe.mesh
    phase = recipe.phases[0]
    params = jax.eval_shape(lambda: phase.network.init(0))
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    axes = ', '.join(f'{axis} {size}' for axis, size in mesh.shape.items())
    rows, length = recipe.batch_size, recipe.rows.row_length
    processes = jax.process_count()
    return (
        f'devices  {len(devices)} x {devices[0].device_kind}, mesh {axes}, '
        f'{processes} process{"es" if processes > 1 else ""}',
        f'network  {count:,} parameters',
        f'budget   {rows} rows x {length} = {rows * length:,} tokens a step, '
        f'{recipe.steps:,} steps, {recipe.steps * rows * length:,} tokens',
        parameter_overview.get_parameter_overview(params, include_stats=False),
    )


def attending(recipe, phase):
    """By which backend the encoder of a phase attends, in lines."""
    attends = getattr(phase.objective, 'attends', 'both')
    shape = (recipe.batch_size, recipe.rows.row_length)
    ids_BL = jax.ShapeDtypeStruct(shape, jnp.int32)
    order_BL = ids_BL if attends == 'rows' else None
    params = jax.eval_shape(lambda: phase.network.init(0))
    call = functools.partial(phase.network.apply, 'encoder', causal=attends == 'left')
    with jax.set_mesh(recipe.mesh):
        lines = attend.explain_call(call, params, ids_BL, ids_BL, ids_BL, order_BL)
    # The rest says of each other backend why it was not taken.
    return [line for line in lines if line.startswith('attention')]


def memory():
    """GiB that this process holds now, and that its fullest device held at most."""
    held = {'memory/host_gib': psutil.Process().memory_info().rss / GIB}
    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    peaks = [one['peak_bytes_in_use'] for one in stats if 'peak_bytes_in_use' in one]
    return held | ({'memory/device_peak_gib': max(peaks) / GIB} if peaks else {})
