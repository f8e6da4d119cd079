"""Progress display of an analysis, and its thread limits."""

import contextlib
import warnings

from jepa_text.evaluation import controls


class Monitor:
    """Reports the progress of an analysis to a console.Progress, or nowhere if None."""

    def __init__(self, progress=None):
        self._progress, self._done, self._part = progress, 0, ''

    @contextlib.contextmanager
    def part(self, *names):
        """Context manager for one part of the analysis, such as a model on a task."""
        self._part = ', '.join(filter(None, names))
        self._show('')
        yield
        self._done += 1
        self._show('')

    def status(self, text):
        """Shows the status of the current part, as 'vectors of 640 of 2,500 texts'."""
        self._show(f': {text}')

    def log(self, text):
        """Prints a line above the progress display."""
        if self._progress is not None:
            self._progress.log(text)

    def _show(self, status):
        if self._progress is not None:
            self._progress.update(self._done, description=f'{self._part}{status}')


def count_parts(config, tasks):
    """Number of parts of an analysis: each model and its controls on each task, TF-IDF on
    each task, the similarity of layers, and the comparison."""
    wanted = config['controls']
    per_model = 1 + (controls.UNTRAINED in wanted) + (controls.BAG in wanted)
    return (
        len(tasks) * (len(config['models']) * per_model + (controls.TF_IDF in wanted)) + 2
    )


@contextlib.contextmanager
def one_blas_thread():
    """Context manager that limits BLAS to one thread, as cells are measured in parallel.

    Also silences convergence warnings of probes: warning filters are global, so they
    cannot be set in the threads that fit the probes.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings('ignore', 'lbfgs failed to converge')
        with contextlib.suppress(ImportError):
            from threadpoolctl import threadpool_limits  # installed with scikit-learn

            stack.enter_context(threadpool_limits(1))
        yield
