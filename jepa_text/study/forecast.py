"""Forecasts the cost of a study: `jepa-text study --dry-run`.

For each member: the trunk that it continues from, the steps left to train, FLOPs, and
hours on the hardware of the section `plan`.
"""

import dataclasses

from jepa_text.files import checksums
from jepa_text.planning import plan
from jepa_text.report import console
from jepa_text.study import members, tree, work

# Keys of a config and its phases that do not affect the cost of a step.
_STEPS = ('name', 'seed', 'steps', 'tokens', 'fraction', 'schedule', 'baseline')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Member:
    """The forecast of one member.

    plan        the plan.Plan of its run
    start       steps that it has in common with `trunk`, and does not train itself
    trunk       the member that it continues from; '' if it starts from scratch
    begun       steps up to its newest checkpoint
    is_done     whether it is finished
    """

    name: str
    plan: plan.Plan
    start: int
    trunk: str
    begun: int
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
        """Seconds of the steps after a step; None if a phase does not fit, or if its
        steps are too short to plan."""
        chip, mfu = self.plan.chip, self.plan.mfu
        if not (self.plan.fits(chip) and self.plan.is_known(chip, mfu)):
            return None
        return sum(
            count * self.plan.step_seconds(phase, chip, mfu)
            for phase, count in self._steps(after)
        )

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
    completed = work.completed(configs, folder, plan.mesh)
    recipes, plans = {}, {}
    outline = tree.shared(plan.outline)
    for name, config in completed.items():
        with work.named(name):
            recipes[name] = outline(config)
    courses = {n: tree.course(completed[n], recipe) for n, recipe in recipes.items()}
    saved = work.saved_steps(configs, folder)
    done = {n for n, own in completed.items() if _is_done(folder, n, own, saved[n])}
    # Of all members, also of those that have begun.
    trunks = tree.trunks(courses, {name: saved[name] for name in done}, done)
    expected = []
    for name, config in completed.items():
        trunk, start = trunks[name] or ('', 0)
        expected.append(
            Member(
                name=name,
                plan=_plan(config, recipes[name], plans),
                start=start,
                trunk=trunk,
                begun=max(saved[name], default=0),
                is_done=name in done,
            )
        )
    return expected


def show(expected):
    """Prints the forecast of members as a table, and its totals."""
    columns = ['run', 'steps', 'continues from', 'after', 'trains', 'FLOPs', 'hours']
    columns += ['done']
    rows = []
    for one in expected:
        seconds = one.seconds(one.start)
        rows.append(
            [
                one.name,
                f'{one.steps:,}',
                one.trunk or None,
                f'{one.start:,}' if one.trunk else None,
                f'{one.trained:,}',
                f'{one.flops(one.start):.3g}',
                None if seconds is None else f'{seconds / 3600:,.3g}',
                'yes' if one.is_done else f'{one.begun:,} steps' if one.begun else None,
            ]
        )
    console.table('What would be trained', columns, rows)
    print(*totals(expected), sep='\n')


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
    if not left:
        yield 'Nothing is left to train.'
        return
    seconds = [one.seconds(one.left) for one in left]
    hours = 'no hours, as a run does not fit or has steps below 1 ms,'
    if None not in seconds:
        hours = f'{sum(seconds) / 3600:,.3g} hours of training'
    names = ' and '.join(sorted({one.plan.options.target for one in left}))
    flops = sum(one.flops(one.left) for one in left)
    yield f'Left: {flops:.3g} FLOPs; {hours} on {names}.'


def _plan(config, recipe, known):
    """Returns the plan.Plan of a run; those of runs that differ in steps share one."""
    phases = [tree.without(phase.section, _STEPS) for phase in recipe.phases]
    key = checksums.checksum(tree.without(config, _STEPS) | {'phases': phases})
    if key not in known:
        known[key] = plan.make(config)
    phases = [
        dataclasses.replace(one, steps=own.steps)
        for one, own in zip(known[key].phases, recipe.phases)
    ]
    return dataclasses.replace(known[key], phases=tuple(phases))


def _is_done(folder, name, config, saved):
    if saved:
        return members.finished(folder / name, tree.without(config, ('prepare',)))
    return members.result_path(folder, name).is_file()
