"""The budget of a run as a function of its steps: tokens, FLOPs and seconds."""

import dataclasses

import numpy as np

from jepa_text.config import schema
from jepa_text.files import checksums
from jepa_text.parallel import hardware, sharding
from jepa_text.running import metrics
from jepa_text.training import recipe as recipes

TIMES = 'throughput/step_time'


@dataclasses.dataclass(frozen=True)
class Budget:
    """`spans` are (start, stop, positions per step, FLOPs per step) of each phase."""

    spans: tuple

    @property
    def steps(self):
        """The number of steps of the run."""
        return self.spans[-1][1]

    def tokens(self, steps_N):
        """Positions in rows that were read after some steps, including padding."""
        return self._until(steps_N, 2)

    def flops(self, steps_N):
        """FLOPs of the model after some steps, forward and backward."""
        return self._until(steps_N, 3)

    def _until(self, steps_N, place):
        steps_N = np.asarray(steps_N, np.float64)
        return sum(
            span[place] * np.clip(steps_N - span[0], 0, span[1] - span[0])
            for span in self.spans
        )


def of_runs(configs):
    """Returns {name: Budget} of completed configs. Equal phases are traced once."""
    flops, known, budgets = {}, {}, {}
    for name, config in configs.items():
        key = checksums.checksum({**config, 'name': '', 'seed': 0})
        if key not in known:  # seeds of an arm usually have the same budget
            known[key] = _budget(config, flops)
        budgets[name] = known[key]
    return budgets


def tokens_per_step(budgets):
    """Returns the {positions per step} of all phases of {name: Budget}."""
    return {size for one in budgets.values() for _, _, size, _ in one.spans}


def seconds(log):
    """Returns the seconds of all logged steps; NaN without times.

    The first step of a phase compiles, and is counted as long as the others.
    """
    steps_N, times_N = metrics.series(log, TIMES)
    if not len(steps_N):
        return float('nan')
    return float(np.diff(steps_N, prepend=0) @ times_N)


def _budget(config, flops):
    options = schema.read(hardware.Options, config['plan'], 'plan')
    # Nothing is run, so the attention kernel need not be available.
    traced = config | {'model': config['model'] | {'attention': 'xla'}}
    mesh = sharding.abstract_mesh(1)
    recipe = recipes.outline(traced, mesh, options.vocab_size)
    shared = {key: config[key] for key in ('model', 'data', 'init_from') if key in config}
    spans = []
    for phase in recipe.phases:
        section = {k: v for k, v in phase.section.items() if k not in ('steps', 'share')}
        key = checksums.checksum([shared, section])
        if key not in flops:
            flops[key] = recipe.cost(phase).model
        spans.append((phase.start, phase.stop, phase.tokens_per_step, flops[key]))
    return Budget(tuple(spans))
