"""From the command to the end of the first step: seconds by the clock and the processor.

    python -m tests.start_speed [--other CHECKOUT] [--command study] [--rounds 3]

`study` starts configs/quickstart.py, `train` configs/toy.py:mlm. Each round starts it
twice in a new folder: cold, without prepared rows or compiled programs, and warm, with
both. With another checkout the two take turns, each start in a process of its own, with
the packages of this Python. Printed are medians: of the whole, of parts of it (programs
may be compiled at once, so parts need not add up), and how many programs were compiled
or loaded; and in the end theirs / ours.
"""

import argparse
import collections
import importlib
import itertools
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
STARTS = {'study': 'configs/quickstart.py', 'train': 'configs/toy.py:mlm'}
EVENTS = {
    '/jax/core/compile/jaxpr_trace_duration': 'tracing',
    '/jax/core/compile/jaxpr_to_mlir_module_duration': 'lowering',
    '/jax/core/compile/backend_compile_duration': 'compiling or loading',
}


class Watch:
    """What one start takes, in the process that starts."""

    def __init__(self, began, to):
        self._began, self._to = began, to
        self._found = collections.Counter()

    def spent(self):
        """(seconds by the clock, of the processor) since the process was asked for."""
        uses = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return time.time() - self._began, sum(u.ru_utime + u.ru_stime for u in uses)

    def mark(self, name, since=(0.0, 0.0)):
        """Adds what was spent since then, under a name."""
        for kind, now, then in zip(('clock', 'processor'), self.spent(), since):
            self._found[f'{name}, {kind}'] += now - then

    def count(self, event, seconds, **_):
        """Listens to jax."""
        if event in EVENTS:
            self._found[f'{EVENTS[event]}, clock'] += seconds
            self._found['programs'] += EVENTS[event] == 'compiling or loading'

    def end(self):
        """Writes all to the file and ends the process, whatever else it would do."""
        self.mark('whole')
        pathlib.Path(self._to).write_text(json.dumps(self._found))
        os._exit(0)


def start(began, to, words):
    """The command of these words, until its first step is done."""
    watch = Watch(began, to)
    main = importlib.import_module('jepa_text.main')
    module = main.COMMANDS[words[0]].module
    # As main does it, which finds all this loaded.
    main._keep_memory()
    importlib.import_module(module)
    watch.mark('imports')
    jax = importlib.import_module('jax')
    jax.monitoring.register_event_duration_secs_listener(watch.count)
    prepare = importlib.import_module('jepa_text.training.prepare')
    profiling = importlib.import_module('jepa_text.running.profiling')
    make, run = prepare.make, profiling.Trace.run

    def timed(*given):
        before = watch.spent()
        try:
            return make(*given)
        finally:
            watch.mark('rows', before)

    def first(*given):
        jax.block_until_ready(run(*given))
        watch.end()

    prepare.make, profiling.Trace.run = timed, first
    main.run(['jepa-text', *words])


def one(checkout, command, place, workdir):
    """{name: number} of one start of a checkout, with its cache in the place."""
    to = pathlib.Path(place, 'spent.json')
    words = [command, f'--config={checkout}/{STARTS[command]}', f'--workdir={workdir}']
    if command == 'train':
        words.append(f'--config.data.folder={place}/rows')
    environ = {k: v for k, v in os.environ.items() if k != 'JAX_COMPILATION_CACHE_DIR'}
    environ |= {'XDG_CACHE_HOME': f'{place}/cache', 'PYTHONPATH': str(checkout)}
    asked = [sys.executable, __file__, '--began', str(time.time()), '--to', str(to)]
    done = subprocess.run(
        [*asked, *words], env=environ, cwd=place, capture_output=True, text=True
    )
    if not to.exists():
        raise RuntimeError(f'{checkout} came to no step: {done.stderr[-2000:]}')
    found = json.loads(to.read_text())
    to.unlink()
    return found


def measured(checkouts, command, rounds):
    """{(side, 'cold' or 'warm'): [what each round found]}, the sides in turns."""
    found = collections.defaultdict(list)
    for number, side in itertools.product(range(rounds), checkouts):
        with tempfile.TemporaryDirectory() as place:
            for state in ('cold', 'warm'):
                workdir = pathlib.Path(place, state)
                if command == 'study' and state == 'warm':
                    shutil.copytree(f'{place}/cold/rows', workdir / 'rows')
                taken = one(checkouts[side], command, place, workdir)
                found[side, state].append(taken)
                told = f'{taken["whole, clock"]:.1f} s, {taken["whole, processor"]:.1f}'
                print(f'{number} {side} {state}: {told} CPU-s', file=sys.stderr)
    return found


def medians(rounds):
    """{name: the median of all rounds}."""
    names = dict.fromkeys(name for one in rounds for name in one)
    return {
        name: round(statistics.median(one.get(name, 0) for one in rounds), 2)
        for name in names
    }


def main():
    """Prints the medians of all sides, and theirs / ours."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--other', type=pathlib.Path)
    parser.add_argument('--command', choices=STARTS, default='study')
    parser.add_argument('--rounds', type=int, default=3)
    given = parser.parse_args()
    checkouts = {'ours': ROOT}
    if given.other:
        checkouts['theirs'] = given.other.resolve()
    rounds = measured(checkouts, given.command, given.rounds)
    told = {state: {} for _, state in rounds}
    for (side, state), found in rounds.items():
        told[state][side] = medians(found)
    for sides in told.values():
        if given.other:
            sides['theirs / ours'] = {
                name: round(sides['theirs'][name] / value, 2)
                for name, value in sides['ours'].items()
                if value and name in sides['theirs']
            }
    print(json.dumps(told, indent=1))


if __name__ == '__main__':
    if sys.argv[1:2] == ['--began']:
        start(float(sys.argv[2]), sys.argv[4], sys.argv[5:])
    else:
        main()
