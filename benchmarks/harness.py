"""Times the sides of a comparison in turns, each in a process of its own.

    if __name__ == '__main__':
        harness.main(__doc__, {'ours': ours, 'theirs': theirs})

makes a file a command, `python benchmarks/NAME.py ARGUMENTS [--rounds=3]`. A side is a
function of the arguments (text) that returns the work: a function without arguments,
which may return a list of numbers. The work is done once before it is timed, unless its
side is `cold`. Printed are medians and quartiles of the rounds, by the clock and by the
processors of the process and its children, the ratios to the first side, round by round,
and how far the sides' numbers are apart.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np


def main(usage, sides, cold=()):
    """Compares the sides, or times the one that the flag --side names."""
    how = argparse.RawDescriptionHelpFormatter
    flags = argparse.ArgumentParser(description=usage, formatter_class=how)
    flags.add_argument('words', nargs='*', help='arguments as above')
    flags.add_argument('--rounds', type=int, default=3)
    flags.add_argument('--side', choices=sides, help=argparse.SUPPRESS)
    given = flags.parse_intermixed_args()
    if side := given.side:
        print(json.dumps(timed(sides[side](*given.words), side not in cold)))
        return
    rounds = []
    for number in range(given.rounds):
        rounds.append({side: in_own_process(side, given.words) for side in sides})
        print(f'round {number + 1}', {s: one[:2] for s, one in rounds[-1].items()})
    show(rounds)


def timed(work, is_warm):
    """[seconds by the clock, by the processors, the numbers] of a call of `work`."""
    if is_warm:
        work()
    clock, before = time.perf_counter(), processors()
    numbers = work()
    return [time.perf_counter() - clock, processors() - before, numbers]


def processors():
    """The seconds that this process and its ended children computed so far."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def in_own_process(side, words):
    """The result of `timed` of a side; raises CalledProcessError if it fails."""
    asked = [sys.executable, sys.argv[0], f'--side={side}', *words]
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    environ = {**os.environ, 'PYTHONPATH': path}
    done = subprocess.run(asked, check=True, stdout=subprocess.PIPE, env=environ)
    return json.loads(done.stdout.splitlines()[-1])


def show(rounds):
    """Prints the table of all rounds [{side: result of `timed`}]."""
    first, *others = rounds[0]
    for index, kind in enumerate(('clock', 'processors')):
        seconds = {side: [one[side][index] for one in rounds] for side in rounds[0]}
        for side, values in seconds.items():
            print(f'{side}, s ({kind}): {spread(values)}')
        for side in others:
            ratios = [b / a for a, b in zip(seconds[first], seconds[side])]
            print(f'{side} / {first} ({kind}): {spread(ratios)}')
    numbers = rounds[-1][first][2]
    for side in others if numbers else ():
        apart = np.abs(np.subtract(numbers, rounds[-1][side][2])).max()  # keeps NaN
        print(f'largest difference of {side}: {apart:.1e}')


def spread(values):
    """'median (lower to upper quartile)'."""
    low, middle, high = statistics.quantiles([*values, *values], n=4, method='inclusive')
    return f'{middle:.3f} ({low:.3f} to {high:.3f})'
