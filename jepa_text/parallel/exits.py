"""Exit codes of a process, and the exceptions that determine them.

Whatever started a run (a supervisor, SLURM, Kubernetes) decides by its exit code:

     0  success
     1  failure; the same command resumes from the last checkpoint
     2  wrong usage, an invalid config, or training that diverged; the same command would
        fail again
    75  stopped on request after saving the state; the same command resumes (EX_TEMPFAIL)
    87  stopped by the watchdog because the run hung; the same command resumes

A process that was killed by a signal has the code 128 + signal in a shell: treated as 1.

Code 2 is only used for our own exceptions, ConfigError and Diverged. A plain ValueError
is not sufficient: jax raises one if another process of the job died, TensorStore if a
disk fails. Code that builds what the first step needs, or only reads its input, therefore
runs within `config_errors`; every other error is worth a retry.
"""

import contextlib
import re
import traceback

DONE, FAILED, USAGE, RESUME, HUNG = 0, 1, 2, 75, 87

# The start of errors of XLA and TensorStore, whatever their Python type.
_STATUS = re.compile(
    '(CANCELLED|UNKNOWN|INVALID_ARGUMENT|DEADLINE_EXCEEDED|NOT_FOUND|ALREADY_EXISTS'
    '|PERMISSION_DENIED|RESOURCE_EXHAUSTED|FAILED_PRECONDITION|ABORTED|OUT_OF_RANGE'
    '|UNIMPLEMENTED|INTERNAL|UNAVAILABLE|DATA_LOSS|UNAUTHENTICATED): '
)


class Stopped(Exception):  # noqa: N818 - not an error
    """The run was asked to stop, saved its state and left its loop."""


class Diverged(FloatingPointError):
    """Training diverged; the state is saved.

    Running the same command again would do the same.
    """


class ConfigError(ValueError):
    """The run cannot start with this config, whenever it is retried."""


# Types that a ConfigError has besides its own, if it is made of such an exception.
_KEPT = (FileNotFoundError, FileExistsError, PermissionError, ModuleNotFoundError)


@contextlib.contextmanager
def config_errors():
    """Converts exceptions that this package raises within the block to ConfigError.

    These are a ValueError raised by code of this package, and a FileNotFoundError,
    FileExistsError, PermissionError or ModuleNotFoundError with a message of its own.
    Errors of the operating system (they have an errno) and a library's ValueError are not
    converted: they may be due to a failing machine.
    """
    try:
        yield
    except (ValueError, *_KEPT) as error:
        if isinstance(error, ConfigError) or not _is_ours(error):
            raise
        kept = tuple(kind for kind in _KEPT if isinstance(error, kind))
        raise type('ConfigError', (ConfigError, *kept), {})(str(error)) from error


def code_of(error):
    """Returns the exit code for an exception."""
    if isinstance(error, Stopped):
        return RESUME
    return USAGE if isinstance(error, ConfigError | Diverged) else FAILED


def origin(error):
    """Returns the type of an error and the line that raised it; '' for one of ours.

    A message of this package says enough by itself, others may be understood by the line.
    """
    clear = OSError | ModuleNotFoundError | ConfigError | Diverged | Stopped
    if isinstance(error, clear) or not error.__traceback__ or _is_ours(error):
        return ''
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f'{type(error).__name__} in {frame.filename}, line {frame.lineno}'


def _is_ours(error):
    if isinstance(error, OSError):
        return error.errno is None
    if isinstance(error, ModuleNotFoundError):
        return error.name is None
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    # Not the name, which is __main__ of `python -m jepa_text.main`.
    raised_in = trace.tb_frame.f_globals.get('__package__') or ''
    is_in_package = raised_in.split('.')[0] == __package__.split('.')[0]
    # Errors of compiled programs are raised from the line that called them.
    return is_in_package and not _STATUS.match(str(error))
