"""The fair baseline of a run: MLM alone, with as much arithmetic or as much time.

Each phase with a latent term becomes its own MLM part, with so many more steps that the
arithmetic is the same (cost/flops.py), or that this machine takes as long. The learning
rate's schedule stretches with the run, what is told in steps of a phase with the phase.
"""

import statistics
import time
from pathlib import Path

import jax
import numpy as np

from jepa_text.files import checksums
from jepa_text.parallel import processes, sharding
from jepa_text.running import workdir
from jepa_text.training import programs
from jepa_text.training import recipe as recipes

KINDS = ('none', 'flops', 'time')
ROUNDS, STEPS = 5, 4


def mlm_section(phase):
    """The section of the objective without its latent term; None for one without."""
    return phase.objective.baseline(phase.section['objective'])


def check(kind, phases):
    """Raises ValueError for another kind, and where no phase has a latent term."""
    if kind not in KINDS:
        raise ValueError(f'baseline={kind!r}; there are: {", ".join(KINDS)}.')
    if not any(map(mlm_section, phases)):
        raise ValueError(
            f'baseline={kind!r}, but no phase has a latent term: '
            f'{", ".join(phase.name for phase in phases)}. Set it to none.'
        )


def sections(phases, ratios=None):
    """Sections with MLM in place of latent terms, and phases so many times as long."""
    made = []
    for phase, ratio in zip(phases, ratios or [1] * len(phases)):
        kept = {key: value for key, value in phase.section.items() if key != 'share'}
        mlm = mlm_section(phase)
        if mlm and isinstance(rate := mlm.get('rate'), dict):
            mlm = mlm | {'rate': stretched(rate, ratio)}
        if kept.get('at_switch'):
            kept['at_switch'] = stretched(kept['at_switch'], ratio)
        steps = max(1, round((phase.stop - phase.start) * ratio))
        made.append(kept | {'objective': mlm or kept['objective'], 'steps': steps})
    return made


def stretched(section, factor):
    """A section with its lengths in steps multiplied; shares of a run or a phase stretch
    of themselves, as does a number."""
    if not isinstance(section, dict):
        return section
    lengths = {
        key: max(1, round(section[key] * factor))
        for key in ('warmup', 'decay', 'steps', 'rewarm', 'first', 'again')
        if section.get(key, 0) >= 1
    }
    return section | lengths


def saved_ratios(folder):
    """Ratios of time that a run in this folder began with; None for a new one, and for
    one without a checkpoint, whose config may still change."""
    path = Path(folder, 'config.json')
    if not path.is_file() or not workdir.has_step(Path(folder, 'checkpoints')):
        return None
    saved = checksums.read_json(path).get('baseline')
    is_same = isinstance(saved, dict) and saved.get('by') == 'time'
    return saved['ratios'] if is_same else None


def flops_ratios(made, plain):
    """FLOPs of a step of each phase of a recipe for one of its MLM part, which the phase
    in `plain` has; 1 where it is the same."""
    costs = [
        [recipes.cost(made, p).model for p in phases] for phases in (made.phases, plain)
    ]
    return [mine / its for mine, its in zip(*costs)]


def time_ratios(made, plain):
    """Seconds of a step of each phase for one of its MLM part, on this machine.

    All processes at once: no job must stretch its run by the clock of one machine.
    """
    ratios = []
    for mine, its in zip(made.phases, plain):
        is_same = type(mine.objective) is type(its.objective)
        ratios.append(1.0 if is_same else step_ratio(made, mine, its))
    return [float(ratio) for ratio in processes.from_first(np.array(ratios))]


def step_ratio(made, mine, its):
    """Median seconds of a step of phase `mine` over those of `its`, in alternation.

    Each is compiled and warmed up first. Only one of the two states is there at a time,
    so memory need not hold both.
    """
    clocks = [_clock(made, phase) for phase in (mine, its)]
    for clock in clocks:
        clock()
    rounds = [[clock() for clock in clocks] for _ in range(ROUNDS)]
    first, second = map(statistics.median, zip(*rounds))
    return first / second


def _clock(made, phase):
    """A function that takes some steps, and returns the seconds of one."""
    create = jax.jit(
        recipes.creation(made, phase), out_shardings=recipes.shardings(made, phase)
    )
    step = programs.compiled(made, phase)
    _, parts = sharding.part_of_batch(made.mesh)
    rows = recipes.batch(made, phase, phase.batch_size // parts)
    batch = sharding.put_batch(rows, made.mesh)

    def clock():
        state, values = step(create(), batch)
        jax.block_until_ready(values)
        start = time.perf_counter()
        for _ in range(STEPS):
            state, values = step(state, batch)
        jax.block_until_ready(values)
        return (time.perf_counter() - start) / STEPS

    return clock
