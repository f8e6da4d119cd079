"""Preparation of units in parallel processes on this machine.

    parent                  worker
    task, unit number   ->  reads the unit, writes its shards, marks it as done
    the next one        <-  {}, or an error

A worker is a separate program, so scripts need no `if __name__ == '__main__'` guard. It
ends with the parent. On an interrupt, which a terminal sends to all processes, the parent
kills its workers; their unfinished units start over on resume.
"""

import builtins
import contextlib
import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import traceback

from jepa_text.data.preparing import unit
from jepa_text.data.preparing import work as works
from jepa_text.report import console

TASKS = {'prepare': unit.make, 'compare': unit.fingerprint}
WORKER = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
from jepa_text.data.preparing import processes
processes.main(sys.argv[1])
"""


def run(work, task, numbers, workers=0):
    """Runs TASKS[task] on the units of these numbers with a progress bar, with as many
    workers as there are cores by default.

    Raises the error of the first worker that fails, RuntimeError if one is killed;
    finished units are kept.
    """
    workers = min(workers or cores(), len(numbers))
    if workers < 2:
        for number in numbers:
            TASKS[task](work, number)
        return
    waiting, failures, started = queue.SimpleQueue(), [], []
    for number in numbers:
        waiting.put(f'{task} {number}\n')
    total = len(work.units)
    start = total - len(numbers)
    bar = console.Progress(task, total, start=start)
    done = itertools.count(start + 1)

    def serve():
        try:
            with _start(work.folder, max(1, cores() // workers)) as worker:
                started.append(worker)
                _serve(worker, waiting, failures, lambda: bar.update(next(done)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=serve) for _ in range(workers)]
    with bar:
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:
            failures.append(None)
            for worker in started:
                worker.kill()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
            raise
    if failures:
        raise failures[0]


def _serve(worker, waiting, failures, on_done):
    """Sends units to one worker until none is left or one has failed."""
    try:
        while not failures:
            answer = _request(worker, waiting.get_nowait())
            if not answer:
                raise RuntimeError(_exit_message(worker.wait()))
            if error := json.loads(answer):
                raise error_from_dict(error)
            on_done()
    except queue.Empty:
        pass
    finally:
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.close()


def _request(worker, line):
    """Sends a line to a worker and returns its answer; '' if it has exited."""
    with contextlib.suppress(BrokenPipeError):
        worker.stdin.write(line)
        worker.stdin.flush()
    return worker.stdout.readline()


def _start(folder, threads):
    variables = {
        # So that the worker finds the same modules, including those of the user.
        'PYTHONPATH': os.pathsep.join(filter(None, sys.path)),
        # For the tokenizers library.
        'RAYON_NUM_THREADS': str(threads),
        'TOKENIZERS_PARALLELISM': 'true',
    }
    return subprocess.Popen(
        [sys.executable, '-c', WORKER, os.fspath(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | variables,
    )


def _exit_message(code):
    cause = f'signal {-code}' if code < 0 else f'exit code {code}'
    return (
        f'A worker process of `prepare` ended with {cause}; signal 9 usually means that '
        'memory ran out. Finished units are kept: run the same command again, with '
        '--config.prepare.workers=1 if memory is short.'
    )


def error_from_dict(content):
    """Returns the error that `error_to_dict` converted."""
    if content['errno'] is not None:
        return OSError(content['errno'], content['text'], content['file'])
    return getattr(builtins, content['kind'])(content['text'])


def cores():
    """Returns how many cores this process may use, in a container often fewer than
    all."""
    if hasattr(os, 'sched_getaffinity'):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def main(folder):
    """Runs a worker: reads a task and a unit number per line and answers each."""
    # What a source prints goes to stderr, so that it is not taken for an answer.
    answers = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    work = None
    for line in sys.stdin:
        answer = {}
        try:
            work = work or works.load(folder)
            task, number = line.split()
            TASKS[task](work, int(number))
        except Exception as error:
            answer = error_to_dict(error)
        answers.write(f'{json.dumps(answer)}\n')
        answers.flush()


def error_to_dict(error):
    """Converts an error to a dict that can be written as JSON."""
    if isinstance(error, OSError) and error.errno is not None:
        more = {'errno': error.errno, 'file': error.filename}
        return {'kind': 'OSError', 'text': error.strerror, **more}
    if isinstance(error, ValueError | OSError | ImportError):
        # Unlike the others, a UnicodeError is not made of a text alone.
        bases = (one for one in type(error).__mro__ if not issubclass(one, UnicodeError))
        kind = next(one.__name__ for one in bases if hasattr(builtins, one.__name__))
        return {'kind': kind, 'errno': None, 'text': str(error)}
    # A bug, in this program or in a source of the user.
    return {'kind': 'RuntimeError', 'errno': None, 'text': traceback.format_exc()}
