"""What a study will take, before it: `jepa-text study --dry-run`.

The tree of its members, and beside what each would cost alone: steps, arithmetic, hours
and money on the hardware of the section `plan`, and the disk that checkpoints fill.
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
from jepa_text.study import members, tree, trunks
from jepa_text.training import completion
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes

# Of the section of a phase: what changes no step of it.
_OF_A_SPAN = ('steps', 'share', 'at_switch')
# Of a config the same; what its baseline was made of stands in the phases.
_OF_A_RUN = ('name', 'seed', 'tokens', 'baseline')


_SHORT = 1e-3  # seconds of a step of which starting its programs is no small part


@dataclasses.dataclass(frozen=True, kw_only=True)
class Member:
    """A member beside the others: of its `steps` it trains those after `begins`, where it
    goes on from `other` ('': from the beginning), with so many `flops` in so many
    `seconds` of the `devices` of the `hardware`, each at a `price` an hour. `bytes` of a
    disk stay filled by it; `filled` are those of all members at its end, in their order,
    with states that others go on from. `alone` are the FLOPs of all its steps. None is
    not known. `is_timed`: its steps are guessed, as they are timed when it begins."""

    name: str
    steps: int
    begins: int
    other: str
    flops: float
    alone: float
    seconds: float | None
    hardware: str
    devices: int
    price: float | None
    bytes: int = 0
    filled: int = 0
    is_there: bool = False
    is_timed: bool = False

    @property
    def trained(self):
        """Steps that are trained for this member and for none before it."""
        return self.steps - self.begins

    @property
    def dollars(self):
        """What these cost; None where no price is known."""
        if self.price is None or self.seconds is None:
            return None
        return self.seconds / 3600 * self.devices * self.price


def outlook(configs, folder):
    """[Member] of a study: `configs` as members.configs gives them; what is in `folder`
    counts as done.

    Raises ValueError for a run that cannot be as it is set.
    """
    settled = {name: _settled(one, folder / name) for name, one in configs.items()}
    courses, parts, sizes, before = {}, {}, {}, {}
    of_seeds = tree.Recipes(_recipe)
    for name, config in settled.items():
        try:
            made = of_seeds.of(config)
            parts[name] = [_planned(config, made, p, before) for p in made.phases]
        except ValueError as error:
            raise ValueError(f'run {name!r}: {error}') from error
        is_timed = configs[name]['baseline'] == 'time'
        courses[name] = tree.course(config, made, is_timed)
        sizes[name] = max(size for _, size in parts[name])
    there = {name for name in configs if _is_there(folder, name, configs[name])}
    origins = trunks.origins(courses, folder, there)
    found = []
    for name in configs:
        spans = [(start, stop) for start, stop, *_ in courses[name].phases]
        plans = [planned for planned, _ in parts[name]]
        one = _member(name, zip(spans, plans), origins[name][:1])
        is_timed = configs[name]['baseline'] == 'time'
        found.append(dataclasses.replace(one, is_there=name in there, is_timed=is_timed))
    sections = {name: one['checkpoint'] for name, one in settled.items()}
    return _on_disk(found, sections, sizes)


def show(found, stream=None):
    """Prints the tree of an outlook, and its sums."""
    columns = ['run', 'steps', 'goes on from', 'after', 'trains', 'FLOPs', 'hours']
    columns += ['US dollars', 'there']
    rows = [
        [
            one.name,
            f'{one.steps:,}',
            one.other or None,
            f'{one.begins:,}' if one.other else None,
            f'{one.trained:,}',
            f'{one.flops:.3g}',
            None if one.seconds is None else f'{one.seconds / 3600:,.3g}',
            None if one.dollars is None else f'{one.dollars:,.2f}',
            'yes' if one.is_there else None,
        ]
        for one in found
    ]
    console.table('What would be trained', columns, rows, stream)
    for line in sums(found):
        print(line, file=stream)


def sums(found):
    """An outlook in sentences."""
    steps, alone = sum(one.trained for one in found), sum(one.steps for one in found)
    flops, naive = sum(one.flops for one in found), sum(one.alone for one in found)
    yield (
        f'{len(found):,} runs of {alone:,} steps, of which {steps:,} are trained: what '
        f'runs have in common is trained once ({1 - steps / alone:.0%} saved, '
        f'{1 - flops / naive:.0%} of {naive:.3g} FLOPs).'
    )
    left = [one for one in found if not one.is_there]
    if len(left) < len(found):
        trained = sum(one.trained for one in left)
        yield f'{len(found) - len(left):,} runs are there: {trained:,} steps are left.'
    yield from _left(left)
    peak, end = max(one.filled for one in found), sum(one.bytes for one in found)
    yield (
        f'Checkpoints fill up to {peak / 1e9:,.3g} GB, and {end / 1e9:,.3g} GB in the '
        'end, rows not counted.'
    )


def _left(left):
    """What is yet to be trained, and how sure that is."""
    if not left:
        yield 'Nothing is left to train.'
        return
    flops, said = sum(one.flops for one in left), ''
    seconds, where = [one.seconds for one in left], {one.hardware for one in left}
    if None in seconds:
        said = '; no hours and no price, as not all runs fit the hardware'
    else:
        said = f', {sum(seconds) / 3600:,.3g} hours of training on '
        said += ' and '.join(sorted(where))
        dollars = [one.dollars for one in left]
        if None not in dollars:
            said += f', {sum(dollars):,.2f} US dollars'
    yield f'Left: {flops:.3g} FLOPs{said}.'
    steps = sum(one.trained for one in left)
    if None not in seconds and sum(seconds) < _SHORT * steps:
        yield (
            f'These are {1e6 * sum(seconds) / steps:,.3g} microseconds a step, by '
            'arithmetic and memory alone: starting the programs of so short a step takes '
            'longer. A step that was timed says more (jepa-text benchmark).'
        )
    if timed := [one.name for one in left if one.is_timed]:
        more = f' and {len(timed) - 1} more' if timed[1:] else ''
        yield (
            f'{timed[0]}{more}: matched by time, which is taken when they begin; their '
            'steps here are those of as much arithmetic.'
        )


def _settled(config, folder):
    """The config with what `settle` decides; by arithmetic where it would time steps."""
    if config['baseline'] == 'time':
        config = config | {'baseline': 'flops'}
    return completion.completed(completion.matched(config, folder), folder)


def _recipe(config):
    options = schema.read(hardware.Options, config['plan'], 'plan')
    return fit.size(config, options.hardware, options.vocab_size).made


def _planned(config, made, phase, before):
    """(plan.Plan of a phase alone, bytes of its state): one for all of its kind."""
    section = {k: x for k, x in phase.section.items() if k not in _OF_A_SPAN}
    # Neither how long it is nor what its rate is changes what a step takes.
    alone = {key: x for key, x in config.items() if key not in _OF_A_RUN}
    alone |= {'phases': [section], 'steps': phase.steps, 'schedule': 0.0}
    key = checksums.checksum(alone | {'steps': 0})
    if key not in before:
        options = schema.read(hardware.Options, config['plan'], 'plan')
        planned = plan.make(settings.plain(alone), options)
        before[key] = planned, _size(made, phase)
    return before[key]


def _is_there(folder, name, config):
    known = members.result_path(folder, name).is_file()
    return known or members.finished(folder / name, config)


def _size(made, phase):
    """Bytes of the state of a phase, on all devices together."""
    leaves = jax.tree.leaves(recipes.shapes(made, phase))
    return sum(math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize for leaf in leaves)


def _on_disk(found, sections, sizes):
    """The members with what they fill, when one is trained after the other: `sections`
    are those of checkpoints, `sizes` the bytes of a state."""
    # Which states stay for others, and after whom they go.
    until = {(one.other, one.begins): n for n, one in enumerate(found) if one.other}
    stay = {
        one.name: _stay(
            sections[one.name], one.steps, [s for name, s in until if name == one.name]
        )
        for one in found
    }
    size = {one.name: len(stay[one.name]) * sizes[one.name] for one in found}
    places = {one.name: n for n, one in enumerate(found)}
    filled, made = 0, []
    for number, one in enumerate(found):
        filled += size[one.name]
        lent = sum(
            sizes[other]
            for (other, step), last in until.items()
            if places[other] <= number <= last and step not in stay[other]
        )
        changes = {'bytes': size[one.name], 'filled': filled + lent}
        made.append(dataclasses.replace(one, **changes))
    return made


def _stay(section, steps, lent):
    """The steps whose checkpoints are there at the end of a run that also saved those
    which it has lent to others."""
    at = {step for step in section['keep_at'] if step <= steps}
    every = section['every'] or steps
    saved = sorted({*range(every, steps, every), steps, *at, *lent})
    multiple = section.get('keep_every') or math.inf
    return at | {*saved[-section['keep'] :]} | {s for s in saved if s % multiple == 0}


def _member(name, parts, shared):
    """The Member with these ((start, stop), plan.Plan) of its phases."""
    other, begins = shared[0] if shared else ('', 0)
    flops = alone = seconds = 0
    for (start, stop), planned in parts:
        (phase,) = planned.phases
        own, each = max(0, stop - max(start, begins)), sum(phase.flops.values())
        flops, alone = flops + own * each, alone + (stop - start) * each
        took = own * planned.step_seconds(phase, planned.chip, planned.mfu)
        seconds = seconds + took if planned.fits(planned.chip) else math.nan
    return Member(
        name=name,
        steps=stop,
        begins=begins,
        other=other,
        flops=flops,
        alone=alone,
        seconds=None if math.isnan(seconds) else seconds,
        hardware=planned.options.hardware,
        devices=planned.devices,
        price=planned.price,
    )
