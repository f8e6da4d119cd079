"""Threads of an analysis: cells side by side, none within their products."""

import contextlib
import warnings


@contextlib.contextmanager
def one_thread_each():
    """Cells are measured side by side; threads within their products would only wait.

    What probes warn of is silenced here, as a filter of one thread holds for all.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings('ignore', 'lbfgs failed to converge')
        with _limited():
            yield


@contextlib.contextmanager
def _limited():
    try:
        from threadpoolctl import threadpool_limits  # comes with scikit-learn
    except ImportError:
        yield
        return
    with threadpool_limits(1):
        yield
