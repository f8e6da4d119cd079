"""What a config stands for: rows, network, optimizer, phases; built and checked once."""

import dataclasses
import functools
from typing import Any

import jax

from jepa_text.config import ranges, resolve, schema
from jepa_text.data import pipeline, tokenizers
from jepa_text.models.network import Network
from jepa_text.optim import optimizers, schedules
from jepa_text.parallel import sharding
from jepa_text.running import budget
from jepa_text.training import config as settings
from jepa_text.training import state as states
from jepa_text.training import step as steps
from jepa_text.training.evals import geometry, heldout

OFFLOADED = {'': '', 'optimizer': 'opt_state'}


@dataclasses.dataclass(frozen=True)
class Phase:
    """Steps start..stop of a run under one objective."""

    index: int
    start: int
    stop: int
    objective: Any
    network: Network
    reset: str | None
    step: Any

    def corrupt(self, example, rng, step):
        """The objective counts steps from the start of its phase."""
        return self.objective.corrupt(example, rng, step - self.start)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a config stands for, built once: nothing in it changes while training."""

    rows: pipeline.Rows
    tokenizer: tokenizers.Tokenizer
    mesh: jax.sharding.Mesh
    optimizer: Any
    phases: tuple
    seed: int
    batch_size: int
    steps: int
    fingerprint: str
    offload: str
    evaluator: heldout.Evaluator | None
    geometry: geometry.Evaluator | None


def make(config):
    """Builds all parts of a run. Raises ValueError for what cannot work together."""
    schema.read(settings.Config, config)
    data, seed = config['data'], config['seed']
    rows = pipeline.Rows(data['folder'], 'train')
    pipeline.check_row_length(rows.manifest, data['row_length'])
    tokenizer = tokenizers.load(f'{data["folder"]}/tokenizer.json')
    pipeline.check_tokenizer(rows.manifest, tokenizer)
    mesh = resolve.call('mesh', sharding.make_mesh, config['mesh'])
    batch_size, steps = size(config)
    _check_batch(batch_size, config['accumulate'], mesh)
    encoder = resolve.build('models', config['model'], vocab_size=tokenizer.vocab_size)
    optimizer = optimizers.make(config['optimizer'])
    sized = config | {'steps': steps}
    phases = make_phases(sized, encoder, tokenizer, rows.row_length, optimizer)
    trees = [jax.eval_shape(functools.partial(p.network.init, seed)) for p in phases]
    optimizers.check_rates(config['optimizer'], trees)
    evaluator = None
    if config['evaluate']['every']:
        evaluator = heldout.Evaluator(
            [phase.network for phase in phases],
            pipeline.Rows(data['folder'], 'heldout'),
            tokenizer,
            mesh,
            batch_size=batch_size,
            rate=config['evaluate']['rate'],
            most_rows=config['evaluate']['most_rows'],
        )
    return Recipe(
        rows=rows,
        tokenizer=tokenizer,
        mesh=mesh,
        optimizer=optimizer,
        phases=phases,
        seed=seed,
        batch_size=batch_size,
        steps=steps,
        fingerprint=pipeline.fingerprint(rows, batch_size, seed),
        offload=_offloaded(config['offload']),
        evaluator=evaluator,
        geometry=_geometry(config, phases[0].network, mesh, batch_size),
    )


def _geometry(config, network, mesh, batch_size):
    """What measures held-out vectors every so many steps; None if never."""
    section = dict(config['geometry'])
    if not section.pop('every', 0):
        return None
    return resolve.call(
        'geometry',
        geometry.Evaluator,
        section,
        network=network,
        rows=pipeline.Rows(config['data']['folder'], 'heldout'),
        mesh=mesh,
        batch_size=batch_size,
    )


def size(config):
    """(rows of a step, steps of the run), on the devices that are here."""
    rows = budget.rows(config['data'], jax.device_count())
    return rows, budget.steps(config, rows)


def make_phases(config, encoder, tokenizer, length, optimizer):
    """The phases of a config, one after the other over `steps` steps in all."""
    spans = phase_spans(config['phases'], config['steps'])
    schedule = schedules.of_run(
        config['schedule'], config['steps'], config.get('extended', ())
    )
    phases = []
    for index, (section, (start, stop)) in enumerate(zip(config['phases'], spans)):
        objective = resolve.build(
            'objectives',
            section['objective'],
            tokenizer=tokenizer,
            length=length,
            steps=stop - start,
        )
        network = Network(encoder, objective)
        reset, rewarm = _at_switch(section, index, stop - start)
        step = steps.make_step(
            network,
            objective,
            optimizer,
            schedules.rewarmed(schedule, start, rewarm),
            phase_start=start,
            clip_norm=config['clip_norm'],
            accumulate=config['accumulate'],
            look_every=config['telemetry']['every'],
        )
        phases.append(Phase(index, start, stop, objective, network, reset, step))
    return tuple(phases)


def _at_switch(section, index, steps):
    """(pattern of what starts afresh or None, steps of a new warm-up) of a phase."""
    at = section.get('at_switch') or {}
    if at and not index:
        raise ValueError('phase 0: at_switch belongs to a later phase; none ends before.')
    if unknown := set(at) - {'reset', 'rewarm'}:
        raise ValueError(
            f'phase {index}: at_switch has {sorted(unknown)}; it takes reset and rewarm.'
        )
    if at.get('reset') is not None:
        ranges.pattern('at_switch.reset', at['reset'])
    rewarm = at.get('rewarm', 0)
    ranges.number('at_switch.rewarm', rewarm, least=0)
    return at.get('reset'), ranges.in_steps(rewarm, steps)


def phase_spans(phases, total):
    """(start, stop) of each phase: its `steps`, or its `share` of all steps; the last
    phase may leave both out and takes the rest. Raises ValueError when they do not add
    up to `total`."""
    spans, start = [], 0
    for number, phase in enumerate(phases):
        unknown = set(phase) - {'objective', 'steps', 'share', 'at_switch'}
        if unknown or 'objective' not in phase:
            raise ValueError(
                f'phase {number}: {sorted(phase)}; a phase has an objective, steps or '
                'share, and maybe at_switch.'
            )
        if 'steps' in phase and 'share' in phase:
            raise ValueError(f'phase {number} has steps and a share: give one of them.')
        length = total - start
        if 'steps' in phase:
            ranges.number(f'phase {number}: steps', phase['steps'], whole=True, least=1)
            length = int(phase['steps'])
        elif 'share' in phase:
            ranges.number(f'phase {number}: share', phase['share'], above=0, most=1)
            length = round(phase['share'] * total)
        spans.append((start, start + length))
        start += length
    if start != total or any(stop <= begin for begin, stop in spans):
        raise ValueError(
            f'phases cover steps {spans}, but the run has {total} steps: each needs at '
            'least one step, and together they must cover all. Change steps or shares.'
        )
    return spans


def plain(config):
    """The config of a run as plain dicts with all defaults, as `config.plain`."""
    return settings.plain(config)


def abstract_state(recipe, phase):
    """Shapes, dtypes and shardings of the state in a phase."""
    make = functools.partial(
        states.create, phase.network, phase.objective, recipe.optimizer, recipe.seed
    )
    shapes = jax.eval_shape(make)
    places = sharding.shardings(shapes, recipe.mesh, recipe.offload)
    return jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
        shapes,
        places,
    )


def places(recipe, phase):
    """The sharding of every leaf of the state in a phase."""
    return jax.tree.map(lambda leaf: leaf.sharding, abstract_state(recipe, phase))


def compiled(recipe, phase):
    """The step of a phase for the mesh: `(state, batch) -> (state, metrics)`.

    On CPUs a call returns when the step has ended (`sharding.one_by_one`).
    """
    step = sharding.within(recipe.mesh, jitted(recipe, phase))
    return sharding.one_by_one(recipe.mesh, step)


def jitted(recipe, phase):
    """The same, to be called or lowered where the mesh is set.

    The state is donated; parts of it that lie on the host travel to the devices and back.
    """
    at = places(recipe, phase)
    step = _fetching(phase.step, recipe.offload) if recipe.offload else phase.step
    return jax.jit(
        step,
        in_shardings=(at, sharding.batch_sharding(recipe.mesh)),
        out_shardings=(at, sharding.replicated(recipe.mesh)),
        donate_argnums=0,
    )


def _fetching(step, part):
    def fetched(state, batch):
        away = getattr(state, part)
        here = jax.device_put(away, jax.memory.Space.Device)
        return step(state.replace(**{part: here}), batch)

    return fetched


def _offloaded(what):
    """The part of the state that lies in the memory of the host; '' for none."""
    if not isinstance(what, str) or what not in OFFLOADED:
        raise ValueError(
            f'offload={what!r}; there are: {", ".join(map(repr, OFFLOADED))}.'
        )
    return OFFLOADED[what]


def _check_batch(batch_size, accumulate, mesh):
    ways = mesh.shape['data'] * mesh.shape['fsdp']
    if batch_size % (ways * accumulate):
        raise ValueError(
            f'data.batch_size={batch_size} is not a multiple of {ways} (mesh data x '
            f'fsdp) x {accumulate} (accumulate); change one of them.'
        )
