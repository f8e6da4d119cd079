"""How far an analysis is: its parts, told while they are done; its threads."""

import contextlib
import warnings

from jepa_text.evaluation import controls


class Telling:
    """Shows how far an analysis is on a console.Progress, or nothing without one."""

    def __init__(self, progress=None):
        self._progress, self._done, self._part = progress, 0, ''

    @contextlib.contextmanager
    def part(self, *names):
        """A part, such as a model on a task, while it is done."""
        self._part = ', '.join(filter(None, names))
        self._show('')
        yield
        self._done += 1
        self._show('')

    def within(self, what):
        """What the present part is doing, as 'vectors of 640 of 2,500 texts'."""
        self._show(f': {what}')

    def say(self, text):
        """A line of its own."""
        if self._progress is not None:
            self._progress.log(text)

    def _show(self, more):
        if self._progress is not None:
            self._progress.update(self._done, description=f'{self._part}{more}')


def parts(config, tasks):
    """How many parts an analysis has: each model and control on each task, the control
    without a model, then similarity and the comparison."""
    wanted = config['controls']
    of_a_model = 1 + (controls.UNTRAINED in wanted) + (controls.BAG in wanted)
    counted = controls.TF_IDF in wanted
    return len(tasks) * (len(config['models']) * of_a_model + counted) + 2


@contextlib.contextmanager
def one_thread_each():
    """Cells are measured side by side; threads within their products would only wait.

    What probes warn of is silenced here, as a filter of one thread holds for all.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings('ignore', 'lbfgs failed to converge')
        with contextlib.suppress(ImportError):
            from threadpoolctl import threadpool_limits  # comes with scikit-learn

            stack.enter_context(threadpool_limits(1))
        yield
