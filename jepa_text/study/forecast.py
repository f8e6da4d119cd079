"""Forecasts the cost of a study: `jepa-text study --dry-run`.

For each member: the trunk that it continues from, the steps left to train, FLOPs, hours
and price on the hardware of the section `plan`, and the disk space of its checkpoints.
"""

import dataclasses
import math

import jax
import numpy as np

from jepa_text.config import schema
from jepa_text.files import checksums
from jepa_text.parallel import hardware
from jepa_text.planning import plan
from jepa_text.report import console
from jepa_text.study import members, tree, work

# Keys of a config and its phases that do not affect the cost of a step.
_STEPS = ('name', 'seed', 'steps', 'tokens', 'share', 'at_switch', 'schedule', 'baseline')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Member:
    """The forecast of one member.

    plan        the plan.Plan of its run
    start       steps that it has in common with `trunk`, and does not train itself
    trunk       the member that it continues from; '' if it starts from scratch
    begun       steps up to its newest checkpoint
    bytes       disk space of the checkpoints that it keeps
    is_done     whether it is finished
    """

    name: str
    plan: plan.Plan
    start: int
    trunk: str
    begun: int
    bytes: int
    is_done: bool

    @property
    def steps(self):
        """Steps of its run."""
        return sum(phase.steps for phase in self.plan.phases)

    @property
    def trained(self):
        """Steps that are trained for this member and for none before it."""
        return self.steps - self.start

    @property
    def left(self):
        """The steps after which it still trains."""
        return self.begun or self.start

    def flops(self, after):
        """FLOPs of the steps after a step."""
        return sum(count * phase.count.model for phase, count in self._steps(after))

    def seconds(self, after):
        """Seconds of the steps after a step; None if a phase does not fit."""
        chip, mfu = self.plan.chip, self.plan.mfu
        if not self.plan.fits(chip):
            return None
        return sum(
            count * self.plan.step_seconds(phase, chip, mfu)
            for phase, count in self._steps(after)
        )

    def dollars(self, seconds):
        """Returns the price of so many seconds; None if unknown."""
        if self.plan.price is None or seconds is None:
            return None
        return seconds / 3600 * self.plan.devices * self.plan.price

    def _steps(self, after):
        """Yields each phase with the number of its steps after a step."""
        stop = 0
        for phase in self.plan.phases:
            stop += phase.steps
            yield phase, min(phase.steps, max(0, stop - after))


def of_members(configs, folder):
    """Returns [Member] of a study.

    `configs` are as of members.configs; members finished in `folder` count as done.
    Raises ValueError for a run that is impossible with its settings.
    """
    completed = work.completed(configs, folder)
    recipe_of, recipes, plans = tree.Shared(_recipe).of, {}, {}
    for name, config in completed.items():
        with work.named(name):
            recipes[name] = recipe_of(config)
    courses = {n: tree.course(completed[n], recipe) for n, recipe in recipes.items()}
    saved = work.saved_steps(configs, folder)
    done = {n for n, own in configs.items() if _is_done(folder, n, own, saved[n])}
    # Of all members, also of those that have begun.
    trunks = tree.trunks(courses, {name: saved[name] for name in done}, done)
    expected = []
    for name, config in completed.items():
        trunk, start = trunks[name] or ('', 0)
        branches = [pair[1] for pair in trunks.values() if pair and pair[0] == name]
        section = work.with_milestones(config, branches)['checkpoint']
        ends = [phase.stop for phase in recipes[name].phases]
        kept = kept_steps(section, ends[-1], ends, start)
        size = max(_size(recipes[name], phase) for phase in recipes[name].phases)
        expected.append(
            Member(
                name=name,
                plan=_plan(config, recipes[name], plans),
                start=start,
                trunk=trunk,
                begun=max(saved[name], default=0),
                bytes=len(kept) * size,
                is_done=name in done,
            )
        )
    return expected


def kept_steps(section, steps, others, begin=0):
    """Returns the steps whose checkpoints exist at the end of a run.

    `section` is the section `checkpoint`, `others` are further steps that it saves, such
    as ends of phases; it continues from a step `begin` of another run.
    """
    every = section['every'] or steps
    candidates = {*range(every, steps, every), steps, *section['keep_at'], *others}
    saved = sorted(step for step in candidates if begin < step <= steps)
    return {*saved[-section['keep'] :]} | {*saved} & {*section['keep_at']}


def show(expected, stream=None):
    """Prints the forecast of members as a table, and its totals."""
    columns = ['run', 'steps', 'continues from', 'after', 'trains', 'FLOPs', 'hours']
    columns += ['US dollars', 'done']
    rows = []
    for one in expected:
        seconds = one.seconds(one.start)
        dollars = one.dollars(seconds)
        rows.append(
            [
                one.name,
                f'{one.steps:,}',
                one.trunk or None,
                f'{one.start:,}' if one.trunk else None,
                f'{one.trained:,}',
                f'{one.flops(one.start):.3g}',
                None if seconds is None else f'{seconds / 3600:,.3g}',
                None if dollars is None else f'{dollars:,.2f}',
                'yes' if one.is_done else f'{one.begun:,} steps' if one.begun else None,
            ]
        )
    console.table('What would be trained', columns, rows, stream)
    for line in totals(expected):
        print(line, file=stream)


def totals(expected):
    """Yields sentences with the totals of a forecast."""
    steps = sum(one.trained for one in expected)
    alone = sum(one.steps for one in expected)
    flops = sum(one.flops(one.start) for one in expected)
    naive = sum(one.flops(0) for one in expected)
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
            f'{sum(one.steps - one.left for one in left):,} steps are left.'
        )
    yield _left(left) if left else 'Nothing is left to train.'
    size = sum(one.bytes for one in expected)
    yield f'Checkpoints need {size / 1e9:,.3g} GB of disk space, without rows.'


def _left(left):
    """Returns sentences on what is left to train."""
    seconds = [one.seconds(one.left) for one in left]
    if None in seconds:
        details = '; no hours and no price, as not all runs fit the hardware'
    else:
        names = ' and '.join(sorted({one.plan.options.target for one in left}))
        details = f', {sum(seconds) / 3600:,.3g} hours of training on {names}'
        dollars = [one.dollars(own) for one, own in zip(left, seconds)]
        if None not in dollars:
            details += f', {sum(dollars):,.2f} US dollars'
    return (
        f'Left: {sum(one.flops(one.left) for one in left):.3g} FLOPs{details}. Steps of '
        'less than a millisecond take longer than that: measure them with jepa-text '
        'benchmark.'
    )


def _options(config):
    return schema.read(hardware.Options, config['plan'], 'plan')


def _recipe(config):
    """Returns the Recipe of a config on the hardware of its plan."""
    return plan.outline(config, _options(config))


def _plan(config, recipe, known):
    """Returns the plan.Plan of a run; those of runs that differ in steps share one."""
    phases = [_without(phase.section, _STEPS) for phase in recipe.phases]
    key = checksums.checksum(_without(config, _STEPS) | {'phases': phases})
    if key not in known:
        known[key] = plan.make(config, _options(config))
    phases = [
        dataclasses.replace(one, steps=own.steps)
        for one, own in zip(known[key].phases, recipe.phases)
    ]
    return dataclasses.replace(known[key], phases=tuple(phases))


def _without(section, keys):
    return {key: value for key, value in section.items() if key not in keys}


def _is_done(folder, name, config, saved):
    if saved:
        return members.finished(folder / name, config)
    return members.result_path(folder, name).is_file()


def _size(recipe, phase):
    """Returns the bytes of the state of a phase, on all devices together."""
    leaves = jax.tree.leaves(recipe.shapes(phase))
    return sum(math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize for leaf in leaves)
