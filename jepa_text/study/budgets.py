"""The budget of a run as a function of its steps: tokens, FLOPs and seconds."""

import dataclasses

import numpy as np

from jepa_text.parallel import sharding
from jepa_text.planning import plan
from jepa_text.running import metrics
from jepa_text.study import tree
from jepa_text.training import descriptions
from jepa_text.training import recipe as recipes

TIMES = 'throughput/step_time'


@dataclasses.dataclass(frozen=True)
class Budget:
    """`spans` are (start, stop, positions per step, FLOPs per step) of each phase."""

    spans: tuple
    parameters: int

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
    """Returns {name: Budget} of completed configs."""
    budget = tree.shared(_budget)  # seeds of an arm usually have the same
    return {name: budget(config) for name, config in configs.items()}


def seconds(log):
    """Returns the seconds of all logged steps; NaN without times. The first step of a
    phase compiles, and is counted as long as the others."""
    steps_N, times_N = metrics.series(log, TIMES)
    if not len(steps_N):
        return float('nan')
    return float(np.diff(steps_N, prepend=0) @ times_N)


def _budget(config):
    vocab_size = plan.options_of(config).vocab_size
    recipe = recipes.outline(config, sharding.abstract_mesh(1), vocab_size)
    spans = (
        (phase.start, phase.stop, phase.tokens_per_step, recipe.cost(phase).model)
        for phase in recipe.phases
    )
    return Budget(tuple(spans), sum(descriptions.sizes(recipe).values()))
