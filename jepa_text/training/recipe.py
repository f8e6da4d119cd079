"""The recipe of a run: what its config becomes, built once and never changed.

    make      for training: with rows, evaluations and the devices of this machine
    outline   for a plan: on any devices, before rows exist

Later code sees only the Recipe: a frozen tree of what the run is made of, with the phases
in order, each with its objective, network, rows, schedule and step.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jepa_text.config import ranges, resolve, schema
from jepa_text.data import data_position, stream, tokenizers
from jepa_text.data import mixture as mixtures
from jepa_text.data import section as reads
from jepa_text.data.rows import row_folder
from jepa_text.models import memo, stack
from jepa_text.models.network import Network
from jepa_text.optim import optimizers, schedules
from jepa_text.parallel import sharding
from jepa_text.running import budget, identity, numerics
from jepa_text.training import config as settings
from jepa_text.training import heldout, preflight
from jepa_text.training import state as states
from jepa_text.training import step as steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Steps start..stop of a run, under one objective.

    section      the section of the config that it was built from
    data         the section `data` in this phase
    batch_size   rows per step, on all devices together
    length       tokens per row
    cursor       where it begins in the rows of the run (data/stream.py)
    mixture      the rows that it reads; None in a plan, which has no rows
    reset        pattern of the optimizer state that is reset when it begins, or None
    schedule     the learning rate as a function of the step of the run
    step         the training step (training/step.py), not compiled
    """

    index: int
    start: int
    stop: int
    section: dict
    data: dict
    batch_size: int
    length: int
    cursor: stream.Cursor
    objective: Any
    network: Network
    reset: str | None
    schedule: Any
    step: Any
    mixture: mixtures.Mixture | None = None

    @property
    def name(self):
        return self.section['objective']['name']

    @property
    def steps(self):
        return self.stop - self.start

    @property
    def tokens_per_step(self):
        """Positions in the rows of one step, including padding."""
        return self.batch_size * self.length

    @property
    def max_documents(self):
        """The largest number of documents in a row; None if unknown.

        A plan has no rows, and assumes one document per 64 tokens.
        """
        return self.length // 64 if self.mixture is None else self.mixture.max_documents

    def row(self, step):
        """The number of rows that the run has read before a step of the phase."""
        return self.cursor.at(step, self.batch_size)

    def corrupt(self, example, rng, step):
        """Masks a row; the objective counts steps from the start of the phase."""
        return self.objective.corrupt(example, rng, step - self.start)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that a run is made of. Immutable.

    make_phases   function (sections, steps) -> phases built from the same parts
    settings      the parsed config: what the loop needs besides, such as log_every
    identity      checksums of the files next to a checkpoint (running/identity.py)
    evaluations   what train.py evaluates during training
    """

    seed: int
    steps: int
    tokenizer: tokenizers.Tokenizer
    mesh: Any
    optimizer: Any
    phases: tuple
    make_phases: Callable
    settings: settings.Config
    identity: dict
    evaluations: tuple = ()

    @property
    def fingerprint(self):
        """A checksum of the rows, batch sizes and seed, and so of all batches."""
        first, *others = self.phases
        rows, sizes = first.mixture.fingerprint, first.batch_size
        # One value if all phases agree, else one per phase.
        if any(phase.mixture is not first.mixture for phase in others):
            rows = [(phase.start, phase.mixture.fingerprint) for phase in self.phases]
        if any(phase.batch_size != first.batch_size for phase in others):
            sizes = [(phase.start, phase.batch_size) for phase in self.phases]
        return stream.fingerprint(rows, sizes, self.seed)

    def positions_until(self, step):
        """Positions in the rows of the first `step` steps, including padding."""
        return sum(
            phase.tokens_per_step * (min(step, phase.stop) - phase.start)
            for phase in self.phases
            if step > phase.start
        )

    def meta(self, phase, step):
        """Returns the metadata of a checkpoint at a step of a phase."""
        return {
            'phase': phase.index,
            'fingerprint': self.fingerprint,
            'steps': self.steps,
            'numerics': numerics.current(),
            **self.identity,
            'history': [
                {'start': p.start, 'stop': min(p.stop, step), **p.section}
                for p in self.phases[: phase.index + 1]
            ],
        }

    def check_resumed(self, step, meta):
        """Raises ValueError if a run would not continue as it was trained until `step`.

        That is, with other rows, batches or seed than those in the metadata of its
        checkpoint.
        """
        stream.check_fingerprint(meta['fingerprint'], self.fingerprint)

    def shapes(self, phase):
        """Returns shapes and dtypes of the state in a phase."""
        return _shapes(phase.network.encoder, phase.objective, self.optimizer)

    def shardings(self, phase):
        """Returns the sharding of every leaf of the state in a phase."""
        return sharding.shardings(self.shapes(phase), self.mesh)

    def abstract_state(self, phase):
        """Returns shapes, dtypes and shardings of the state in a phase."""
        return sharding.sharded(self.shapes(phase), self.mesh)

    def random_row(self, phase, rng):
        """Returns a row of random tokens, which are one document, not masked."""
        length = phase.length
        tokens = np.setdiff1d(
            np.arange(self.tokenizer.vocab_size), [*self.tokenizer.special_ids]
        )
        return {
            'tokens': rng.choice(tokens, length).astype(np.int32),
            'segment_ids': np.ones(length, np.int32),
            'positions': np.arange(length, dtype=np.int32),
        }

    def batch(self, phase, rows):
        """Returns a batch of random rows, masked by the objective."""
        rng = np.random.default_rng(0)
        made = []
        for _ in range(rows):
            row = phase.corrupt(self.random_row(phase, rng), rng, phase.start)
            if phase.mixture and len(phase.mixture.parts) > 1:
                row[mixtures.PART] = phase.mixture.one_hot(0)
            made.append(row)
        return {key: np.stack([row[key] for row in made]) for key in made[0]}

    def abstract_batch(self, phase, rows=None):
        """Returns shapes and dtypes of a batch of `rows` rows, or of one step."""
        rows = phase.batch_size if rows is None else rows
        return {
            key: jax.ShapeDtypeStruct((rows, *row.shape[1:]), row.dtype)
            for key, row in self.batch(phase, 1).items()
        }

    def cost(self, phase):
        """Returns the flops.Count of a step of a phase."""
        batch = self.abstract_batch(phase)
        return steps.cost(phase.network, phase.objective, batch)


@memo.memoize
def _shapes(encoder, objective, optimizer):
    state = states.abstract(encoder, objective)
    return state.replace(opt_state=jax.eval_shape(optimizer.init, state.params))


def total_steps(config):
    """Returns the steps of the run.

    Raises ValueError for a budget in tokens if a phase reads other data, so that steps
    have different sizes.
    """
    steps, tokens = config.get('steps', 0), config.get('tokens', 0)
    if tokens and any(phase.get('data') for phase in config['phases']):
        raise ValueError(
            f'tokens={tokens:,}, but a phase has its own data, so steps differ in '
            'size. Set steps instead.'
        )
    return budget.total_steps(config['data'], steps, tokens)


def outline(config, mesh, vocab_size=None):
    """Returns the Recipe of a config on a mesh, without rows; only reads a tokenizer.

    Raises ValueError for settings that do not fit together.
    """
    parsed = schema.read(settings.Config, config)
    return _recipe(config, parsed, mesh, tokenizer_of(config, vocab_size))


def make(config, evaluations=()):
    """Returns the Recipe of a config on the devices of this machine.

    `evaluations` are further ones besides the losses and the geometry of held-out rows
    (training/heldout.py): functions of (recipe, section `evaluate`) that return an
    evaluation or None. Raises ValueError for settings that do not fit together.
    """
    parsed = schema.read(settings.Config, config)
    folder = row_folder.fetch(_first_folder(config), shards=False)
    row_folder.read_manifest(folder)
    tokenizer = tokenizers.load(folder / 'tokenizer.json')
    recipe = _recipe(config, parsed, mesh(config), tokenizer)
    recipe = dataclasses.replace(
        recipe, phases=data_position.with_mixtures(recipe.phases, tokenizer)
    )
    data_position.check(recipe.phases, parsed.data.repeat)
    preflight.batch_size(recipe, parsed.accumulate)
    if parsed.baseline == 'none':  # with_baseline checks those of a matched baseline
        preflight.lr_multipliers(recipe, parsed.optimizer)
    made = [heldout.make(recipe, parsed.evaluate)]
    if parsed.geometry.every:
        from jepa_text.training import geometry

        made.append(geometry.make(recipe, parsed.geometry))
    made += [make(recipe, parsed.evaluate) for make in evaluations]
    return dataclasses.replace(recipe, evaluations=tuple(filter(None, made)))


def objectives(config):
    """Returns the objectives of a config, made with the bundled tokenizer."""
    sections, total = config['phases'], total_steps(config)
    return [
        resolve.build(
            'objectives',
            phase['objective'],
            tokenizer=tokenizers.load(tokenizers.BUNDLED),
            length=reads.changed(config['data'], phase.get('data'))['row_length'],
            steps=stop - start,
        )
        for phase, (start, stop) in zip(sections, budget.spans(sections, total))
    ]


def _recipe(config, parsed, mesh, tokenizer):
    total = total_steps(config)
    optimizer = optimizers.make(parsed.optimizer)
    make_phases = functools.partial(
        _phases,
        data=config['data'],
        model=parsed.model,
        tokenizer=tokenizer,
        schedule=schedules.make(parsed.schedule, total),
        optimizer=optimizer,
        clip_norm=parsed.clip_norm,
        accumulate=parsed.accumulate,
        diagnostics_every=parsed.telemetry.every,
    )
    made = make_phases(config['phases'], total)
    recipe = Recipe(
        seed=parsed.seed,
        steps=total,
        tokenizer=tokenizer,
        mesh=mesh,
        optimizer=optimizer,
        phases=made,
        make_phases=make_phases,
        settings=parsed,
        identity=identity.fingerprints(config, tokenizer),
    )
    preflight.context(recipe)
    for phase in recipe.phases:
        preflight.user_code_of(recipe, phase, parsed.model)
    return recipe


def mesh(config):
    """Returns the mesh of the devices of this job."""
    return sharding.make_mesh(**config['mesh'])


def _phases(sections, total, *, data, model, tokenizer, schedule, **step_options):
    """Returns the phases of a run of `total` steps.

    `data` and `model` are sections of the config, which a phase may change; `schedule` is
    the learning rate of the run. `step_options` are the remaining arguments of
    step.make_step. Raises ValueError for an invalid section.
    """
    phases, row, encoders = [], 0, {}
    for index, (section, (start, stop)) in enumerate(
        zip(sections, budget.spans(sections, total))
    ):
        own_data = reads.changed(data, section.get('data'))
        batch_size = own_data['batch_size']
        objective = resolve.build(
            'objectives',
            section['objective'],
            tokenizer=tokenizer,
            length=own_data['row_length'],
            steps=stop - start,
        )
        preflight.returned_objective(section['objective'], objective)
        # Phases of equal rope_theta share an encoder, and so its compiled programs.
        theta = section.get('rope_theta')
        if theta not in encoders:
            encoders[theta] = resolve.build(
                'models', stack.with_theta(model, theta), vocab_size=tokenizer.vocab_size
            )
            preflight.returned_encoder(model, encoders[theta])
        with resolve.user_faults(resolve.user_modules(section['objective'])):
            network = Network(encoders[theta], objective)
        reset, rewarm = _at_switch(section, index, stop - start)
        rate = schedules.rewarmed(schedule, start, rewarm)
        step = steps.make_step(
            network, objective, schedule=rate, phase_start=start, **step_options
        )
        phases.append(
            Phase(
                index=index,
                start=start,
                stop=stop,
                section=section,
                data=own_data,
                batch_size=batch_size,
                length=own_data['row_length'],
                cursor=stream.Cursor(start, row),
                objective=objective,
                network=network,
                reset=reset,
                schedule=rate,
                step=step,
            )
        )
        row += batch_size * (stop - start)
    return tuple(phases)


def _at_switch(section, index, steps):
    """Returns (pattern of what is reset or None, steps of a new warm-up) of a phase."""
    at_switch = section.get('at_switch') or {}
    if at_switch and not index:
        raise ValueError(
            'phases.0: at_switch is only for later phases, as no phase precedes the '
            'first. Remove it.'
        )
    return at_switch.get('reset'), ranges.in_steps(at_switch.get('rewarm', 0), steps)


def tokenizer_of(config, vocab_size=None):
    """Returns the tokenizer of the rows.

    Before rows exist, returns the tokenizer that `prepare` would use, or, if that does
    not exist either, a stand-in with `vocab_size` tokens. Raises ValueError if none of
    them is available.
    """
    folder = _first_folder(config)
    if folder and row_folder.exists(folder, 'tokenizer.json'):
        return tokenizers.load(row_folder.fetch(folder, shards=False) / 'tokenizer.json')
    wanted = (config.get('prepare') or {}).get('tokenizer', '')
    from jepa_text.hf import named_tokenizer

    if named_tokenizer.exists(wanted):
        return named_tokenizer.opened(wanted, config.get('init_from')).tokenizer
    if vocab_size:
        bundled = tokenizers.load(tokenizers.BUNDLED)
        return dataclasses.replace(bundled, vocab_size=vocab_size)
    raise ValueError(
        f'The size of the vocabulary is unknown: data.folder={folder!r} has no '
        f'tokenizer.json, and prepare.tokenizer={wanted!r} does not exist. Set one of '
        'them, or plan.vocab_size.'
    )


def _first_folder(config):
    """The first folder of rows of the first phase; its tokenizer is that of the run."""
    own = reads.changed(config['data'], config['phases'][0].get('data'))
    return reads.folders(own)[0][0]
