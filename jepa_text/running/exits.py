"""How a run ends: the number that the process leaves behind.

Whoever starts a run (a supervisor, SLURM, Kubernetes) decides by it what comes next:

     0  done
     1  the run failed; the same command resumes from the last checkpoint
     2  wrong usage, or a config that cannot run, or with which training diverged or
        collapsed: never again with the same command
    75  told to stop, the state is saved; the same command resumes (EX_TEMPFAIL)
    87  the watchdog ended a run that hung; the same command resumes

A process that a signal killed leaves 128 + the signal in a shell: as 1.
"""

DONE, FAILED, USAGE, RESUME, HUNG = 0, 1, 2, 75, 87

CANNOT_RUN = (ValueError, FileNotFoundError, FileExistsError)
FAILURES = (OSError, RuntimeError, FloatingPointError)


class Stopped(Exception):  # noqa: N818 - it is no error
    """A run that was told to stop has saved its state and left its loop."""


class Diverged(FloatingPointError):
    """A run whose loss is not finite, or that collapsed, has saved its state and stopped:
    the same command would only do so again."""


def code_of(error):
    """The exit code that an exception stands for: 2 if it lies in the config, else 1."""
    if isinstance(error, Stopped):
        return RESUME
    return USAGE if isinstance(error, (*CANNOT_RUN, Diverged)) else FAILED
