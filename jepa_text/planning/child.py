"""Runs a function in a child process: one JSON request, one JSON response.

A crash or an out-of-memory kill of the child leaves the calling process intact.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import traceback

from jepa_text.running import xla_flags


def call(module, request, what, *, timeout=None, python=None, environ=None):
    """Returns the response of `python -m MODULE`, which calls `serve`, to a request.

    `what` names the call in error messages; `environ` {name: value} is added to the
    environment. Raises ValueError if a signal killed the process, RuntimeError if it
    failed, with the error raised there, and TimeoutError after `timeout` seconds, in
    which case all processes that it started are killed too.
    """
    limited = timeout is not None
    process = subprocess.Popen(
        [python or sys.executable, '-m', module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environ or {})},
        # A session of its own can be killed with its children, such as compilers.
        start_new_session=limited,
    )
    try:
        output, _ = process.communicate(json.dumps(request), timeout)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f'{what}: timed out after {timeout:,.0f} s.') from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            if limited:
                os.killpg(process.pid, signal.SIGKILL)
            elif process.poll() is None:
                process.kill()
        process.wait()
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        raise ValueError(
            f'{what}: killed by {name}. The likely causes are lack of memory or a flag '
            'that XLA does not know; see the output above.'
        )
    if process.returncode > 0:
        raise RuntimeError(f'{what} failed; see the traceback above.')
    # Libraries may have printed lines before, while they were imported.
    response = json.loads(output.splitlines()[-1])
    if 'raised' in response:
        raise RuntimeError(f'{what} failed: {response["raised"]}')
    return response


def serve(function):
    """Calls `function` with the request from stdin and writes its response, or the error
    that it raised, to stdout. All other output is redirected to stderr."""
    xla_flags.apply()
    responses = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        response = function(json.load(sys.stdin))
    except Exception as error:
        traceback.print_exc()
        response = {'raised': first_line(error)}
    json.dump(response, responses)
    responses.close()


def first_line(error):
    """The type of an error and the first line of its message."""
    message = (str(error).strip() or 'no message').splitlines()[0]
    return f'{type(error).__name__}: {message}'
