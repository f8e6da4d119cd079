"""`jepa-text benchmark`: training steps of several kinds against each other, in turns.

Each case is a process of its own, so that allocators, thread pools and peaks of memory
do not mix. All are made and warmed up first; then each does a few steps at a time, one
case after the other, round by round: what disturbs the machine disturbs all of them, and
the ratio of two cases is taken within a round. The table has medians and quartiles.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from jepa_text import recipe
from jepa_text.running import console

COLUMNS = ('case', 'ms a step', 'tokens/s', 'MFU', 'ratio', 'quartiles', 'memory, MiB')


def benchmark(config, workdir):
    """Runs the cases of a config (configs/benchmark.py) and returns their results.

    Writes workdir/benchmark.json: every time of every round, with the machine and the
    versions. A case that cannot be made here raises ValueError, in its own words; one
    that is `optional` says so and is left out.
    """
    config = recipe.plain(config)
    with contextlib.ExitStack() as stack:
        workers = {}
        for case in config['cases']:
            if (worker := _worker({**case_of(config, case), 'cases': None})) is not None:
                workers[case['name']] = stack.enter_context(worker)
        seconds = {name: [] for name in workers}
        for _ in range(config['rounds']):
            for name, worker in workers.items():
                seconds[name].append(worker.measure(config['steps_a_round']))
        results = {
            name: worker.about | {'seconds': seconds[name], 'memory': worker.memory()}
            for name, worker in workers.items()
        }
    against = {case['name']: case.get('against') for case in config['cases']}
    compare(results, {name: against[name] for name in results})
    Path(workdir).mkdir(parents=True, exist_ok=True)
    text = json.dumps({'config': config, 'results': results}, indent=1)
    (Path(workdir) / 'benchmark.json').write_text(text, encoding='utf-8')
    console.table(config['name'], COLUMNS, [table_row(*r) for r in results.items()])
    return results


def case_of(config, case):
    """All settings of a case: its own, those of the config, and of its model both."""
    return {**config, **case, 'model': {**config['model'], **case.get('model', {})}}


def _worker(case):
    """A Worker that is ready; None for an optional case that cannot be made here."""
    try:
        worker = Worker(case)
    except ValueError as error:
        if not case.get('optional'):
            raise
        print(f'{case["name"]}: left out. {error}')
        return None
    print(f'{case["name"]}: ready, {worker.about["library"]}')
    return worker


def compare(results, against):
    """Adds to each result `ratio`: its speed over that of the case it is compared with,
    round by round, as [lower quartile, median, upper quartile]."""
    for name, other in against.items():
        if other is not None and other not in results:
            raise ValueError(
                f'case {name!r} is against {other!r}, which is none of the cases: '
                f'{", ".join(results)}.'
            )
        if other is not None:
            own = results[name]['tokens'] / np.array(results[name]['seconds'])
            their = results[other]['tokens'] / np.array(results[other]['seconds'])
            results[name]['ratio'] = np.percentile(own / their, (25, 50, 75)).tolist()


def table_row(name, result):
    """The row of a result in the table of COLUMNS."""
    seconds = float(np.median(result['seconds']))
    speed = result['flops'] / seconds
    low, middle, high = result.get('ratio', (None,) * 3)
    return (
        name,
        f'{1e3 * seconds:,.1f}',
        f'{result["tokens"] / seconds:,.0f}',
        f'{speed / result["peak"]:.1%}' if result['peak'] else '',
        '' if middle is None else f'{middle:.3f}',
        '' if middle is None else f'{low:.3f} to {high:.3f}',
        f'{result["memory"] / 2**20:,.0f}',
    )


class Worker:
    """A process that has made one case and steps when it is told; a context manager."""

    def __init__(self, case):
        # The others' process uses jax for its batches only.
        platform = {} if case['side'] == 'ours' else {'JAX_PLATFORMS': 'cpu'}
        self._process = subprocess.Popen(
            [sys.executable, '-m', 'jepa_text.benchmark_worker'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Two frameworks on one accelerator: none may take all of its memory.
            env=os.environ | {'XLA_PYTHON_CLIENT_PREALLOCATE': 'false'} | platform,
        )
        self._name = case['name']
        try:
            self.about = self._ask(case)
        except ValueError:
            self.__exit__()
            raise

    def measure(self, steps):
        """Seconds a step, over so many steps."""
        return self._ask({'steps': steps})['seconds']

    def memory(self):
        """The peak of the memory of the device, or of the process on a CPU, in bytes."""
        return self._ask({'memory': True})['memory']

    def _ask(self, question):
        try:
            self._process.stdin.write(json.dumps(question) + '\n')
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # What it said before it ended is read next.
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {'error': 'ended without a word.'}
        if 'error' in answer:
            raise ValueError(f'benchmark case {self._name!r}: {answer["error"]}')
        return answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
