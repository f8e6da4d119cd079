"""How a run ends: the number that the process leaves behind.

Whoever starts a run (a supervisor, SLURM, Kubernetes) decides by it what comes next:

     0  done
     1  the run failed; the same command resumes from the last checkpoint
     2  wrong usage, or a config that cannot run, or with which training diverged or
        collapsed: never again with the same command
    75  told to stop, the state is saved; the same command resumes (EX_TEMPFAIL)
    87  the watchdog ended a run that hung; the same command resumes

A process that a signal killed leaves 128 + the signal in a shell: as 1.

"Never again" is said by our own types alone, ConfigError and Diverged. A ValueError by
itself says nothing: jax raises one when another process of the job died, TensorStore for
a disk that fails. So what is built before the first step, or what reads no more than its
input, stands in a block of `refusals`, and every other error is worth another try.
"""

import contextlib
import re

DONE, FAILED, USAGE, RESUME, HUNG = 0, 1, 2, 75, 87

# How XLA's and TensorStore's errors begin, whatever their type in Python.
_STATUS = re.compile(
    '(CANCELLED|UNKNOWN|INVALID_ARGUMENT|DEADLINE_EXCEEDED|NOT_FOUND|ALREADY_EXISTS'
    '|PERMISSION_DENIED|RESOURCE_EXHAUSTED|FAILED_PRECONDITION|ABORTED|OUT_OF_RANGE'
    '|UNIMPLEMENTED|INTERNAL|UNAVAILABLE|DATA_LOSS|UNAUTHENTICATED): '
)


_REFUSALS = (
    ValueError,
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    ModuleNotFoundError,
)


class Stopped(Exception):  # noqa: N818 - it is no error
    """A run that was told to stop has saved its state and left its loop."""


class Diverged(FloatingPointError):
    """A run whose loss is not finite, or that collapsed, has saved its state and stopped:
    the same command would only do so again."""


class ConfigError(ValueError):
    """The run cannot begin as it was asked for; the same command never can."""


@contextlib.contextmanager
def refusals():
    """What this package refuses within the block, it raises as a ConfigError.

    That is a ValueError that was raised by code of this package, and a FileNotFoundError,
    FileExistsError, PermissionError or ModuleNotFoundError in its words. An error of the
    system (it has an errno), and a ValueError of a library, pass as they are: a machine
    may fail there.
    """
    try:
        yield
    except _REFUSALS as error:
        if isinstance(error, ConfigError) or not _is_refusal(error):
            raise
        raise _kind(error)(str(error)) from error


def code_of(error):
    """The exit code that an exception stands for."""
    if isinstance(error, Stopped):
        return RESUME
    return USAGE if isinstance(error, ConfigError | Diverged) else FAILED


class _Missing(ConfigError, FileNotFoundError):
    """What the config names is not there."""


class _Taken(ConfigError, FileExistsError):
    """What the config wants to make is there already."""


class _Barred(ConfigError, PermissionError):
    """What the config names does not open to the keys of this machine."""


class _Lacking(ConfigError, ModuleNotFoundError):
    """What the config asks for needs a package that is not installed."""


def _kind(error):
    """The ConfigError that is also what the error was."""
    if isinstance(error, FileNotFoundError):
        return _Missing
    if isinstance(error, PermissionError):
        return _Barred
    if isinstance(error, ModuleNotFoundError):
        return _Lacking
    return _Taken if isinstance(error, FileExistsError) else ConfigError


def _is_refusal(error):
    if isinstance(error, OSError):
        return error.errno is None
    if isinstance(error, ModuleNotFoundError):
        return error.name is None
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    raised_in = trace.tb_frame.f_globals.get('__name__', '')
    ours = raised_in.split('.')[0] == __package__.split('.')[0]
    # Programs that jax compiled raise from whoever calls them.
    return ours and not _STATUS.match(str(error))
