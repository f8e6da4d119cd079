"""The matched baseline of a run: MLM alone, with the same FLOPs or the same time.

Each phase with a latent term becomes its MLM part, with as many more steps as give the
same FLOPs (cost/flops.py) or take the same time on this machine. The schedule of the
learning rate stretches with the run, and lengths in steps of a phase with the phase.
"""

import statistics
import time
from pathlib import Path

import jax
import numpy as np

from jepa_text.config import resolve
from jepa_text.files import checksums
from jepa_text.parallel import processes, sharding
from jepa_text.running import workdir
from jepa_text.training import programs
from jepa_text.training import recipe as recipes

KINDS = ('none', 'flops', 'time')
ROUNDS, STEPS = 5, 4


def mlm_section(phase):
    """Returns the objective's section without its latent term; None if it has none."""
    return phase.objective.baseline(phase.section['objective'])


def check(kind, phases):
    """Raises ValueError for an unknown kind, and if no phase has a latent term."""
    resolve.check_choice('baseline', kind, KINDS)
    if not any(map(mlm_section, phases)):
        raise ValueError(
            f'baseline={kind!r}, but no phase has a latent term: '
            f'{", ".join(phase.name for phase in phases)}. Set baseline=none.'
        )


def sections(phases, ratios=None):
    """Returns sections without latent terms, and with phases stretched by the ratios."""
    made = []
    for phase, ratio in zip(phases, ratios or [1] * len(phases)):
        section = {key: value for key, value in phase.section.items() if key != 'share'}
        mlm = mlm_section(phase)
        if mlm and isinstance(rate := mlm.get('rate'), dict):
            mlm = mlm | {'rate': stretched(rate, ratio)}
        if section.get('at_switch'):
            section['at_switch'] = stretched(section['at_switch'], ratio)
        steps = max(1, round(phase.steps * ratio))
        made.append(section | {'objective': mlm or section['objective'], 'steps': steps})
    return made


def stretched(section, factor):
    """Returns a section with its lengths in steps multiplied by a factor.

    Shares of a run or a phase stay as they are, as does a number in place of a section.
    """
    if not isinstance(section, dict):
        return section
    lengths = {
        key: max(1, round(section[key] * factor))
        for key in ('warmup', 'decay', 'steps', 'rewarm', 'first', 'again')
        if section.get(key, 0) >= 1
    }
    return section | lengths


def saved_ratios(folder):
    """Returns the ratios of time that the run in a folder began with.

    None for a new run, and for one without a checkpoint, whose config may still change.
    """
    saved = _begun(folder).get('baseline')
    is_same = isinstance(saved, dict) and saved.get('by') == 'time'
    return saved['ratios'] if is_same else None


def first_total(folder):
    """Returns the number of steps, before they were matched, with which the run in a
    folder began; None without such a run."""
    saved = _begun(folder)
    matched = saved.get('baseline')
    if not isinstance(matched, dict):
        return None
    history = saved.get('extended') or [saved]
    before = [phase['steps'] for phase in saved['phases'][:-1]]
    lengths = [*before, history[0]['steps'] - sum(before)]
    pairs = zip(lengths, matched['ratios'])
    return sum(round(steps / ratio) for steps, ratio in pairs)


def _begun(folder):
    """Returns the config of a run in a folder that has a checkpoint; {} without one."""
    path = Path(folder, 'config.json')
    if not path.is_file() or not workdir.has_step(Path(folder, 'checkpoints')):
        return {}
    return checksums.read_json(path)


def flops_ratios(recipe, plain):
    """Returns, for each phase, its FLOPs per step relative to its phase in `plain`.

    `plain` are the phases without latent terms; the ratio is 1 for equal phases.
    """
    costs = [
        [recipes.cost(recipe, phase).model for phase in phases]
        for phases in (recipe.phases, plain)
    ]
    return [own / base for own, base in zip(*costs)]


def time_ratios(recipe, plain):
    """Returns, for each phase, its seconds per step relative to its phase in `plain`.

    Measured on all processes at once; all take the result of the first, so that a run
    has the same length on all of them.
    """
    ratios = []
    for own, base in zip(recipe.phases, plain):
        is_same = type(own.objective) is type(base.objective)
        ratios.append(1.0 if is_same else step_ratio(recipe, own, base))
    return [float(ratio) for ratio in processes.from_first(np.array(ratios))]


def step_ratio(recipe, own, base):
    """Returns the median seconds per step of phase `own` over those of phase `base`.

    Both are compiled and warmed up first, and then measured in alternation. Only one of
    the two states exists at a time, so that memory need not hold both.
    """
    clocks = [_clock(recipe, phase) for phase in (own, base)]
    for clock in clocks:
        clock()
    rounds = [[clock() for clock in clocks] for _ in range(ROUNDS)]
    first, second = map(statistics.median, zip(*rounds))
    return first / second


def _clock(recipe, phase):
    """Returns a function that runs some steps and returns the seconds per step."""
    step = programs.compiled(recipe, phase)
    _, parts = sharding.part_of_batch(recipe.mesh)
    rows = recipes.batch(recipe, phase, phase.batch_size // parts)
    batch = sharding.put_batch(rows, recipe.mesh)

    def clock():
        state, values = step(programs.create(recipe, phase), batch)
        jax.block_until_ready(values)
        start = time.perf_counter()
        for _ in range(STEPS):
            state, values = step(state, batch)
        jax.block_until_ready(values)
        return (time.perf_counter() - start) / STEPS

    return clock
