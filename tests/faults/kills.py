"""kill -9 at random moments of a real training run, which must end as if nothing was.

One trial is one kill: of a process that starts, takes steps, is near the switch between
two phases, or saves. The same command goes on until the run is done; then its state, to
the last bit, and its metrics must be those of a run that nobody killed. Programs are
compiled with all optimizations, as for users.
"""

import collections
import json
import time
from pathlib import Path

import children
import numpy as np
import tiny

# Two phases, so that a kill also meets the switch; saves often enough to be met, too.
CHANGES = dict(
    steps=30,
    mesh=dict(data=1, fsdp=1, tensor=1),
    checkpoint=dict(every_steps=3, keep=2),
    telemetry=dict(every_steps=4),
    evaluate=dict(every_steps=10, rate=0.15, max_rows=16),
)
SWITCH = 15
# {moment: (share of the kills, seconds after its begin within which they come)}
MOMENTS = {
    'start': (0.15, 6.0),
    'steps': (0.2, 1.5),
    'switch': (0.15, 0.3),
    'save': (0.5, 0.06),
}


def started(folder, workdir):
    """The run, or what is left of it, in a process of its own."""
    environment = {
        'XLA_FLAGS': '--xla_force_host_platform_device_count=1',
        'JAX_DISABLE_MOST_OPTIMIZATIONS': '0',
        'JAX_COMPILATION_CACHE_DIR': str(folder / 'compiled'),
    }
    return children.started(tiny.__file__, folder, workdir, env=environment)


def has_come(moment, workdir, before):
    """Whether a moment is reached by a process that found a log of `before` bytes."""
    log = workdir / 'metrics.jsonl'
    text = log.read_text() if log.exists() else ''
    if moment == 'start' or len(text) <= before:
        return moment == 'start'
    if moment == 'switch':
        # The last line may be incomplete.
        steps = (json.loads(x)['step'] for x in text.splitlines() if x[-1] == '}')
        return any(step >= SWITCH - 1 for step in steps)
    saving = (workdir / 'checkpoints').glob('*orbax-checkpoint-tmp*')
    return moment == 'steps' or any(saving)


def killed(process, workdir, moment, rng):
    """Kills the process at a random time of a moment; False if it ended before."""
    log = workdir / 'metrics.jsonl'
    before = log.stat().st_size if log.exists() else 0
    children.until(
        lambda: process.poll() is not None or has_come(moment, workdir, before), 300
    )
    time.sleep(rng.uniform(0, MOMENTS[moment][1]))
    if process.poll() is not None:
        return False
    process.kill()
    process.communicate()
    return True


def output(process):
    """What the run prints at its end."""
    printed, said = process.communicate(timeout=300)
    assert process.returncode == 0, said[-600:]
    return printed.split()[-1]


def ended(folder, workdir, moments, rng, counts):
    """The output of the run after a kill at each moment. Counts the kills."""
    for moment in moments:
        with started(folder, workdir) as process:
            if not killed(process, workdir, moment, rng):
                return output(process)
        counts[moment] += 1
    with started(folder, workdir) as process:
        return output(process)


def trials(number, seed, folder):
    """(kills by moment, faults in words) of so many kills."""
    folder, rng = Path(folder), np.random.default_rng(seed)
    tiny.rows(folder)
    (folder / 'changes.json').write_text(json.dumps(CHANGES))
    counts, faults = collections.Counter(), []
    straight = ended(folder, folder / 'straight', (), rng, counts)
    names, (shares, _) = list(MOMENTS), zip(*MOMENTS.values())
    while counts.total() < number:
        workdir = folder / f'run-{counts.total()}'
        several = min(number - counts.total(), int(rng.integers(1, 8)))
        moments = rng.choice(names, several, replace=several > len(names), p=shares)
        if ended(folder, workdir, moments.tolist(), rng, counts) != straight:
            faults.append(f'{workdir.name}: the state differs')
        if tiny.log(workdir) != tiny.log(folder / 'straight'):
            faults.append(f'{workdir.name}: the metrics differ')
    return counts, faults
