"""Progress display of an analysis, and its thread limits."""

import contextlib
import warnings

from jepa_text.analysis import features
from jepa_text.evaluation import controls


class Monitor:
    """Reports the progress of an analysis to a console.Progress, or nowhere if None.

    Its steps are cells: sets of vectors that are measured.
    """

    def __init__(self, progress=None):
        self._progress, self._done, self._part, self._cells = progress, 0, '', 0

    @contextlib.contextmanager
    def part(self, *names, cells=1):
        """Context manager for one part of the analysis, such as a model on a task."""
        self._part, self._cells = ', '.join(filter(None, names)), cells
        self._show('')
        yield
        self._done += cells
        self._show('')

    def status(self, text, share=0.0):
        """Shows the status of the current part, as 'vectors of 640 of 2,500 texts', of
        which a share is done."""
        self._show(f': {text}', int(share * self._cells))

    def log(self, text):
        """Prints a line above the progress display."""
        if self._progress is not None:
            self._progress.log(text)

    def _show(self, status, cells=0):
        if self._progress is not None:
            label = f'{self._part}{status}'
            self._progress.update(self._done + cells, description=label)


def count_cells(config, tasks, depths):
    """Number of cells of an analysis of models of these depths: their layers and poolings
    on each task, those of their untrained controls, and one each for the bag and TF-IDF,
    and in all for the similarity of layers and for the comparison."""
    wanted = config['controls']
    sizes = (model_cells(config, depth) for depth in depths)
    copies, bag = 1 + (controls.UNTRAINED in wanted), controls.BAG in wanted
    per_task = sum(copies * size + bag for size in sizes) + (controls.TF_IDF in wanted)
    return len(tasks) * per_task + 2


def model_cells(config, depth):
    """Number of (layer, pooling) pairs of a model of this depth."""
    layers = config['layers'] or None
    return len(features.combinations(depth, layers, config['poolings']))


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
