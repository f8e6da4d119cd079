"""The recipe of a run: what its config becomes, built once and never changed.

Later code sees only the Recipe: a frozen tree of what the run is made of, with the phases
in order, each with its objective, network, rows, schedule and step.
"""

import dataclasses
from typing import Any

import jax
import numpy as np

from jepa_text.data import data_position, tokenizers
from jepa_text.data import mixture as mixtures
from jepa_text.data import section as reads
from jepa_text.data.rows import row_folder
from jepa_text.hf import named_tokenizer
from jepa_text.models import memo, stack
from jepa_text.models.network import Network
from jepa_text.optim import optimizers, schedules
from jepa_text.parallel import sharding
from jepa_text.running import budget, identity, numerics
from jepa_text.settings import resolve, schema
from jepa_text.training import config as settings
from jepa_text.training import heldout, preflight
from jepa_text.training import state as states
from jepa_text.training import step as steps
from jepa_text.training.tokenizer import Training


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Steps start..stop of a run, under one objective.

    section      the section of the config that it was built from
    first_row    the number of rows that the run has read before it
    mixture      the rows that it reads; None in a plan, which has no rows
    step         the training step (training/step.py), not compiled
    """

    index: int
    start: int
    stop: int
    section: dict
    data: dict
    batch_size: int
    length: int
    first_row: int
    objective: Any
    network: Network
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
        return self.first_row + (step - self.start) * self.batch_size

    def corrupt(self, example, rng, step):
        """Masks a row; the objective counts steps from the start of the phase."""
        return self.objective.corrupt(example, rng, step - self.start)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that a run is made of. Immutable.

    settings      the parsed config: what the loop needs besides, such as log_every_steps
    identity      checksums of the files next to a checkpoint (running/identity.py)
    evaluations   what train.py evaluates during training
    """

    seed: int
    steps: int
    tokenizer: tokenizers.Tokenizer
    mesh: Any
    optimizer: Any
    phases: tuple
    settings: settings.Config
    identity: dict
    evaluations: tuple = ()

    @property
    def fingerprint(self):
        """A checksum of the rows, batch sizes and seed, and so of all batches."""
        return data_position.fingerprint(self.phases, self.seed)

    def positions_until(self, step):
        """Positions in the rows of the first `step` steps, including padding."""
        return sum(
            phase.tokens_per_step * (min(step, phase.stop) - phase.start)
            for phase in self.phases
            if step > phase.start
        )

    def meta(self, phase, step):
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

    def shapes(self, phase):
        return _shapes(phase.network.encoder, phase.objective, self.optimizer)

    def shardings(self, phase):
        return sharding.shardings(self.shapes(phase), self.mesh)

    def abstract_state(self, phase):
        return sharding.sharded(self.shapes(phase), self.mesh)

    def abstract_batch(self, phase, rows=None):
        """Returns shapes and dtypes of a batch of `rows` rows, or of one step."""
        length, special_ids = phase.length, {*self.tokenizer.special_ids}
        token = next(i for i in range(self.tokenizer.vocab_size) if i not in special_ids)
        row = {
            'tokens': np.full(length, token, np.int32),
            'segment_ids': np.ones(length, np.int32),
            'positions': np.arange(length, dtype=np.int32),
        }
        row = phase.corrupt(row, np.random.default_rng(0), phase.start)
        if phase.mixture and len(phase.mixture.parts) > 1:
            row[mixtures.PART] = phase.mixture.one_hot(0)
        rows = phase.batch_size if rows is None else rows
        return {
            key: jax.ShapeDtypeStruct((rows, *np.shape(x)), np.asarray(x).dtype)
            for key, x in row.items()
        }

    def cost(self, phase):
        batch = self.abstract_batch(phase)
        return preflight.cost(phase.network, phase.objective, batch)


@memo.memoize
def _shapes(encoder, objective, optimizer):
    state = states.abstract(encoder, objective)
    return state.replace(opt_state=jax.eval_shape(optimizer.init, state.params))


def make(config, evaluations=()):
    """Returns the Recipe of a config on the devices of this machine.

    `evaluations` are further ones besides the losses and the geometry of held-out rows
    (training/heldout.py): functions of (recipe, section `evaluate`) that return an
    evaluation or None. Raises ValueError for settings that do not fit together.
    """
    folder = row_folder.fetch(_first_folder(config), shards=False)
    row_folder.read_manifest(folder)
    tokenizer = tokenizers.load(folder / 'tokenizer.json')
    recipe = outline(config, tokenizer=tokenizer)
    parsed = recipe.settings
    phases = data_position.with_mixtures(recipe.phases, tokenizer)
    recipe = dataclasses.replace(recipe, phases=phases)
    data_position.check(phases, parsed.data.repeat)
    preflight.batch_size(recipe)
    if parsed.baseline == 'none':  # with_baseline checks those of a matched baseline
        preflight.parameter_paths(recipe)
    made = [heldout.make(recipe, parsed.evaluate)]
    if parsed.geometry.every_steps:
        from jepa_text.training import geometry

        made.append(geometry.make(recipe, parsed.geometry))
    made += [make(recipe, parsed.evaluate) for make in evaluations]
    return dataclasses.replace(recipe, evaluations=tuple(filter(None, made)))


def outline(config, mesh=None, vocab_size=None, tokenizer=None):
    """Returns the Recipe of a config without rows, on the devices of this job or a mesh.

    Without a `tokenizer`, it is that of `tokenizer_of`. Raises ValueError for settings
    that do not fit together.
    """
    parsed = schema.read(settings.Config, config)
    tokenizer = tokenizer or tokenizer_of(config, vocab_size)
    total = budget.total_steps(config)
    optimizer = optimizers.make(parsed.optimizer)
    recipe = Recipe(
        seed=parsed.seed,
        steps=total,
        tokenizer=tokenizer,
        mesh=sharding.make_mesh(**config['mesh']) if mesh is None else mesh,
        optimizer=optimizer,
        phases=_phases(config, parsed, total, tokenizer, optimizer),
        settings=parsed,
        identity=identity.fingerprints(config, tokenizer),
    )
    preflight.context(recipe)
    for phase in recipe.phases:
        preflight.user_code_of(recipe, phase)
    return recipe


def _phases(config, parsed, total, tokenizer, optimizer):
    """Returns the phases of a run of `total` steps."""
    phases, row = [], 0
    schedule = schedules.make(parsed.schedule, total)
    spans = budget.spans(config['phases'], total)
    for index, (section, (start, stop)) in enumerate(zip(config['phases'], spans)):
        data = reads.changed(config['data'], section.get('data'))
        objective = resolve.build(
            'objectives',
            section['objective'],
            tokenizer=tokenizer,
            length=data['row_length'],
            steps=stop - start,
        )
        preflight.returned_objective(section['objective'], objective)
        model = stack.changed(parsed.model, {'rope_theta': section.get('rope_theta')})
        encoder = resolve.build('models', model, vocab_size=tokenizer.vocab_size)
        preflight.returned_encoder(model, encoder)
        with resolve.user_faults(resolve.user_modules(section['objective'])):
            network = Network(encoder, objective)
        step = steps.make_step(
            network,
            objective,
            optimizer,
            schedule,
            phase_start=start,
            clip_norm=parsed.clip_norm,
            accumulate=parsed.accumulate,
            diagnostics_every=parsed.telemetry.every_steps,
        )
        phases.append(
            Phase(
                index=index,
                start=start,
                stop=stop,
                section=section,
                data=data,
                batch_size=data['batch_size'],
                length=data['row_length'],
                first_row=row,
                objective=objective,
                network=network,
                schedule=schedule,
                step=step,
            )
        )
        row += data['batch_size'] * (stop - start)
    return tuple(phases)


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
    if named_tokenizer.exists(wanted):
        return named_tokenizer.opened(wanted, config.get('init_from')).tokenizer
    if to_train := named_tokenizer.TRAINED.fullmatch(wanted):
        section = {'vocab_size': int(to_train[1])}
        vocab_size = schema.read(Training, section, 'prepare.tokenizer').vocab_size
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
