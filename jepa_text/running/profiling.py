"""Profiler traces of some steps, for TensorBoard, XProf or Perfetto."""

import contextlib

import jax


def span(steps):
    """(first, last) step to record, (0, 0) for none; raises ValueError if invalid."""
    steps = tuple(steps) or (0, 0)
    if steps != (0, 0) and not (len(steps) == 2 and 1 <= steps[0] <= steps[1]):
        raise ValueError(
            f'profile_steps={steps} must be the first and the last step to record, such '
            'as (10, 12), or (0, 0) for none.'
        )
    return steps


class Trace(contextlib.ExitStack):
    """Records a range of steps, first and last included, into a folder.

    A context manager. The trace names the stages of a step: encoder, lm_head, optimizer,
    ema. `steps` are those of `span`.
    """

    def __init__(self, folder, steps=()):
        super().__init__()
        self._folder, (self._start, self._stop) = str(folder), span(steps)

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
