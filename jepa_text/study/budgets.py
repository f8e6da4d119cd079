"""What a run has spent after so many steps: tokens, FLOPs, seconds."""

import dataclasses
import math

import numpy as np

from jepa_text.config import schema
from jepa_text.cost import hardware
from jepa_text.files import checksums
from jepa_text.parallel import sharding
from jepa_text.running import metrics
from jepa_text.training import assemble
from jepa_text.training import recipe as recipes

TOKENS, TIMES = 'train/total_tokens', 'throughput/step_time'


@dataclasses.dataclass(frozen=True)
class Budget:
    """`spans` are (start, stop, positions of a step, FLOPs of a step) of each phase."""

    spans: tuple

    @property
    def steps(self):
        """Of the run."""
        return self.spans[-1][1]

    def tokens(self, steps_N):
        """Positions in rows that were read after so many steps, padding too."""
        return self._until(steps_N, 2)

    def flops(self, steps_N):
        """FLOPs of the model after so many steps, forward and backward."""
        return self._until(steps_N, 3)

    def _until(self, steps_N, place):
        steps_N = np.asarray(steps_N, np.float64)
        return sum(
            span[place] * np.clip(steps_N - span[0], 0, span[1] - span[0])
            for span in self.spans
        )


def of_arms(configs):
    """{name: Budget} of settled configs; phases that are alike are counted once."""
    kept = {}
    return {name: _budget(config, kept) for name, config in configs.items()}


def seconds(log, step=math.inf):
    """Seconds of the steps that a log tells of, those up to `step`; NaN without times.

    The first step of a phase compiles, and is taken to last as long as the others.
    """
    steps_N, times_N = metrics.series(log, TIMES)
    if not len(steps_N):
        return float('nan')
    spent_N = np.cumsum(np.diff(steps_N, prepend=0) * times_N)
    return float(np.interp(step, [0, *steps_N], [0, *spent_N]))


def _budget(config, kept):
    options = schema.read(hardware.Options, config['plan'], 'plan')
    # Nothing runs here, so no kernel need be able to.
    traced = config | {'model': config['model'] | {'attention': 'xla'}}
    mesh = sharding.abstract_mesh(1)
    made = assemble.outline(traced, mesh, options.vocab_size)
    of_all = {key: config[key] for key in ('model', 'data', 'init_from') if key in config}
    spans = []
    for phase in made.phases:
        section = {k: v for k, v in phase.section.items() if k not in ('steps', 'share')}
        key = checksums.checksum([of_all, section])
        if key not in kept:
            kept[key] = recipes.cost(made, phase).model
        tokens = phase.batch_size * phase.length
        spans.append((phase.start, phase.stop, tokens, kept[key]))
    return Budget(tuple(spans))
