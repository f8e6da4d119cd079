"""Python programs in processes of their own."""

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _arguments(words, env, options):
    """The command of `words`, for Python; the program after -c may be indented."""
    options = dict(cwd=ROOT, text=True, env=os.environ | (env or {})) | options
    return [sys.executable, *(textwrap.dedent(str(word)) for word in words)], options


def run(*words, env=None, code=0, timeout=200, **options):
    """The CompletedProcess of a program that ends with `code` (None: any).

    `env` are further environment variables; `options` are those of subprocess.run.
    """
    command, options = _arguments(words, env, dict(capture_output=True) | options)
    done = subprocess.run(command, timeout=timeout, **options)
    assert code in (None, done.returncode), done.stderr
    return done


@contextlib.contextmanager
def started(*words, env=None, **options):
    """Yields the Popen of a program, which is killed at the end if it still runs."""
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    command, options = _arguments(words, env, pipes | options)
    with subprocess.Popen(command, **options) as child:
        try:
            yield child
        finally:
            child.kill()


def until(condition, seconds=60.0):
    """Waits for a condition and returns its value; raises TimeoutError."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f'{condition} is not true after {seconds} s')
        time.sleep(0.01)
    return value
