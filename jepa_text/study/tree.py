"""How much of their way runs have in common, and which run goes it for the others.

Two runs are the same up to a step when all that acts on the steps before it is equal: the
seed, the model, the rows, batches and masks, the objectives and what they were told of
the length of their phase, the optimizer, and the learning rate of each of these steps, as
a number. What is not known to be without effect counts.

    m   ==1==+==2==+==3==        1 is trained once, by m; n goes on from its state there,
    n        +==4==              and k from that of m after 2
    k              +==5==
"""

import dataclasses
import functools

import jax
import numpy as np

from jepa_text.files import checksums
from jepa_text.training.memo import alike

# Of a config: what acts on no step, or is compared step by step.
_APART = (
    'name',
    'steps',
    'tokens',
    'baseline',
    'schedule',
    'phases',
    'prepare',
    'checkpoint',
    'metrics',
    'watchdog',
    'profile_steps',
    'compilation_cache',
    'plan',
)
_AT_ONCE = 4096  # steps whose learning rates are computed


@dataclasses.dataclass(frozen=True, eq=False)
class Course:
    """What acts on the steps of a run: `fixed`, a checksum of what acts on all, None
    while it is not known; of each of the `phases`, (start, stop, its section, its
    objective); the learning `rates_N`."""

    fixed: str | None
    phases: tuple
    rates_N: np.ndarray


def course(config, recipe, is_timed=False):
    """The Course of a run, by its settled config and its Recipe.

    `is_timed`: its phases are another objective's, of a length that is timed when it
    begins, so it has no step in common with others.
    """
    fixed = {key: value for key, value in config.items() if key not in _APART}
    fixed['data'] = {k: v for k, v in config['data'].items() if k != 'threads'}
    rates = [_rates(one.schedule, one.start, one.stop) for one in recipe.phases]
    phases = [
        (phase.start, phase.stop, _acting(phase.section), phase.objective)
        for phase in recipe.phases
    ]
    known = None if is_timed else checksums.checksum(fixed)
    return Course(known, tuple(phases), np.concatenate(rates))


class Recipes:
    """Recipes of configs, which `make` gives: seeds of a run have one, but for the
    seed."""

    def __init__(self, make):
        self._make, self._known = make, []

    def of(self, config):
        """The Recipe of a settled config."""
        key = {k: v for k, v in config.items() if k not in ('name', 'seed')}
        for other, made in self._known:
            if other == key:
                return made
        self._known.append((key, self._make(config)))
        return self._known[-1][1]


def common(one, other):
    """After how many steps two runs are still the same; less than all of either one, so
    that each comes to its end by itself."""
    if one.fixed is None or one.fixed != other.fixed:
        return 0
    end = 0
    for (start, stop, *mine), (begin, until, *its) in zip(one.phases, other.phases):
        if start != begin or not _same_phase(mine, its):
            break
        end = min(stop, until)
        if stop != until:
            break
    ours, theirs = one.rates_N[:end], other.rates_N[:end]
    # Bits, so that NaN is equal to itself.
    differ = np.flatnonzero(ours.view(np.int32) != theirs.view(np.int32))
    last = min(len(one.rates_N), len(other.rates_N)) - 1
    return int(min(end, last, *differ[:1]))


def origins(courses):
    """{name: [(name of a run before it, steps in common), ...]}, most steps first.

    A run that begins where the first of them is after so many steps trains what no run
    before it has.
    """
    names, found = list(courses), {}
    for index, name in enumerate(names):
        steps = {other: common(courses[name], courses[other]) for other in names[:index]}
        shared = [(other, count) for other, count in steps.items() if count]
        found[name] = sorted(shared, key=lambda pair: -pair[1])
    return found


def milestones(origins):
    """{name: steps after which others go on from it}."""
    found = {name: set() for name in origins}
    for shared in origins.values():
        for other, count in shared[:1]:
            found[other].add(count)
    return found


@functools.lru_cache(maxsize=64)  # seeds of a run have one schedule
def _rates(schedule, start, stop):
    """The learning rate of steps start..stop, [N] float32."""
    # Of one length, so that a schedule is compiled once.
    steps_N = np.arange(
        start, start + _AT_ONCE * -(-(stop - start) // _AT_ONCE), dtype=np.int32
    )
    compiled = jax.jit(jax.vmap(schedule))
    rates = [compiled(part_N) for part_N in np.split(steps_N, len(steps_N) // _AT_ONCE)]
    return np.concatenate(rates, dtype=np.float32)[: stop - start]


def _acting(section):
    """The section of a phase without its length, and what the learning rate tells."""
    kept = {k: v for k, v in section.items() if k not in ('steps', 'share', 'at_switch')}
    reset = (section.get('at_switch') or {}).get('reset')
    return {**kept, 'reset': reset}


def _same_phase(mine, its):
    (section, objective), (other, its_objective) = mine, its
    return section == other and alike(objective, its_objective)
