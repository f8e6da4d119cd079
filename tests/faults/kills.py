"""kill -9 at random moments of a real training run, which must end as if nothing was.

python -m tests.faults.kills --trials=100 [--seed=0]

One trial is one kill: of a process that starts, takes steps, is near the switch between
two phases, or saves. The same command goes on until the run is done; then its state, to
the last bit, and its metrics must be those of a run that nobody killed. Programs are
compiled with all optimizations, as for users. Prints a line for each run and the count at
the end; exit code 1 if any run ended otherwise.
"""

import argparse
import collections
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

import tiny  # noqa: E402

# Two phases, so that a kill also meets the switch; saves often enough to be met, too.
CHANGES = dict(
    steps=30,
    mesh=dict(data=1, fsdp=1, tensor=1),
    checkpoint=dict(every=3, keep=2),
    evaluate=dict(every=10, rate=0.15, max_rows=16),
)
SWITCH = 15
MOMENTS = {'start': 0.15, 'steps': 0.2, 'switch': 0.15, 'save': 0.5}
LONGEST = 300


def spawn(folder, workdir):
    """The run, or what is left of it, in a process of its own."""
    environment = os.environ | {
        'JAX_PLATFORMS': 'cpu',
        'XLA_FLAGS': '--xla_force_host_platform_device_count=1',
        'JAX_DISABLE_MOST_OPTIMIZATIONS': '0',
        'JAX_COMPILATION_CACHE_DIR': str(folder / 'compiled'),
        'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
    }
    with open(folder / 'said.txt', 'w') as said:
        return subprocess.Popen(
            [sys.executable, TESTS / 'tiny.py', folder, workdir],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )


def is_saving(workdir):
    """Is there a folder of a step that is not complete yet?"""
    steps = workdir / 'checkpoints'
    names = os.listdir(steps) if steps.is_dir() else []
    return any('orbax-checkpoint-tmp' in name for name in names)


def lines(workdir):
    """How much the run has said so far."""
    path = workdir / 'metrics.jsonl'
    return path.stat().st_size if path.exists() else 0


def has_logged(workdir, step):
    """Is there a metrics line of this step or a later one?"""
    path = workdir / 'metrics.jsonl'
    text = path.read_text() if path.exists() else ''
    # The last line may be incomplete.
    return any(json.loads(x)['step'] >= step for x in text.splitlines() if x[-1] == '}')


def kill(process, workdir, moment, rng):
    """Kills the process at a random time of a moment; False if it ended before."""
    before = lines(workdir)
    reached = {
        'start': lambda: True,
        'steps': lambda: lines(workdir) > before,
        'switch': lambda: lines(workdir) > before and has_logged(workdir, SWITCH - 1),
        'save': lambda: is_saving(workdir) and lines(workdir) > before,
    }[moment]
    longest = {'start': 6.0, 'steps': 1.5, 'switch': 0.3, 'save': 0.06}[moment]
    until = time.monotonic() + LONGEST
    while not reached():
        if process.poll() is not None or time.monotonic() > until:
            return False
        time.sleep(0.001)
    time.sleep(rng.uniform(0, longest))
    if process.poll() is not None:
        return False
    process.send_signal(signal.SIGKILL)
    return True


def finish(process, folder):
    """What the run printed at its end. Raises RuntimeError if it failed."""
    printed, _ = process.communicate(timeout=LONGEST)
    if process.returncode != 0:
        said = (folder / 'said.txt').read_text()
        raise RuntimeError(f'exit code {process.returncode}: {said[-600:]}')
    return printed.strip().splitlines()[-1]


def run(folder, workdir, maximum, rng, counts):
    """Runs to the end, killed at most so many times; the fingerprint of the end."""
    names, shares = list(MOMENTS), list(MOMENTS.values())
    # Different moments, if there are enough.
    moments = rng.choice(names, maximum, replace=maximum > len(names), p=shares).tolist()
    killed = 0
    for moment in moments:
        process = spawn(folder, workdir)
        if not kill(process, workdir, moment, rng):
            break
        process.communicate()
        counts[moment] += 1
        killed += 1
    else:
        process = spawn(folder, workdir)
    return finish(process, folder), killed


def trials(number, seed, folder, say=print):
    """(kills by moment, faults in words) of so many kills."""
    folder, rng = Path(folder), np.random.default_rng(seed)
    tiny.rows(folder)
    (folder / 'changes.json').write_text(json.dumps(CHANGES))
    straight = finish(spawn(folder, folder / 'straight'), folder)
    counts, faults = collections.Counter(), []
    while counts.total() < number:
        workdir = folder / f'run-{counts.total()}'
        maximum = min(number - counts.total(), int(rng.integers(1, 8)))
        before = counts.total()
        try:
            end, killed = run(folder, workdir, maximum, rng, counts)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            faults.append(f'{workdir.name}: {error}')
            break
        if end != straight:
            faults.append(f'{workdir.name}: the state differs')
        if tiny.log(workdir) != tiny.log(folder / 'straight'):
            faults.append(f'{workdir.name}: the metrics differ')
        say(f'{workdir.name}: {killed} kills, {counts.total()} of {number} in all')
        if counts.total() == before:  # it was faster than we were
            continue
    return counts, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--trials', type=int, default=100)
    parser.add_argument('--seed', type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts, faults = trials(options.trials, options.seed, folder)
    moments = ', '.join(f'{counts[moment]} in {moment}' for moment in MOMENTS)
    print(f'{counts.total()} kills ({moments}): {len(faults)} faults')
    print('\n'.join(faults))
    sys.exit(bool(faults))


if __name__ == '__main__':
    main()
