"""Runs tasks that depend on each other: in this process, in several, or on Ray.

    tasks = [
        engine.Task('trunk', 'package.module.function', [1, 'a']),
        engine.Task('leaf', 'package.module.function', [2, 'b'], after=('trunk',)),
    ]
    with engine.opened(engine.Options(jobs=2), 'workdir') as run:
        outcomes = run(tasks)
    outcomes['leaf'].value          what the function returned
    outcomes['leaf'].error          or the exception that ended it

A task calls an importable function with plain arguments and has a plain result: what JSON
can hold, on all engines. It saves its results itself and recognizes them, as the same
tasks may be run again at any time.

    local           one task after another in this process, in the order of the list
    local, jobs=N   N tasks at a time, each in a fresh process
    ray             as many as the cluster has room for, each in a fresh process; the
                    workdir is a folder that all nodes see, or an address

A fresh process takes about a second to start: give a task enough to do. It has the
environment of its machine, except for what would make it join the job of its driver, and
as many threads on Ray as without. It writes to workdir/logs/TASK.log, and ends with its
driver.

A task that fails stops no other. One whose process is lost, to a kill or with its node,
is started again; an error that it raises is final. A workdir has one driver at a time.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from jepa_text.files import addresses, atomic, extras, locks
from jepa_text.parallel import exits, signals
from jepa_text.report import progress
from jepa_text.settings import schema

LOGS, LOCK = 'logs', 'driver.lock'  # names in the workdir
_PROGRAM = 'from jepa_text import engine; engine.main()'
_POLL = 0.1  # seconds
_GRACE = 60.0  # seconds in which a task that is asked to stop may save its state
_PATIENCE = 15.0  # seconds in which Ray notices that a driver is gone
# What would make a task join the job of its driver.
_OF_JOB = re.compile(r'SLURM_|OMPI_|PMIX?_|JAX_(COORDINATOR|NUM_PROC|PROCESS_ID)')
_THREADS = 'OMP_NUM_THREADS'  # which Ray sets to 1
# Errors that say enough without a traceback, and keep their type between processes.
_CLEAR = {one.__name__: one for one in (exits.ConfigError, exits.Diverged, exits.Stopped)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The section `engine` of a config: where tasks run."""

    name: str = schema.field('local', 'where: local or ray', choices=('local', 'ray'))
    jobs: int = schema.field(1, 'local: processes at a time; 1: this one', minimum=1)
    cpus: float = schema.field(1.0, 'ray: CPU cores of each task', minimum=0)
    gpus: float = schema.field(0.0, 'ray: GPUs of each task', minimum=0)
    retries: int = schema.field(3, 'restarts of a task whose process is lost', minimum=0)

    @property
    def is_in_process(self):
        """Whether tasks run in this very process."""
        return self.name == 'local' and self.jobs == 1


# For tasks that are given one by one: each in a fresh process.
OWN_PROCESS = Options(jobs=2, retries=0)


@dataclasses.dataclass(frozen=True)
class Task:
    """A call of `function`, the full name of a function, with positional `arguments`.

    after        the names of earlier tasks that must end first, well or not
    variables    environment variables of a fresh process
    cost         how long it takes, in proportion to the others
    """

    name: str
    function: str
    arguments: list
    after: tuple[str, ...] = ()
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    cost: float = 1.0


class Outcome(NamedTuple):
    """The `value` that a task returned, or the `error` that ended it."""

    value: Any = None
    error: Exception | None = None


@contextlib.contextmanager
def opened(options, workdir):
    """Yields a function (tasks, on_end=None) -> {name: Outcome} that runs tasks.

    `on_end(name, outcome)` is called as each ends; by default a line is printed. A bar of
    several tasks has the first word of their names. After a signal that asks to stop,
    tasks are stopped, and KeyboardInterrupt or exits.Stopped is raised. Raises ValueError
    for invalid tasks, and exits.ConfigError if no node of the cluster is large enough for
    one.

    This process is the only driver of the workdir: opening it raises RuntimeError, with
    the name of the other one, if there is one already. Raises ModuleNotFoundError if Ray
    is not installed.
    """
    place = str(workdir).rstrip('/')
    place = place if addresses.is_address(place) else os.path.abspath(place)
    with (_ray_driver if options.name == 'ray' else _local_driver)(place) as ray:
        yield functools.partial(_run, options, place, ray)


def _run(options, place, ray, tasks, on_end=None):
    for index, task in enumerate(tasks):
        earlier = {other.name for other in tasks[:index]}
        if task.name in earlier or not {*task.after} <= earlier:
            raise ValueError(
                f'The name of the task {task.name!r} must be unique, and each of '
                f'after={task.after} that of an earlier task.'
            )
    waiting, running, outcomes = list(tasks), {}, {}
    slots = len(tasks) if ray else options.jobs
    name = tasks[0].name.partition(' ')[0].rstrip(':') if tasks else ''
    costs = [(1, task.cost) for task in tasks]
    with (
        progress.Progress(name, len(tasks), 0, costs) as bar,
        _executor(options, place, ray) as (submit, requests),
    ):

        def ended(name, outcome):
            outcomes[name] = outcome
            if on_end:
                on_end(name, outcome)
            else:
                result = f'failed: {outcome.error}' if outcome.error else 'done'
                bar.log(f'{name}: {result}')
            bar.update(len(outcomes))

        while waiting or running:
            for task in list(waiting):
                if len(running) < slots and outcomes.keys() >= {*task.after}:
                    running[submit(task)] = task.name
                    waiting.remove(task)
            done, _ = concurrent.futures.wait(
                running, _POLL, return_when=concurrent.futures.FIRST_COMPLETED
            )
            if requests and requests.requested:
                raise exits.Stopped('stopped as requested; the same command resumes.')
            for future in done:
                name = running.pop(future)
                error = future.exception()
                if isinstance(error, exits.Stopped):
                    raise error
                error = getattr(error, 'cause', None) or error  # Ray wraps it
                ended(name, Outcome(None if error else future.result(), error))
    return outcomes


@contextlib.contextmanager
def _executor(options, place, ray):
    """Yields (submit(task) -> Future of its result, StopRequests or None)."""
    if options.is_in_process:
        yield _call_here, None
        return
    stopping, started = threading.Event(), []
    if ray:
        wanted = dict(num_cpus=options.cpus, num_gpus=options.gpus)
        nodes = [node['Resources'] for node in ray.nodes() if node['Alive']]
        for kind, amount in zip(('CPU', 'GPU'), wanted.values()):
            if amount > (largest := max(node.get(kind, 0) for node in nodes)):
                raise exits.ConfigError(
                    f'A task needs {amount:g} {kind}s, but no node of the Ray cluster '
                    f'has more than {largest:g}, and a task cannot use several nodes. '
                    'Train such a run alone, with jepa-text train in one process per '
                    'node.'
                )
        call = ray.remote(max_retries=options.retries, **wanted)(_call_in_process)
    with signals.StopRequests() as requests, contextlib.ExitStack() as stack:
        pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
        stack.enter_context(pool)

        def submit(task):
            given = _call(options, place, task)
            if not ray:
                return pool.submit(_call_in_process, *given, stopping)
            started.append(call.options(name=task.name).remote(*given))
            return started[-1].future()

        try:
            yield submit, requests
        except BaseException:
            for reference in started:
                ray.cancel(reference, force=True)
            raise
        finally:
            stopping.set()


def _call_here(task):
    """Calls a task in this process, and returns a Future that is done."""
    future = concurrent.futures.Future()
    try:
        future.set_result(_called(task.function, task.arguments))
    except Exception as error:
        if not isinstance(error, tuple(_CLEAR.values())):
            traceback.print_exception(error)
        future.set_exception(error)
    return future


def _called(function, arguments):
    module, _, name = function.rpartition('.')
    called = getattr(importlib.import_module(module), name)
    return json.loads(json.dumps(called(*json.loads(json.dumps(arguments)))))


def _call(options, place, task):
    """Returns the arguments of `_call_in_process`."""
    log = ''
    if not addresses.is_address(place):
        name = re.sub(r'[^\w.+=-]+', '-', task.name)
        if len(name.encode()) > 200:  # of 255 that a name may have
            start = name.encode()[:180].decode(errors='ignore')
            name = f'{start}-{zlib.crc32(task.name.encode()):08x}'
        log = os.path.join(place, LOGS, f'{name}.log')
    path = os.pathsep.join(map(os.path.abspath, sys.path))
    threads = {_THREADS: os.environ[_THREADS]} if _THREADS in os.environ else {}
    variables = {**threads, **task.variables, 'PYTHONPATH': path}
    return dataclasses.asdict(task), log, os.getcwd(), variables, options.retries


def _call_in_process(task, log, folder, variables, retries, stopping=None):
    """Calls a function in a fresh process and returns its result.

    Starts a process that ends without an answer again. `stopping` is an Event; on Ray,
    the process of this function is killed instead.
    """
    inherited = {n: x for n, x in os.environ.items() if not _OF_JOB.match(n)}
    inherited.pop(_THREADS, None)
    with contextlib.ExitStack() as stack:
        answer = Path(stack.enter_context(tempfile.TemporaryDirectory()), 'answer')
        if log:
            os.makedirs(os.path.dirname(log), exist_ok=True)
        output = stack.enter_context(open(log, 'ab')) if log else None
        child = subprocess.Popen(
            [sys.executable, '-c', _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=inherited | variables,
            start_new_session=True,  # it gets no signals of the terminal
        )
        stack.callback(child.wait)
        # At the end of its input, the process stops. It may have been killed before it.
        stack.callback(_unless_gone, child.stdin.close)
        _unless_gone(child.stdin.write, f'{json.dumps([str(answer), task])}\n'.encode())
        _unless_gone(child.stdin.flush)
        while child.poll() is None and not (stopping and stopping.is_set()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_POLL)
        _unless_gone(child.stdin.close)
        code = child.wait()
        if answer.exists():
            told = json.loads(answer.read_text(encoding='utf-8'))
            if 'value' in told:
                return told['value']
            raise _CLEAR.get(told['kind'], RuntimeError)(told['text'])
    cause = signal.Signals(-code).name if code < 0 else f'exit code {code}'
    lost = f'its process ended with {cause}' + (f'; see {log}' if log else '')
    if retries and not (stopping and stopping.is_set()):
        print(f'{task["name"]}: {lost}; it is started again', flush=True)
        return _call_in_process(task, log, folder, variables, retries - 1, stopping)
    raise RuntimeError(lost)


def _unless_gone(call, *arguments):
    with contextlib.suppress(BrokenPipeError):
        call(*arguments)


def main():
    """Runs the task that is described on stdin; the program of a fresh process."""
    answer, task = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        told = {'value': _called(task['function'], task['arguments'])}
    except Exception as error:
        kind = next((k for k, one in _CLEAR.items() if isinstance(error, one)), '')
        text = str(error) if kind else f'{type(error).__name__}: {error}'
        told = {'kind': kind, 'text': text}
        traceback.print_exception(error)
    atomic.write(answer, json.dumps(told))  # a process may be killed at any time


def _end_with_parent():
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os._exit(exits.FAILED)


@contextlib.contextmanager
def _local_driver(place):
    """Holds the lock of a folder; there is none at an address."""
    if addresses.is_address(place):
        yield
        return
    os.makedirs(place, exist_ok=True)
    with locks.held(os.path.join(place, LOCK), place):
        yield


@contextlib.contextmanager
def _ray_driver(place):
    """Yields the module ray, connected to a cluster, with a named actor as the lock."""
    ray = extras.package('ray', 'ray', "engine.name='ray'")
    with contextlib.ExitStack() as stack:
        if not ray.is_initialized():
            ray.init(log_to_driver=False)
            stack.callback(ray.shutdown)
        named = dict(name=place, namespace='jepa_text')
        # It ends with the job of its driver. On a lost node, it is restarted.
        holder = ray.remote(num_cpus=0, max_restarts=-1, **named)(_Holder)
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                actor = holder.remote(locks.myself())
                break
            except ValueError:  # the name is taken
                if time.monotonic() > end:
                    who = ray.get(ray.get_actor(**named).who.remote())
                    raise locks.in_use(place, who) from None
                time.sleep(_POLL)
        stack.callback(ray.kill, actor)
        yield ray


class _Holder:
    """The driver of a workdir, known to a whole cluster by the name of the workdir."""

    def __init__(self, who):
        self._who = who

    def who(self):
        return self._who
