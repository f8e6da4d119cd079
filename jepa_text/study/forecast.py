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
from jepa_text.study import members, tree, work
from jepa_text.training import config as settings

# Keys of a phase that do not affect the cost of a step.
_PHASE_KEYS = ('steps', 'share', 'at_switch')
# Keys of a config that do not affect the cost of a step. (The phases already reflect
# the baseline.)
_RUN_KEYS = ('name', 'seed', 'tokens', 'baseline')


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
    bytes       disk space of the checkpoints that it keeps
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


def of_members(configs, folder):
    """Returns [Member] of a study.

    `configs` are as of members.configs; members finished in `folder` count as done.
    Raises ValueError for a run that is impossible with its settings.
    """
    completed = work.completed(configs, folder)
    courses, plans, sizes, cache = {}, {}, {}, {}
    recipe_of = tree.Recipes(_recipe).of
    for name, config in completed.items():
        with work.named(name):
            recipe = recipe_of(config)
            planned = [_planned(config, recipe, p, cache) for p in recipe.phases]
        plans[name] = [
            (phase.start, phase.stop, own)
            for phase, (own, _) in zip(recipe.phases, planned)
        ]
        sizes[name] = max(size for _, size in planned)
        courses[name] = tree.course(config, recipe)
    saved = work.saved_steps(configs, folder)
    done = {n for n, own in configs.items() if _is_done(folder, n, own, saved[n])}
    # Of all members, also of those that have begun.
    trunks = tree.trunks(courses, {name: saved[name] for name in done}, done)
    branches = {name: [] for name in configs}
    for trunk, step in filter(None, trunks.values()):
        branches[trunk].append(step)
    expected = []
    for name, config in completed.items():
        one = _member(name, plans[name], trunks[name], max(saved[name], default=0))
        saves = [*(stop for _, stop, _ in plans[name]), *branches[name]]
        keep_at = [*config['checkpoint']['keep_at'], *branches[name]]
        kept = kept_steps(
            config['checkpoint'] | {'keep_at': keep_at}, one.steps, saves, one.start
        )
        size = len(kept) * sizes[name]
        expected.append(dataclasses.replace(one, bytes=size, is_done=name in done))
    return expected


def kept_steps(section, steps, others, begin=0):
    """Returns the steps whose checkpoints exist at the end of a run.

    `section` is the section `checkpoint`, `others` are further steps that it saves, such
    as ends of phases; it continues from a step `begin` of another run.
    """
    every, multiples = section['every'] or steps, section.get('keep_every')
    candidates = {*range(every, steps, every), steps, *section['keep_at'], *others}
    saved = sorted(step for step in candidates if begin < step <= steps)
    kept = {step for step in saved if multiples and step % multiples == 0}
    return kept | {*saved[-section['keep'] :]} | {*saved} & {*section['keep_at']}


def show(expected, stream=None):
    """Prints the forecast of members as a table, and its totals."""
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
        for one in expected
    ]
    console.table('What would be trained', columns, rows, stream)
    for line in totals(expected):
        print(line, file=stream)


def totals(expected):
    """Yields sentences with the totals of a forecast."""
    steps = sum(one.trained for one in expected)
    alone = sum(one.steps for one in expected)
    flops, naive = sum(x.flops for x in expected), sum(x.alone for x in expected)
    yield (
        f'{len(expected):,} runs of {alone:,} steps, of which {steps:,} are trained: '
        f'steps that runs have in common are trained once (saves {1 - steps / alone:.0%} '
        f'of the steps, {1 - flops / naive:.0%} of {naive:.3g} FLOPs).'
    )
    left = [one for one in expected if not one.is_done]
    begun = sum(one.begun > 0 for one in left)
    if begun or len(left) < len(expected):
        yield (
            f'{len(expected) - len(left):,} runs are done and {begun:,} begun: '
            f'{sum(one.left_steps for one in left):,} steps are left.'
        )
    yield _left(left) if left else 'Nothing is left to train.'
    size = sum(one.bytes for one in expected)
    yield f'Checkpoints need {size / 1e9:,.3g} GB of disk space, without rows.'


def _left(left):
    """Returns a sentence on what is left to train."""
    flops, seconds = sum(one.left[0] for one in left), [one.left[1] for one in left]
    if None in seconds:
        details = '; no hours and no price, as not all runs fit the hardware'
    else:
        hardware_names = ' and '.join(sorted({one.hardware for one in left}))
        details = f', {sum(seconds) / 3600:,.3g} hours of training on {hardware_names}'
        dollars = [one.dollars(one.left[1]) for one in left]
        if None not in dollars:
            details += f', {sum(dollars):,.2f} US dollars'
    return (
        f'Left: {flops:.3g} FLOPs{details}. Steps of less than a millisecond take longer '
        'than that: measure them with jepa-text benchmark.'
    )


def _recipe(config):
    """Returns the Recipe of a config on the hardware of its plan."""
    options = schema.read(hardware.Options, config['plan'], 'plan')
    return fit.size(config, options.target, options.vocab_size).made


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


def _is_done(folder, name, config, saved):
    if saved:  # it may have got more steps
        return members.finished(folder / name, config)
    return members.result_path(folder, name).is_file()


def _size(recipe, phase):
    """Returns the bytes of the state of a phase, on all devices together."""
    leaves = jax.tree.leaves(recipe.shapes(phase))
    return sum(math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize for leaf in leaves)


def _member(name, plans, trunk, begun):
    """Returns the Member with these (start, stop, plan.Plan) of its phases.

    `trunk` is (member, steps in common) or None; `begun` is the step of its newest
    checkpoint.
    """
    trunk, begin = trunk or ('', 0)
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
        hardware=planned.options.target,
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
        flops += own * phase.count.model
        took = own * planned.step_seconds(phase, planned.chip, planned.mfu)
        seconds = seconds + took if planned.fits(planned.chip) else math.nan
    return flops, None if math.isnan(seconds) else seconds
