"""The list of checks: each has a name, asks a process of its own, and has one result."""

import concurrent.futures
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from jepa_text.models.attention import attend
from jepa_text.planning import benchmark, child
from jepa_text.planning.accelerator import settings
from jepa_text.planning.accelerator.settings import CANNOT

# Seconds below which no check is begun.
SHORTEST = 10
# Processes that the device lets in; a TPU one. None then takes all memory of a GPU.
AT_ONCE = {'cpu': 2, 'gpu': 8}
SHARED = {'XLA_PYTHON_CLIENT_PREALLOCATE': 'false'}
# Steps of the runs: compared with the CPU's; and of the first size, by `train` itself.
CURVE, LOOP = 40, 60
# How far losses may be apart, in nats: the largest difference of a step, and that of the
# means of the last quarter. On a CPU bfloat16 was 0.0005 and 0.00002 from float32, other
# rows 0.43 and 0.063. Attention that is wrong hardly shows so early (values 1.1 times too
# large: 0.004): that is for the kernels' own check.
ALLOWED = {'a step': 0.02, 'the last quarter': 0.01}
# How errors of full memories begin, in jax and in torch.
FULL = ('RESOURCE_EXHAUSTED', 'out of memory')


class Cannot(Exception):  # noqa: N818 - it is no error
    """What a machine, or what is installed, does not have."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A check. `ask(seconds)` returns what was found, with `wrong` words if something is
    not as it must be; raises Cannot, TimeoutError, or what went wrong."""

    group: str
    name: str
    ask: Callable


def perform(tasks, deadline, limit, done, told=lambda name, result: None, at_once=1):
    """Does so many tasks at once, in their order, and puts {name: result} into `done`;
    those that the deadline (of time.monotonic) does not leave time for are `left`. None
    may take more than `limit` seconds.

    A result has its `group`, `status` (passed, failed, cannot or left), `seconds`, `why`
    in words, and what was `found`. `told` is called with each.
    """

    def one(task):
        began = time.monotonic()
        result = _result(task, deadline - began, limit)
        return {'group': task.group, **result, 'seconds': time.monotonic() - began}

    pool = concurrent.futures.ThreadPoolExecutor(at_once)
    try:
        for task, result in zip(tasks, pool.map(one, tasks)):
            done[task.name] = result
            told(task.name, result)
    finally:
        # Of a signal: no other is begun, and nobody waits.
        pool.shutdown(wait=False, cancel_futures=True)


def _result(task, seconds, limit):
    if seconds < SHORTEST:
        return dict(status='left', why='the time was up', found={})
    try:
        found = task.ask(min(seconds, limit))
    except Cannot as reason:
        return dict(status='cannot', why=str(reason), found={})
    except TimeoutError as error:
        if seconds < limit:
            return dict(status='left', why='the time was up before it ended', found={})
        return dict(status='failed', why=str(error), found={})
    # Any error is a finding about this machine, and the other checks have theirs.
    except Exception as error:
        return dict(status='failed', why=str(error) or repr(error), found={})
    wrong = '; '.join(found.get('wrong', ()))
    return dict(status='failed' if wrong else 'passed', why=wrong, found=found)


def inside(check, seconds, environ=None, **question):
    """What a check of inside.py finds; errors as of child.ask."""
    module = 'jepa_text.planning.accelerator.inside'
    asked = dict(check=check, **question)
    return child.ask(module, asked, check, timeout=seconds, environ=environ)


def environment():
    """The Task that all others wait for."""
    return Task('environment', 'environment', lambda s: inside('environment', s))


def checks(found, folder):
    """(Tasks, how many at once) that tell whether a machine whose environment is `found`
    is right; none is timed. Files go to `folder`."""
    platform, devices = found['platform'], found['devices']
    rows = devices * -(-8 // devices)

    made = [
        Task('curve', 'curve', lambda s: curve(s, rows, folder)),
        *(
            Task('kernels', f'attention {name}', lambda s, name=name: kernel(s, name))
            for name in attend.FASTEST[platform]
        ),
        Task('arithmetic', 'arithmetic', lambda s: inside('arithmetic', s, SHARED)),
    ]
    return made, AT_ONCE.get(platform, 1)


def speeds(found, sizes, folder, python=None, count=None):
    """Tasks that tell how fast a machine is, the most important first; one at a time.
    `python` is another interpreter for transformers, or None; `count`: so many steps."""
    about = found['platform'], found['devices'], found['device']
    cases = settings.speeds(sizes, *about)[:count]
    parts = {}
    made = [
        Task('speed', case['name'], lambda s, case=case: speed(s, case, python, parts))
        for case in cases
    ]
    first = cases[0] | {'trace': str(Path(folder, 'trace')), 'steps_a_round': 1}
    trace = Task('trace', 'trace', lambda s: speed(s, first, parts=parts))
    run = Task('loop', 'loop', lambda s: loop(s, cases[0], folder, parts))
    # After the first size, by itself and beside transformers.
    return [*made[:2], trace, run, *made[2:]]


def kernel(seconds, backend):
    """What a backend of attention answers. Cannot, with why, if it takes no question."""
    found = inside('kernels', seconds, SHARED, backend=backend)
    said = dict.fromkeys(one['result'] for one in found['answers'])
    if all(words.startswith(CANNOT) for words in said):
        raise Cannot('; '.join(words.removeprefix(CANNOT) for words in said))
    return found


def curve(seconds, rows, folder):
    """Steps of a small run, in bfloat16 with the kernels of this machine, against the
    CPU's in float32: the same seed, the same rows."""
    until = time.monotonic() + seconds
    runs = {}
    for where, dtype, environ in (
        ('device', 'bfloat16', SHARED),
        ('cpu', 'float32', {'JAX_PLATFORMS': 'cpu'}),
    ):
        config = settings.run('toy', rows, CURVE, folder, dtype=dtype)
        left = until - time.monotonic()
        asked = dict(config=config, run=str(Path(folder, f'curve-{where}')))
        runs[where] = inside('training', left, environ, **asked)
    off = apart(runs['device']['losses'], runs['cpu']['losses'])
    wrong = [
        f'{what} is {off[what]:.3f} nats from the CPU ({to} are allowed)'
        for what, to in ALLOWED.items()
        if not off[what] <= to
    ]
    return {**runs, 'off': off, 'wrong': wrong + falling(runs['device']['losses'])}


def apart(mine, other):
    """{'a step', 'the last quarter'}: how far two rows of losses are apart, in nats."""
    apart_S = np.subtract(mine, other)
    last = apart_S[-max(1, len(apart_S) // 4) :]
    return {
        'a step': float(np.abs(apart_S).max()),
        'the last quarter': float(abs(last.mean())),
    }


def falling(losses):
    """[what is wrong]: the last loss is not below the first."""
    if losses[-1] < losses[0]:
        return []
    return [f'the loss did not fall from {losses[0]:.3f} to {losses[-1]:.3f}']


def speed(seconds, case, python=None, parts=None):
    """Steps of a case of benchmark.py.

    Where memory is full, with half of the rows, and again: `parts` {side: by what the
    rows of later cases are divided} remembers it. What was asked for by name has no
    other number of rows, and can then not be had.
    """
    until = time.monotonic() + seconds
    parts = {} if parts is None else parts
    side, named = case['side'], case['optional'] and case['side'] == 'ours'
    while True:
        part = parts.get(side, 1)
        rows = max(case['mesh']['fsdp'], case['rows'] // part)
        left = max(1, until - time.monotonic())
        own = None if side == 'ours' else python
        try:
            answer = benchmark.ask(case | {'rows': rows}, left, own)
            break
        except benchmark.Left as error:
            full = any(word in str(error) for word in FULL)
            if case['optional'] and error.refused or full and named:
                raise Cannot(str(error)) from error
            if not full or rows == case['mesh']['fsdp']:
                raise RuntimeError(str(error)) from error
            parts[side] = 2 * part
    flops = answer['flops'] / answer['seconds']
    return answer | {
        'rows': rows,
        'size': case['model']['preset'],
        'objective': case['objective']['name'],
        'side': side,
        'remat': case['model'].get('remat'),
        'tokens_per_second': answer['tokens'] / answer['seconds'],
        'mfu': flops / answer['peak'] if answer['peak'] else None,
    }


def loop(seconds, case, folder, parts):
    """Steps of `train` itself, with its reading, masking and metrics."""
    size, rows = case['model']['preset'], case['rows'] // parts.get('ours', 1)
    model = {key: case['model'][key] for key in ('dtype', 'remat')}
    config = settings.run(size, max(rows, case['mesh']['fsdp']), LOOP, folder, **model)
    found = inside('training', seconds, config=config, run=str(Path(folder, 'loop')))
    return found | {'size': size, 'wrong': falling(found['losses'])}
