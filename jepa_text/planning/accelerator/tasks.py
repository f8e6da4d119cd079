"""Schedules the accelerator checks: each runs in a child process and gives one result."""

import concurrent.futures
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from jepa_text.models.attention import attend
from jepa_text.planning import benchmark, child
from jepa_text.planning.accelerator import settings
from jepa_text.planning.accelerator.settings import UNSUPPORTED

# A check needs at least this many seconds to be started.
SHORTEST = 10
# Processes that may share the device; one for TPUs. With SHARED, no process preallocates
# the memory of a GPU.
AT_ONCE = {'cpu': 2, 'gpu': 8}
SHARED = {'XLA_PYTHON_CLIENT_PREALLOCATE': 'false'}
# Steps of the run that is compared with the CPU, and of the training loop.
CURVE, LOOP = 40, 60
# Tolerances of the loss in nats: the largest difference at a step, and the difference of
# the means of the last quarter. On a CPU, bfloat16 differed from float32 by 0.0005 and
# 0.00002, other rows by 0.43 and 0.063. Wrong attention hardly changes the loss so early
# (values 1.1 times too large: 0.004); the kernel checks find it.
ALLOWED = {'a step': 0.02, 'the last quarter': 0.01}
# Parts of the out-of-memory messages of jax and torch.
OUT_OF_MEMORY = ('RESOURCE_EXHAUSTED', 'out of memory')


class Unsupported(Exception):  # noqa: N818 - not an error
    """The machine or the installed packages do not support a check."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A check. `call(seconds)` returns its findings, with failures listed in `wrong`;
    raises Unsupported, TimeoutError, or the error that occurred."""

    group: str
    name: str
    call: Callable


def run(tasks, deadline, limit, results, on_result=lambda *_: None, at_once=1):
    """Runs tasks in order, `at_once` in parallel, and adds {name: result} to `results`.

    No task may take more than `limit` seconds. Tasks for which the `deadline` (of
    time.monotonic) leaves no time get the status `left`. A result has the task's `group`,
    its `status` (passed, failed, cannot or left), `seconds`, the reason `why`, and its
    findings `found`. `on_result(name, result)` is called for each.
    """

    def timed(task):
        began = time.monotonic()
        result = _result(task, deadline - began, limit)
        return {'group': task.group, **result, 'seconds': time.monotonic() - began}

    pool = concurrent.futures.ThreadPoolExecutor(at_once)
    try:
        for task, result in zip(tasks, pool.map(timed, tasks)):
            results[task.name] = result
            on_result(task.name, result)
    finally:
        # After a signal, start no further task and do not wait for the running ones.
        pool.shutdown(wait=False, cancel_futures=True)


def _result(task, seconds, limit):
    if seconds < SHORTEST:
        return dict(status='left', why='no time was left', found={})
    try:
        found = task.call(min(seconds, limit))
    except Unsupported as reason:
        return dict(status='cannot', why=str(reason), found={})
    except TimeoutError as error:
        if seconds < limit:
            return dict(status='left', why='the time was up during the check', found={})
        return dict(status='failed', why=str(error), found={})
    # Any error is a finding about this machine; the other checks still run.
    except Exception as error:
        return dict(status='failed', why=str(error) or repr(error), found={})
    wrong = '; '.join(found.get('wrong', ()))
    return dict(status='failed' if wrong else 'passed', why=wrong, found=found)


def run_check(check, seconds, environ=None, **arguments):
    """Runs a check of inside.py in a child process; raises the errors of child.call."""
    module = 'jepa_text.planning.accelerator.inside'
    request = dict(check=check, **arguments)
    return child.call(module, request, check, timeout=seconds, environ=environ)


def environment():
    """The Task that must pass before all others."""
    return Task('environment', 'environment', lambda s: run_check('environment', s))


def checks(found, folder):
    """(Tasks, number in parallel) that check the correctness of a machine with the
    environment `found`; none is timed. Files go to `folder`."""
    platform, devices = found['platform'], found['devices']
    rows = devices * -(-8 // devices)
    tasks = [
        Task('curve', 'curve', lambda s: curve(s, rows, folder)),
        *(
            Task('kernels', f'attention {name}', lambda s, name=name: kernel(s, name))
            for name in attend.FASTEST[platform]
        ),
        Task('arithmetic', 'arithmetic', lambda s: run_check('arithmetic', s, SHARED)),
    ]
    return tasks, AT_ONCE.get(platform, 1)


def speeds(found, sizes, folder, python=None, count=None):
    """Tasks that measure the speed of a machine, the most important first; they run one
    at a time. `python` is an interpreter for transformers, or None for this one; `count`
    limits the number of benchmark cases."""
    machine = found['platform'], found['devices'], found['device']
    cases = settings.speeds(sizes, *machine)[:count]
    divisors = {}
    tasks = [
        Task('speed', case['name'], lambda s, case=case: speed(s, case, python, divisors))
        for case in cases
    ]
    first = cases[0] | {'trace': str(Path(folder, 'trace')), 'steps_a_round': 1}
    trace = Task('trace', 'trace', lambda s: speed(s, first, divisors=divisors))
    training = Task('loop', 'loop', lambda s: loop(s, cases[0], folder, divisors))
    # After the first size, by us and by transformers.
    return [*tasks[:2], trace, training, *tasks[2:]]


def kernel(seconds, backend):
    """Results of an attention backend; raises Unsupported, with the reasons, if it
    supports no request."""
    found = run_check('kernels', seconds, SHARED, backend=backend)
    results = dict.fromkeys(one['result'] for one in found['answers'])
    if all(result.startswith(UNSUPPORTED) for result in results):
        reasons = (result.removeprefix(UNSUPPORTED) for result in results)
        raise Unsupported('; '.join(reasons))
    return found


def curve(seconds, rows, folder):
    """Compares the losses of a short run, in bfloat16 with this machine's kernels, with
    those of the CPU in float32, for the same seed and rows."""
    until = time.monotonic() + seconds
    runs = {}
    for name, dtype, environ in (
        ('device', 'bfloat16', SHARED),
        ('cpu', 'float32', {'JAX_PLATFORMS': 'cpu'}),
    ):
        config = settings.run('toy', rows, CURVE, folder, dtype=dtype)
        left = until - time.monotonic()
        folder_of_run = str(Path(folder, f'curve-{name}'))
        runs[name] = run_check(
            'training', left, environ, config=config, run=folder_of_run
        )
    off = differences(runs['device']['losses'], runs['cpu']['losses'])
    wrong = [
        f'{what} is {off[what]:.3f} nats from the CPU ({allowed} are allowed)'
        for what, allowed in ALLOWED.items()
        if not off[what] <= allowed
    ]
    return {**runs, 'off': off, 'wrong': wrong + not_falling(runs['device']['losses'])}


def differences(losses, reference):
    """{'a step', 'the last quarter'}: differences of two loss curves, in nats."""
    difference_S = np.subtract(losses, reference)
    last = difference_S[-max(1, len(difference_S) // 4) :]
    return {
        'a step': float(np.abs(difference_S).max()),
        'the last quarter': float(abs(last.mean())),
    }


def not_falling(losses):
    """[message] if the last loss is not below the first, else []."""
    if losses[-1] < losses[0]:
        return []
    return [f'the loss did not fall from {losses[0]:.3f} to {losses[-1]:.3f}']


def speed(seconds, case, python=None, divisors=None):
    """Measures a case of benchmark.py.

    If memory is insufficient, halves the rows until they fit; `divisors` {side: divisor
    of the rows} carries this over to later cases. Optional cases of ours keep their rows
    and raise Unsupported instead. Raises RuntimeError for other failures.
    """
    until = time.monotonic() + seconds
    divisors = {} if divisors is None else divisors
    side, keeps_rows = case['side'], case['optional'] and case['side'] == 'ours'
    while True:
        divisor = divisors.get(side, 1)
        rows = max(case['mesh']['fsdp'], case['rows'] // divisor)
        left = max(1, until - time.monotonic())
        interpreter = None if side == 'ours' else python
        try:
            result = benchmark.run_case(case | {'rows': rows}, left, interpreter)
            break
        except benchmark.CaseError as error:
            is_full = any(part in str(error) for part in OUT_OF_MEMORY)
            if case['optional'] and error.unsupported or is_full and keeps_rows:
                raise Unsupported(str(error)) from error
            if not is_full or rows == case['mesh']['fsdp']:
                raise RuntimeError(str(error)) from error
            divisors[side] = 2 * divisor
    flops = result['flops'] / result['seconds']
    return result | {
        'rows': rows,
        'size': case['model']['preset'],
        'objective': case['objective']['name'],
        'side': side,
        'remat': case['model'].get('remat'),
        'tokens_per_second': result['tokens'] / result['seconds'],
        'mfu': flops / result['peak'] if result['peak'] else None,
    }


def loop(seconds, case, folder, divisors):
    """Runs `train` itself, including data loading, masking and metrics."""
    size, rows = case['model']['preset'], case['rows'] // divisors.get('ours', 1)
    model = {key: case['model'][key] for key in ('dtype', 'remat')}
    config = settings.run(size, max(rows, case['mesh']['fsdp']), LOOP, folder, **model)
    found = run_check('training', seconds, config=config, run=str(Path(folder, 'loop')))
    return found | {'size': size, 'wrong': not_falling(found['losses'])}
