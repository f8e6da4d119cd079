"""The fair baseline of a run: MLM alone, with as much arithmetic or as much time.

`config.baseline='flops'` turns a config into one where each phase with a latent term is
its own MLM part, with so many more steps that the arithmetic (flops.py) is the same;
with `'time'`, so many that this machine takes as long. The learning rate's schedule
stretches with the run, what is told in steps of a phase with the phase.
"""

import functools
import statistics
import time
from pathlib import Path

import jax
import numpy as np

from jepa_text.config import resolve
from jepa_text.cost import flops
from jepa_text.files import seal
from jepa_text.parallel import processes, sharding
from jepa_text.running import workdir
from jepa_text.training import outline, recipe

KINDS = ('none', 'flops', 'time')
ROUNDS, STEPS = 5, 4


def matched(config, folder):
    """The config of the baseline that `config['baseline']` asks for; for 'none', itself.

    In its place stands then {'by': kind, 'ratios': [of the cost of a step, by phase]}, so
    that the config of a run says what was matched: a config that has it stays as it is.
    Ratios of time are measured once: those in `folder`/config.json are taken again.
    Raises ValueError for another kind, and where no phase has a latent term.
    """
    kind = config['baseline']
    if isinstance(kind, dict) or kind == 'none':
        return config
    # Times are measured by all processes at once: not within the block.
    with processes.together('the baseline'):
        made, plain, ratios = _planned(config, folder)
    if ratios is None:
        ratios = _times(made, _replaced(config, made, plain))
    stretched = _replaced(config, made, plain, ratios)
    return stretched | {'baseline': {'by': kind, 'ratios': ratios}}


def _planned(config, folder):
    """(outline, MLM sections of its phases, ratios; None if they must be measured)."""
    kind = config['baseline']
    if kind not in KINDS:
        raise ValueError(f'baseline={kind!r}; there are: {", ".join(KINDS)}.')
    made = outline.make(config, resolve.call('mesh', sharding.make_mesh, config['mesh']))
    sections = [section['objective'] for section in config['phases']]
    plain = [
        outline.mlm_section(section, phase.objective)
        for section, phase in zip(sections, made.phases)
    ]
    if not any(plain):
        raise ValueError(
            f'baseline={kind!r}, but no phase has a latent term: '
            f'{", ".join(section["name"] for section in sections)}. Set it to none.'
        )
    ratios = _saved(folder) if kind == 'time' else _ratios(config, made, plain)
    return made, plain, ratios


def _ratios(config, made, plain):
    """FLOPs of a step of each phase for one of its MLM part; 1 where it has none."""
    other = outline.make(_replaced(config, made, plain), made.mesh)
    cost = functools.partial(flops.per_token, rows=made.batch_size, length=made.length)
    return [
        cost(mine.network, mine.objective) / cost(its.network, its.objective)
        for mine, its in zip(made.phases, other.phases)
    ]


def _replaced(config, made, plain, ratios=None):
    """The config with MLM in place of latent terms, and phases so many times as long."""
    phases = []
    for number, (section, section_mlm) in enumerate(zip(config['phases'], plain)):
        phase = made.phases[number]
        ratio = ratios[number] if ratios else 1
        kept = {key: value for key, value in section.items() if key != 'share'}
        if section_mlm and isinstance(rate := section_mlm.get('rate'), dict):
            section_mlm = section_mlm | {'rate': _stretched(rate, ratio)}
        if kept.get('at_switch'):
            kept['at_switch'] = _stretched(kept['at_switch'], ratio)
        phases.append(
            kept
            | {'objective': section_mlm or section['objective']}
            | {'steps': max(1, round((phase.stop - phase.start) * ratio))}
        )
    total = sum(phase['steps'] for phase in phases)
    changed = {'phases': phases, 'steps': total}
    if 'tokens' in config:
        changed['tokens'] = 0
    schedule = config['schedule']
    if isinstance(schedule, dict):
        changed['schedule'] = _stretched(schedule, total / made.steps)
    return config | changed


def _stretched(section, factor):
    """A section with its lengths in steps multiplied; shares of a run or a phase stretch
    of themselves."""
    lengths = {
        key: max(1, round(section[key] * factor))
        for key in ('warmup', 'decay', 'steps', 'rewarm')
        if section.get(key, 0) >= 1
    }
    return section | lengths


def _saved(folder):
    """Ratios of time that a run in this folder began with; None for a new one, and for
    one without a checkpoint, whose config may still change."""
    path = Path(folder, 'config.json')
    if not path.is_file() or not workdir.has_step(Path(folder, 'checkpoints')):
        return None
    saved = seal.read_json(path).get('baseline')
    is_same = isinstance(saved, dict) and saved.get('by') == 'time'
    return saved['ratios'] if is_same else None


def _times(made, plain_config):
    """Seconds of a step of each phase for one of its MLM part, on this machine."""
    other = outline.make(plain_config, made.mesh)
    ratios = []
    for mine, its in zip(made.phases, other.phases):
        is_same = type(mine.objective) is type(its.objective)
        ratios.append(1.0 if is_same else step_ratio(made, mine, its))
    # One machine of a job must not stretch its run by its own clock.
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
        outline.creation(made, phase), out_shardings=recipe.places(made, phase)
    )
    step = recipe.compiled(made, phase)
    _, parts = sharding.part_of_batch(made.mesh)
    rows = outline.batch(phase, made.batch_size // parts, made.length, made.tokenizer)
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
