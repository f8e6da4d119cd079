"""Profiler traces of some steps, for TensorBoard, XProf or Perfetto."""

import jax


def span(steps):
    """(first, last) step to record, (0, 0) for none; raises ValueError if invalid."""
    steps = tuple(steps) or (0, 0)
    is_pair = len(steps) == 2 and all(isinstance(step, int) for step in steps)
    if steps != (0, 0) and not (is_pair and 1 <= steps[0] <= steps[1]):
        raise ValueError(
            f'profile_steps={steps} must be the first and the last step to record, such '
            'as (10, 12), or (0, 0) for none.'
        )
    return steps


class Trace:
    """Records a range of steps, first and last included, into a folder.

    A context manager. The trace names the stages of a step: encoder, lm_head, optimizer,
    ema. Raises ValueError unless `steps` are two step numbers in increasing order; () or
    (0, 0) record nothing.
    """

    def __init__(self, folder, steps=()):
        self._folder, (self._start, self._stop) = str(folder), span(steps)
        self._recording = False

    def run(self, step, number, *inputs):
        """Returns `step(*inputs)`, recorded as step `number` of the trace."""
        if number == self._start:
            jax.profiler.start_trace(self._folder)
            self._recording = True
        with jax.profiler.StepTraceAnnotation('train', step_num=number):
            result = step(*inputs)
        if self._recording and number >= self._stop:
            jax.block_until_ready(result)
            self._end()
        return result

    def _end(self):
        self._recording = False
        jax.profiler.stop_trace()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._recording:
            self._end()
