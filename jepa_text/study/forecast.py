"""Forecasts the cost of a study: `jepa-text study --dry-run`.

For each member: the trunk that it continues from, the steps left to train, FLOPs, hours
and price on the hardware of the section `plan`, and the disk space of its checkpoints.
"""

import dataclasses
import math

import jax
import numpy as np

from jepa_text.config import schema
from jepa_text.cost import hardware
from jepa_text.files import checksums
from jepa_text.planning import fit, plan
from jepa_text.report import console
from jepa_text.running import mirror, restore
from jepa_text.study import disk_space, members, tree, trunks
from jepa_text.training import completion
from jepa_text.training import config as settings

# Keys of a phase that do not affect the cost of a step.
_PHASE_KEYS = ('steps', 'share', 'at_switch')
# Keys of a config that do not affect the cost of a step. (The phases already reflect
# the baseline.)
_RUN_KEYS = ('name', 'seed', 'tokens', 'baseline')

# Below these seconds per step, launching its programs takes a considerable part.
_SHORT = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Member:
    """The forecast of one member. None means unknown.

    steps       steps of its run
    start       steps that it has in common with `trunk`, and does not train itself
    trunk       the member that it continues from; '' if it starts from scratch
    flops       FLOPs of the steps that it trains
    alone       FLOPs of all its steps
    seconds     seconds of the steps that it trains, on `devices` of the `hardware`
    begun       steps up to its newest checkpoint
    left        (FLOPs, seconds) of the steps after it
    price       dollars per device and hour
    bytes       disk space of the checkpoints that it retains
    filled      disk space of all members at its end, if trained in order, including
                checkpoints that others will continue from
    is_done     whether it is finished
    """

    name: str
    steps: int
    start: int
    trunk: str
    flops: float
    alone: float
    seconds: float | None
    begun: int
    left: tuple
    hardware: str
    devices: int
    price: float | None
    bytes: int = 0
    filled: int = 0
    is_done: bool = False

    @property
    def trained(self):
        """Steps that are trained for this member and for none before it."""
        return self.steps - self.start

    @property
    def left_steps(self):
        """The steps of `trained` that are still to be trained."""
        return self.steps - (self.begun or self.start)

    def dollars(self, seconds):
        """Returns the price of so many seconds; None if unknown."""
        if self.price is None or seconds is None:
            return None
        return seconds / 3600 * self.devices * self.price


def outlook(configs, folder):
    """Returns [Member] of a study.

    `configs` are as of members.configs; members finished in `folder` count as done.
    Raises ValueError for a run that is impossible with its settings.
    """
    completed = {name: _completed(one, folder / name) for name, one in configs.items()}
    courses, plans, sizes, cache = {}, {}, {}, {}
    recipe_of = tree.Recipes(_recipe).of
    for name, config in completed.items():
        try:
            recipe = recipe_of(config)
            planned = [_planned(config, recipe, p, cache) for p in recipe.phases]
        except ValueError as error:
            raise ValueError(f'run {name!r}: {error}') from error
        plans[name] = [
            (phase.start, phase.stop, own)
            for phase, (own, _) in zip(recipe.phases, planned)
        ]
        sizes[name] = max(size for _, size in planned)
        courses[name] = tree.course(config, recipe)
    done = {name for name in configs if _is_done(folder, name, configs[name])}
    origins = trunks.origins(courses, folder, done)
    begun = {
        name: max(restore.steps(folder / name / mirror.STEPS), default=0)
        for name in configs
    }
    found = [
        dataclasses.replace(
            _member(name, plans[name], origins[name][:1], begun[name]),
            is_done=name in done,
        )
        for name in configs
    ]
    sections = {name: one['checkpoint'] for name, one in completed.items()}
    ends = {name: [stop for _, stop, _ in plans[name]] for name in plans}
    return disk_space.added(found, sections, sizes, ends)


def show(found, stream=None):
    """Prints the members of an outlook as a table, and its totals."""
    columns = ['run', 'steps', 'continues from', 'after', 'trains', 'FLOPs', 'hours']
    columns += ['US dollars', 'done']
    rows = [
        [
            one.name,
            f'{one.steps:,}',
            one.trunk or None,
            f'{one.start:,}' if one.trunk else None,
            f'{one.trained:,}',
            f'{one.flops:.3g}',
            None if one.seconds is None else f'{one.seconds / 3600:,.3g}',
            None if (price := one.dollars(one.seconds)) is None else f'{price:,.2f}',
            'yes' if one.is_done else f'{one.begun:,} steps' if one.begun else None,
        ]
        for one in found
    ]
    console.table('What would be trained', columns, rows, stream)
    for line in sums(found):
        print(line, file=stream)


def sums(found):
    """Yields sentences with the totals of an outlook."""
    steps, alone = sum(one.trained for one in found), sum(one.steps for one in found)
    flops, naive = sum(one.flops for one in found), sum(one.alone for one in found)
    yield (
        f'{len(found):,} runs of {alone:,} steps, of which {steps:,} are trained: steps '
        f'that runs have in common are trained once (saves {1 - steps / alone:.0%} of '
        f'the steps, {1 - flops / naive:.0%} of {naive:.3g} FLOPs).'
    )
    left = [one for one in found if not one.is_done]
    begun = sum(one.begun > 0 for one in left)
    if begun or len(left) < len(found):
        yield (
            f'{len(found) - len(left):,} runs are done and {begun:,} begun: '
            f'{sum(one.left_steps for one in left):,} steps are left.'
        )
    yield from _left(left)
    peak, end = max(one.filled for one in found), sum(one.bytes for one in found)
    yield (
        f'Checkpoints need up to {peak / 1e9:,.3g} GB of disk space, and '
        f'{end / 1e9:,.3g} GB at the end, without rows.'
    )


def _left(left):
    """Yields sentences on what is left to train, and on the reliability of the hours."""
    if not left:
        yield 'Nothing is left to train.'
        return
    flops, seconds = sum(one.left[0] for one in left), [one.left[1] for one in left]
    if None in seconds:
        details = '; no hours and no price, as not all runs fit the hardware'
    else:
        hardware_names = ' and '.join(sorted({one.hardware for one in left}))
        details = f', {sum(seconds) / 3600:,.3g} hours of training on {hardware_names}'
        dollars = [one.dollars(one.left[1]) for one in left]
        if None not in dollars:
            details += f', {sum(dollars):,.2f} US dollars'
    yield f'Left: {flops:.3g} FLOPs{details}.'
    steps = sum(one.left_steps for one in left)
    if None not in seconds and sum(seconds) < _SHORT * steps:
        yield (
            f'This is {1e6 * sum(seconds) / steps:,.3g} microseconds per step, from '
            'FLOPs and memory bandwidth alone. Launching the programs of such a short '
            'step takes longer; measure it with jepa-text benchmark.'
        )


def _completed(config, folder):
    """Returns the config with the model of its start and its baseline."""
    config = completion.with_init_from(config, folder)
    return completion.with_baseline(config, folder)


def _recipe(config):
    """Returns the Recipe of a config on the hardware of its plan."""
    options = schema.read(hardware.Options, config['plan'], 'plan')
    return fit.size(config, options.hardware, options.vocab_size).made


def _planned(config, recipe, phase, cache):
    """Returns (plan.Plan of a phase alone, bytes of its state); equal phases share it."""
    section = {k: x for k, x in phase.section.items() if k not in _PHASE_KEYS}
    # Neither the number of steps nor the learning rate changes the cost of a step.
    alone = {key: x for key, x in config.items() if key not in _RUN_KEYS}
    alone |= {'phases': [section], 'steps': phase.steps, 'schedule': 0.0}
    key = checksums.checksum(alone | {'steps': 0})
    if key not in cache:
        options = schema.read(hardware.Options, config['plan'], 'plan')
        planned = plan.make(settings.plain(alone), options)
        cache[key] = planned, _size(recipe, phase)
    return cache[key]


def _is_done(folder, name, config):
    if restore.steps(folder / name / 'checkpoints'):  # it may have got more steps
        return members.finished(folder / name, config)
    return members.result_path(folder, name).is_file()


def _size(recipe, phase):
    """Returns the bytes of the state of a phase, on all devices together."""
    leaves = jax.tree.leaves(recipe.shapes(phase))
    return sum(math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize for leaf in leaves)


def _member(name, plans, origins, begun):
    """Returns the Member with these (start, stop, plan.Plan) of its phases.

    `origins` are [(member, steps in common)] of the trunk, or empty; `begun` is the step
    of its newest checkpoint.
    """
    trunk, begin = origins[0] if origins else ('', 0)
    (flops, seconds), (alone, _) = _work(plans, begin), _work(plans, 0)
    _, steps, planned = plans[-1]
    return Member(
        name=name,
        steps=steps,
        start=begin,
        trunk=trunk,
        flops=flops,
        alone=alone,
        seconds=seconds,
        begun=begun,
        left=_work(plans, begun or begin),
        hardware=planned.options.hardware,
        devices=planned.devices,
        price=planned.price,
    )


def _work(plans, begin):
    """Returns (FLOPs, seconds) of the steps after `begin`.

    The seconds are None if a phase does not fit the hardware.
    """
    flops = seconds = 0
    for start, stop, planned in plans:
        (phase,) = planned.phases
        own = max(0, stop - max(start, begin))
        flops += own * sum(phase.flops.values())
        took = own * planned.step_seconds(phase, planned.chip, planned.mfu)
        seconds = seconds + took if planned.fits(planned.chip) else math.nan
    return flops, None if math.isnan(seconds) else seconds
