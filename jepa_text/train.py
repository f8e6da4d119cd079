"""`train(config, workdir) -> state`: phases of objectives over one stream of rows.

The config ends here: everything below takes the values that it uses. The same call
again resumes from the newest good checkpoint, exactly: the data cursor is the step,
every random choice is keyed by it, and the metrics after it are written again.
"""

import contextlib
import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

import jax

from jepa_text import (
    checkpoint,
    console,
    metrics,
    optimizers,
    resolve,
    schedules,
    sharding,
    tokenizers,
    workdir,
)
from jepa_text import state as states
from jepa_text import step as steps
from jepa_text.data import pipeline, prepare
from jepa_text.evals import heldout

# What a resumed run may set differently without becoming another run.
MAY_CHANGE = ('log_every', 'checkpoint', 'evaluate.every', 'mesh', 'data.threads')


def train(config, folder):
    """Trains, or resumes, the run that `config` describes in the folder.

    Returns the final TrainState. Raises ValueError for a config that cannot run and
    for a folder that belongs to another one, before anything is written.
    """
    config = plain(config)
    with contextlib.ExitStack() as stack:
        plan = make_plan(config)
        stack.enter_context(workdir.open_workdir(folder, config, MAY_CHANGE))
        store = stack.enter_context(
            checkpoint.Checkpointer(
                f'{folder}/checkpoints', keep=config['checkpoint']['keep']
            )
        )
        state, index = _start(plan, store)
        started = int(state.step)
        total = plan.phases[-1].stop
        if jax.process_index() == 0:
            plan.tokenizer.save(f'{folder}/tokenizer.json')
        writer = stack.enter_context(
            metrics.Writer(folder, resume_step=started if index is not None else -1)
        )
        progress = stack.enter_context(
            console.Progress(config['name'], total, start=started)
        )
        run = _Run(config, plan, store, writer, progress)
        if index is None:
            run.evaluate(state, 0)
            index = 0
        for phase in plan.phases:
            if phase.index > index:
                state = _enter(plan, phase, state)
            if phase.stop > int(state.step):
                state = run.phase(phase, state)
            index = max(index, phase.index)
        store.wait()
        return state


@dataclasses.dataclass(frozen=True)
class Phase:
    """Steps start..stop of a run under one objective."""

    index: int
    start: int
    stop: int
    objective: Any
    network: states.Network
    reset: str | None
    step: Any


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a config stands for, built once: nothing in it changes while training."""

    rows: pipeline.Rows
    tokenizer: tokenizers.Tokenizer
    mesh: jax.sharding.Mesh
    optimizer: Any
    phases: tuple
    seed: int
    batch_size: int
    fingerprint: str
    evaluator: heldout.Evaluator | None


def make_plan(config):
    """Builds all parts of a run. Raises ValueError for what cannot work together."""
    data, seed = config['data'], config['seed']
    if 'prepare' in config and not Path(data['folder']).exists():
        prepare.run(config, data['folder'])
    rows = pipeline.Rows(data['folder'], 'train')
    pipeline.check_row_length(rows.manifest, data['row_length'])
    tokenizer = tokenizers.load(f'{data["folder"]}/tokenizer.json')
    pipeline.check_tokenizer(rows.manifest, tokenizer)
    mesh = sharding.make_mesh(**config['mesh'])
    _check_batch(data['batch_size'], config['accumulate'], mesh)
    encoder = resolve.build('models', config['model'], vocab_size=tokenizer.vocab_size)
    optimizer = optimizers.make(config['optimizer'])
    phases = make_phases(config, encoder, tokenizer, rows.row_length, optimizer)
    evaluator = None
    if config['evaluate']['every']:
        evaluator = heldout.Evaluator(
            phases[0].network,
            pipeline.Rows(data['folder'], 'heldout'),
            tokenizer,
            mesh,
            batch_size=data['batch_size'],
            rate=config['evaluate']['rate'],
            most_rows=config['evaluate']['most_rows'],
        )
    return Plan(
        rows=rows,
        tokenizer=tokenizer,
        mesh=mesh,
        optimizer=optimizer,
        phases=phases,
        seed=seed,
        batch_size=data['batch_size'],
        fingerprint=pipeline.fingerprint(rows, data['batch_size'], seed),
        evaluator=evaluator,
    )


def make_phases(config, encoder, tokenizer, length, optimizer):
    """The phases of a config, one after the other over `steps` steps in all."""
    spans = phase_spans(config['phases'], config['steps'])
    schedule = schedules.make(config['schedule'], config['steps'])
    phases = []
    for index, (section, (start, stop)) in enumerate(zip(config['phases'], spans)):
        objective = resolve.build(
            'objectives',
            section['objective'],
            tokenizer=tokenizer,
            length=length,
            steps=stop - start,
        )
        network = states.Network(encoder, objective)
        rewarm = section.get('at_switch', {}).get('rewarm', 0) if index else 0
        step = steps.make_step(
            network,
            objective,
            optimizer,
            schedules.rewarmed(schedule, start, rewarm),
            phase_start=start,
            clip_norm=config['clip_norm'],
            accumulate=config['accumulate'],
        )
        reset = section.get('at_switch', {}).get('reset')
        phases.append(Phase(index, start, stop, objective, network, reset, step))
    return tuple(phases)


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
        rest = total - start
        length = phase.get(
            'steps', round(phase['share'] * total) if 'share' in phase else rest
        )
        spans.append((start, start + length))
        start += length
    if start != total or any(stop <= begin for begin, stop in spans):
        raise ValueError(
            f'phases cover steps {spans}, but config.steps is {total}: each needs at '
            'least one step, and together they must cover all. Change steps or shares.'
        )
    return spans


def plain(config):
    """A config as plain dicts, lists and numbers, whatever it came as."""
    config = config.to_dict() if hasattr(config, 'to_dict') else config
    return json.loads(json.dumps(config))


def abstract_state(plan, phase):
    """Shapes, dtypes and shardings of the state in a phase."""
    make = functools.partial(
        states.create, phase.network, phase.objective, plan.optimizer, plan.seed
    )
    shapes = jax.eval_shape(make)
    places = sharding.shardings(shapes, plan.mesh)
    return jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
        shapes,
        places,
    )


def _check_batch(batch_size, accumulate, mesh):
    ways = mesh.shape['data'] * mesh.shape['fsdp']
    if batch_size % (ways * accumulate):
        raise ValueError(
            f'data.batch_size={batch_size} is not a multiple of {ways} (mesh data x '
            f'fsdp) x {accumulate} (accumulate); change one of them.'
        )


def _start(plan, store):
    """The state to go on from, and its phase; None as phase for a fresh start."""
    found = store.newest_good()
    if found is None:
        phase = plan.phases[0]
        places = jax.tree.map(lambda leaf: leaf.sharding, abstract_state(plan, phase))
        make = functools.partial(
            states.create, phase.network, phase.objective, plan.optimizer, plan.seed
        )
        return jax.jit(make, out_shardings=places)(), None
    step, meta = found
    pipeline.check_fingerprint(meta['fingerprint'], plan.fingerprint)
    phase = plan.phases[meta['phase']]
    return store.restore(step, abstract_state(plan, phase)), phase.index


def _enter(plan, phase, state):
    """The state at the first step of a phase, laid out for it."""
    places = jax.tree.map(lambda leaf: leaf.sharding, abstract_state(plan, phase))
    enter = functools.partial(
        states.enter_phase,
        network=phase.network,
        objective=phase.objective,
        optimizer=plan.optimizer,
        seed=plan.seed,
        reset=phase.reset,
    )
    return jax.jit(enter, out_shardings=places)(state)


class _Run:
    """The loop of one phase, and what happens beside it."""

    def __init__(self, config, plan, store, writer, progress):
        self.config, self.plan, self.store = config, plan, store
        self.writer, self.progress = writer, progress
        self.clock = metrics.Throughput(devices=jax.device_count())

    def phase(self, phase, state):
        """Trains from the state's step to the end of the phase."""
        config, mesh = self.config, self.plan.mesh
        places = jax.tree.map(
            lambda leaf: leaf.sharding, abstract_state(self.plan, phase)
        )
        step = jax.jit(
            phase.step,
            in_shardings=(places, sharding.batch_sharding(mesh)),
            out_shardings=(places, sharding.replicated(mesh)),
            donate_argnums=0,
        )
        self.clock.restart()
        batches = pipeline.batches(
            self.plan.rows,
            phase.objective.corrupt,
            batch_size=self.plan.batch_size,
            seed=self.plan.seed,
            start=int(state.step),
            process_index=jax.process_index(),
            process_count=jax.process_count(),
        )
        with contextlib.closing(batches):
            for number in range(int(state.step) + 1, phase.stop + 1):
                with self.clock.waiting():
                    batch = next(batches)
                tokens = int((batch['segment_ids'] > 0).sum())
                state, values = step(state, sharding.put_batch(batch, mesh))
                self.clock.step(tokens)
                if number % config['log_every'] == 0 or number == phase.stop:
                    self.log(number, jax.device_get(values), state, phase)
                if self._due('evaluate', number, phase):
                    self.evaluate(state, number)
                # After the metrics of this step: a resumed run does not write them again.
                if self._due('checkpoint', number, phase):
                    self.save(state, phase, wait=number == self.plan.phases[-1].stop)
        return state

    def log(self, number, values, state, phase):
        """Writes the metrics of a step, and stops a run that only skips."""
        rates = self.clock.window()
        self.writer.write(number, {**values, **rates})
        self.progress.update(
            number,
            loss=values['train/loss'],
            tokens_per_second=rates.get('throughput/tokens_per_second'),
        )
        if values['train/skipped_in_row'] >= self.config['stop_after_skips']:
            self.save(state, phase, wait=True)
            raise FloatingPointError(
                f'step {number}: loss or gradient was not finite '
                f'{int(values["train/skipped_in_row"])} times in a row. The state before '
                'the first of them is saved. Lower schedule.peak, or look at the data.'
            )

    def evaluate(self, state, number):
        """Held-out losses, written at a step."""
        if self.plan.evaluator is not None:
            with self.clock.paused():
                self.writer.write(number, self.plan.evaluator.run(state.params))

    def save(self, state, phase, wait=False):
        """A checkpoint of the state, with what it takes to go on from it."""
        with self.clock.paused():
            meta = {
                'phase': phase.index,
                'fingerprint': self.plan.fingerprint,
                'history': [
                    {
                        'start': past.start,
                        'stop': min(past.stop, int(state.step)),
                        **section,
                    }
                    for past, section in zip(
                        self.plan.phases[: phase.index + 1], self.config['phases']
                    )
                ],
            }
            self.store.save(state, meta, wait=wait)

    def _due(self, section, number, phase):
        every = self.config[section]['every']
        return bool(every) and (number % every == 0 or number == phase.stop)
