"""One question to a process of its own, and its answer: a crash or a full memory there
ends nothing here. Both are JSON."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import traceback

from jepa_text.running import xla_flags


def ask(module, question, what, *, timeout=None, python=None, environ=None):
    """What `python -m MODULE`, which calls `serve`, answers to a question.

    `what` names it in errors; `environ` {name: value} is added to the environment. Raises
    ValueError if a signal ended the process, RuntimeError if it failed, with the error
    that was raised there, and TimeoutError after `timeout` seconds, when all that it
    started is ended, too.
    """
    limited = timeout is not None
    process = subprocess.Popen(
        [python or sys.executable, '-m', module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environ or {})},
        # To be ended with all that it starts, such as compilers.
        start_new_session=limited,
    )
    try:
        said, _ = process.communicate(json.dumps(question), timeout)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f'{what}: ended after {timeout:,.0f} s.') from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            if limited:
                os.killpg(process.pid, signal.SIGKILL)
            elif process.poll() is None:
                process.kill()
        process.wait()
    if process.returncode < 0:
        ended = signal.Signals(-process.returncode).name
        raise ValueError(
            f'{what}: ended by {ended}; if nobody did that, memory was full, or XLA met '
            'a flag that it does not know: its words are above.'
        )
    if process.returncode > 0:
        raise RuntimeError(f'{what} failed; its traceback is above.')
    # Libraries may have written before, when they were imported.
    answer = json.loads(said.splitlines()[-1])
    if 'raised' in answer:
        raise RuntimeError(f'{what} failed: {answer["raised"]}')
    return answer


def serve(function):
    """Writes what `function` answers to the question on stdin, a dict, or what it raises.
    What libraries print goes to stderr: stdout belongs to the answer."""
    xla_flags.mend()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        answer = function(json.load(sys.stdin))
    except Exception as error:
        traceback.print_exc()
        answer = {'raised': first_line(error)}
    json.dump(answer, answers)
    answers.close()


def first_line(error):
    """An error in a line: its type, and how its words begin."""
    words = (str(error).strip() or 'no message').splitlines()[0]
    return f'{type(error).__name__}: {words}'
