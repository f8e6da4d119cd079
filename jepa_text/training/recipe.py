"""The Recipe: everything that a training run is made of, built once from its config."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jepa_text.cost import memo
from jepa_text.data import mixture as mixtures
from jepa_text.data import stream, tokenizers
from jepa_text.models.network import Network
from jepa_text.objectives.base import DRAWS
from jepa_text.parallel import sharding
from jepa_text.running import numerics, writers
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
class Loop:
    """Settings of the training loop that do not affect the state.

    name                shown while the run trains
    log_every           steps between lines of metrics
    stop_after_skips    consecutive non-finite steps after which the run stops
    stop_at_collapse    whether the run stops at signs of collapse
    save_every          steps between checkpoints
    keep, keep_every    retained: the newest `keep`, and one every `keep_every` steps
    keep_at             steps whose checkpoints are saved and retained, and at which the
                        run also logs and evaluates
    threads             threads that read rows
    profile_steps       first and last step of a trace, or (0, 0)
    wandb               settings of Weights & Biases, or None
    """

    name: str
    log_every: int
    stop_after_skips: int
    stop_at_collapse: bool
    save_every: int
    keep: int
    keep_every: int | None
    keep_at: frozenset
    threads: int
    profile_steps: tuple
    wandb: writers.WandbConfig | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that a run is made of. Immutable.

    make_phases   function (sections, steps) -> phases built from the same parts
    offload       name of the part of the state in host memory; '' for none
    init_from     init_from.InitFrom, or None
    identity      checksums of the files next to a checkpoint (running/identity.py)
    notes         messages that are reported when the run begins
    evaluations   what train.py evaluates during training
    """

    seed: int
    steps: int
    tokenizer: tokenizers.Tokenizer
    mesh: Any
    optimizer: Any
    phases: tuple
    make_phases: Callable
    offload: str
    loop: Loop
    init_from: Any
    identity: dict
    notes: tuple
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


def meta(recipe, phase, step):
    """Returns the metadata of a checkpoint at a step of a phase."""
    return {
        'phase': phase.index,
        'fingerprint': recipe.fingerprint,
        'steps': recipe.steps,
        'draws': DRAWS,
        'numerics': numerics.current(),
        **recipe.identity,
        'history': [
            {'start': p.start, 'stop': min(p.stop, step), **p.section}
            for p in recipe.phases[: phase.index + 1]
        ],
    }


def check_resumed(recipe, step, meta):
    """Raises ValueError if a run would not continue as it was trained until `step`.

    That is, with other rows, batches or seed than those in the metadata of its
    checkpoint, or other draws on the device (objectives/base.py).
    """
    stream.check_fingerprint(meta['fingerprint'], recipe.fingerprint)
    draws, phase = meta.get('draws', 1), recipe.phases[meta['phase']]
    if draws != DRAWS and phase.objective.compares and step < recipe.steps:
        raise ValueError(
            f'The checkpoint of step {step:,} was trained by another version, which drew '
            f'the directions of regularizers and the negatives of InfoNCE in another way '
            f'(draws {draws}, now {DRAWS}), so the run would not continue as it began. '
            'Finish it with the version that began it, or start over from its weights '
            '(init_from) in a new workdir.'
        )


def shapes(recipe, phase):
    """Returns shapes and dtypes of the state in a phase."""
    return _shapes(phase.network.encoder, phase.objective, recipe.optimizer)


@memo.memoize
def _shapes(encoder, objective, optimizer):
    state = states.abstract(encoder, objective)
    return state.replace(opt_state=jax.eval_shape(optimizer.init, state.params))


def shardings(recipe, phase):
    """Returns the sharding of every leaf of the state in a phase."""
    return sharding.shardings(shapes(recipe, phase), recipe.mesh, recipe.offload)


def abstract_state(recipe, phase):
    """Returns shapes, dtypes and shardings of the state in a phase."""
    return sharding.sharded(shapes(recipe, phase), recipe.mesh, recipe.offload)


def random_row(recipe, phase, rng):
    """Returns a row of random tokens, which are one document, not masked."""
    length = phase.length
    tokens = np.setdiff1d(
        np.arange(recipe.tokenizer.vocab_size), [*recipe.tokenizer.special_ids]
    )
    return {
        'tokens': rng.choice(tokens, length).astype(np.int32),
        'segment_ids': np.ones(length, np.int32),
        'positions': np.arange(length, dtype=np.int32),
    }


def batch(recipe, phase, rows):
    """Returns a batch of random tokens, one document per row, masked by the objective."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(rows):
        row = phase.corrupt(random_row(recipe, phase, rng), rng, phase.start)
        if phase.mixture and len(phase.mixture.parts) > 1:
            row[mixtures.PART] = phase.mixture.one_hot(0)
        made.append(row)
    return {key: np.stack([row[key] for row in made]) for key in made[0]}


def abstract_batch(recipe, phase, rows=None):
    """Returns shapes and dtypes of a batch of `rows` rows; None: those of one step."""
    rows = phase.batch_size if rows is None else rows
    return {
        key: jax.ShapeDtypeStruct((rows, *row.shape[1:]), row.dtype)
        for key, row in batch(recipe, phase, 1).items()
    }


def cost(recipe, phase):
    """Returns the flops.Count of a step of a phase."""
    batch = abstract_batch(recipe, phase)
    return steps.cost(phase.network, phase.objective, batch)
