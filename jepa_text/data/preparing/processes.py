"""Units of a corpus shared among processes of this machine.

    parent                     worker
    what to do with a unit ->  reads it, writes its shards, marks it as done
    the next one           <-  {}, or what went wrong

A worker is a program of its own, so a script that prepares needs no guard against being
imported again. It ends when the parent does. An interrupt, which a terminal sends to all
of them, is for the parent, which kills its workers: their units are begun anew.
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
    """Has TASKS[task] done for the units of these numbers, and shows how far it is; by as
    many workers as there are cores, if not told.

    Raises what the first worker that fails raises, RuntimeError when one is killed; what
    is done by then stays done.
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
            told = lambda: bar.update(next(done))  # noqa: E731
            with _started(work.folder, max(1, cores() // workers)) as worker:
                started.append(worker)
                _serve(worker, waiting, failures, told)
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


def _serve(worker, waiting, failures, told):
    """Gives one worker unit after unit, until there is none or one has failed."""
    try:
        while not failures:
            answer = _asked(worker, waiting.get_nowait())
            if not answer:
                raise RuntimeError(_death(worker.wait()))
            if error := json.loads(answer):
                raise error_of(error)
            told()
    except queue.Empty:
        pass
    finally:
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.close()


def _asked(worker, line):
    """What a worker answers; '' if it is dead."""
    with contextlib.suppress(BrokenPipeError):
        worker.stdin.write(line)
        worker.stdin.flush()
    return worker.stdout.readline()


def _started(folder, threads):
    # Modules of the user's own are found where the parent finds them.
    here = {'PYTHONPATH': os.pathsep.join(filter(None, sys.path))}
    # Of the tokenizers library.
    here |= {'RAYON_NUM_THREADS': str(threads), 'TOKENIZERS_PARALLELISM': 'true'}
    return subprocess.Popen(
        [sys.executable, '-c', WORKER, os.fspath(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | here,
    )


def _death(code):
    ended = f'signal {-code}' if code < 0 else f'exit code {code}'
    return (
        f'A process that prepared rows was ended by {ended}; by signal 9 most often for '
        'want of memory. Units that are done are kept: run the same command again, with '
        '--config.prepare.workers=1 if memory is short.'
    )


def error_of(told):
    """The error that `told` told of."""
    if told['errno'] is not None:
        return OSError(told['errno'], told['text'], told['file'])
    return getattr(builtins, told['kind'])(told['text'])


def cores():
    """Cores that this process may use (a container often has fewer than the machine)."""
    if hasattr(os, 'sched_getaffinity'):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def main(folder):
    """A worker: does what it is told, line by line."""
    # What a source prints is no answer.
    answers = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    work = None
    for line in sys.stdin:
        answer = {}
        try:
            work = work or works.begin(folder)
            task, number = line.split()
            TASKS[task](work, int(number))
        except Exception as error:
            answer = told(error)
        answers.write(f'{json.dumps(answer)}\n')
        answers.flush()


def told(error):
    """An error as JSON."""
    if isinstance(error, OSError) and error.errno is not None:
        more = {'errno': error.errno, 'file': error.filename}
        return {'kind': 'OSError', 'text': error.strerror, **more}
    if isinstance(error, ValueError | OSError | ImportError):
        kinds = (kind.__name__ for kind in type(error).__mro__)
        kind = next(name for name in kinds if hasattr(builtins, name))
        return {'kind': kind, 'errno': None, 'text': str(error)}
    # A fault of the program, or of a source of the user's own.
    return {'kind': 'RuntimeError', 'errno': None, 'text': traceback.format_exc()}
