"""The tree of a study: which steps runs have in common, so that they are trained once.

Two runs are the same up to a step if everything that affects the earlier steps is equal:
the seed, the model, the rows, batches and masks, the objectives including the length of
their phase, the optimizer, and the learning rate of each step. Settings that are not
known to be without effect count as different.

    m   ==1==+==2==+==3==        1 is trained once, by m; n continues from m's checkpoint
    n        +==4==              after 1, and k from that after 2
    k              +==5==
"""

import dataclasses
import functools

import jax
import numpy as np

from jepa_text.files import checksums
from jepa_text.models.memo import equal

# Keys of a config that affect no step, or that are compared step by step.
_IGNORED = (
    'name',
    'steps',
    'tokens',
    'baseline',
    'schedule',
    'phases',
    'prepare',
    'checkpoint',
    'watchdog',
    'profile_steps',
    'plan',
)
_CHUNK = 65_536  # steps whose learning rates are computed at once


@dataclasses.dataclass(frozen=True, eq=False)
class Course:
    """What determines the steps of a run: a checksum of what affects all steps; (start,
    stop, section, objective) of each phase; the learning rate of each step."""

    fixed: str
    phases: tuple
    rates_N: np.ndarray


def course(config, recipe):
    """Returns the Course of a run, from its completed config and its Recipe."""
    rates = [_rates(p.schedule, p.start, p.stop) for p in recipe.phases]
    phases = [
        (p.start, p.stop, without(p.section, ('steps', 'fraction')), p.objective)
        for p in recipe.phases
    ]
    fixed = checksums.checksum(without(config, _IGNORED))
    return Course(fixed, tuple(phases), np.concatenate(rates))


def without(section, keys):
    """Returns a section without some keys."""
    return {key: value for key, value in section.items() if key not in keys}


def shared(make):
    """Returns a function that calls `make` for configs, once for those that differ only
    in name and seed."""
    known = {}

    def of(config):
        key = checksums.checksum({**config, 'name': '', 'seed': 0})
        if key not in known:
            known[key] = make(config)
        return known[key]

    return of


def common_steps(first, second):
    """Returns the number of steps after which two runs are still the same; less than the
    steps of either, so that each takes its own last step."""
    if first.fixed != second.fixed:
        return 0
    end = 0
    for (start, stop, *own), (start_2, stop_2, *other) in zip(
        first.phases, second.phases
    ):
        if start != start_2 or own[0] != other[0] or not equal(own[1], other[1]):
            break
        end = min(stop, stop_2)
        if stop != stop_2:
            break
    rates_N, others_N = first.rates_N[:end], second.rates_N[:end]
    # Compared as bits, so that NaN equals itself.
    differ = np.flatnonzero(rates_N.view(np.int32) != others_N.view(np.int32))
    last = min(len(first.rates_N), len(second.rates_N)) - 1
    return int(min(end, last, *differ[:1]))


def trunks(courses, saved, ended=()):
    """Returns {name: (trunk, step), or None} of all runs.

    A run that has not begun continues from the run before it with which it has most steps
    in common, so that no step is trained twice. Runs that have `ended` come before all
    others, and their steps count as far as their checkpoints reach; `saved` are {name:
    steps of its checkpoints}.
    """
    order = sorted(courses, key=lambda name: name not in ended)
    chosen = {}
    for index, name in enumerate(order):
        shared = []
        for other in order[:index] if not saved.get(name) else ():
            step = common_steps(courses[name], courses[other])
            if other in ended:
                step = max((s for s in saved.get(other, ()) if s <= step), default=0)
            shared.append((other, step))
        best = max(shared, key=lambda pair: pair[1], default=('', 0))
        chosen[name] = best if best[1] else None
    return {name: chosen[name] for name in courses}


@functools.lru_cache(maxsize=64)  # seeds of a run share a schedule
def _rates(schedule, start, stop):
    """Returns the learning rate of steps start..stop, [N] float32."""
    # Chunks of one length, and operation by operation: all schedules share what is
    # compiled for it. The same formula gives the same bits, however long the run is.
    steps_N = np.arange(
        start, start + _CHUNK * -(-(stop - start) // _CHUNK), dtype=np.int32
    )
    vector = jax.vmap(schedule)
    rates = [vector(part_N) for part_N in np.split(steps_N, len(steps_N) // _CHUNK)]
    return np.concatenate(rates, dtype=np.float32)[: stop - start]
