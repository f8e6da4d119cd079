"""What a run is made of, and what follows from it; build.py makes it of a config."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jepa_text.data import mixture as mixtures
from jepa_text.data import stream, tokenizers
from jepa_text.models.network import Network
from jepa_text.parallel import sharding
from jepa_text.running import writers
from jepa_text.training import state as states
from jepa_text.training import step as steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Steps start..stop of a run under one objective.

    section    what it was made of
    data       what it reads: the section `data`, as it has it
    batch_size    rows of `length` tokens of a step, on all devices together
    cursor     where in the rows of the run it begins: data/stream.py
    mixture    what they are; None in a plan
    reset      a pattern of what the optimizer begins anew with it, or None
    schedule   its learning rate, by step of the run
    step       its update: training/step.py
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
        """Positions in the rows of one step, padding too."""
        return self.batch_size * self.length

    @property
    def max_documents(self):
        """As many documents has a row at most, None if nobody knows; in a plan, which has
        no rows, one in 64 tokens."""
        return self.length // 64 if self.mixture is None else self.mixture.max_documents

    def row(self, step):
        """How many rows of the run were read before a step of the phase."""
        return self.cursor.at(step, self.batch_size)

    def corrupt(self, example, rng, step):
        """The objective counts steps from the start of its phase."""
        return self.objective.corrupt(example, rng, step - self.start)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loop:
    """What happens beside the steps, and changes no bit of the state.

    stop_after_skips    steps in a row that are not finite, after which the run ends
    save_every          steps between checkpoints; of them stay, so many of the newest
    keep, keep_every    and those of each so many steps
    keep_at             and of these, at which it logs and evaluates, too
    threads             that read rows
    profile_steps       the first and the last step of a trace, or (0, 0)
    wandb               settings of an outlet of metrics, or None
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
    """What trains, built once: nothing in it changes.

    make_phases   (sections, steps) -> other phases of the same parts
    offload       the part of the state in the memory of the host; '' for none
    init_from     init_from.InitFrom, or None
    identity      what a checkpoint knows of the files beside it: running/identity.py
    notes         lines to say when the run begins
    evaluations   what train.py runs beside the steps
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
        """What a step number means: of all phases, where they do not read alike."""
        first, *others = self.phases
        rows, sizes = first.mixture.fingerprint, first.batch_size
        if any(one.mixture is not first.mixture for one in others):
            rows = [(one.start, one.mixture.fingerprint) for one in self.phases]
        if any(one.batch_size != first.batch_size for one in others):
            sizes = [(one.start, one.batch_size) for one in self.phases]
        return stream.fingerprint(rows, sizes, self.seed)

    def tokens_until(self, step):
        """Positions in the rows of the first steps of the run, padding too."""
        return sum(
            one.tokens_per_step * (min(step, one.stop) - one.start)
            for one in self.phases
            if step > one.start
        )


def meta(recipe, phase, step):
    """What a checkpoint of a phase says of the run that it is of."""
    return {
        'phase': phase.index,
        'fingerprint': recipe.fingerprint,
        'steps': recipe.steps,
        **recipe.identity,
        'history': [
            {'start': p.start, 'stop': min(p.stop, step), **p.section}
            for p in recipe.phases[: phase.index + 1]
        ],
    }


def creation(recipe, phase):
    """A function without arguments that makes a state of a phase."""
    return functools.partial(
        states.create, phase.network, phase.objective, recipe.optimizer, recipe.seed
    )


def entering(recipe, phase):
    """A function from the last state of the phase before to the first of this one."""
    return functools.partial(
        states.enter_phase,
        network=phase.network,
        objective=phase.objective,
        optimizer=recipe.optimizer,
        seed=recipe.seed,
        reset=phase.reset,
    )


def shapes(recipe, phase):
    """Shapes and dtypes of the state in a phase."""
    state = states.abstract(phase.network.encoder, phase.objective)
    return state.replace(opt_state=jax.eval_shape(recipe.optimizer.init, state.params))


def shardings(recipe, phase):
    """The sharding of every leaf of the state in a phase."""
    return sharding.shardings(shapes(recipe, phase), recipe.mesh, recipe.offload)


def abstract_state(recipe, phase):
    """Shapes, dtypes and shardings of the state in a phase."""
    return sharding.placed(shapes(recipe, phase), recipe.mesh, recipe.offload)


def batch(recipe, phase, rows):
    """Rows of made-up tokens, each one document, as the objective masks them."""
    special_ids, length = [*{*recipe.tokenizer.special_ids}], phase.length
    words = np.arange(recipe.tokenizer.vocab_size)
    known = np.setdiff1d(words, special_ids, assume_unique=True)
    rng = np.random.default_rng(0)
    made = []
    for _ in range(rows):
        row = {
            'tokens': rng.choice(known, length).astype(np.int32),
            'segment_ids': np.ones(length, np.int32),
            'positions': np.arange(length, dtype=np.int32),
        }
        row = phase.corrupt(row, rng, phase.start)
        if phase.mixture and len(phase.mixture.parts) > 1:
            row[mixtures.PART] = phase.mixture.one_hot(0)
        made.append(row)
    return {key: np.stack([row[key] for row in made]) for key in made[0]}


def abstract_batch(recipe, phase, rows=None):
    """Shapes and dtypes of a batch of so many rows, of a step if None."""
    rows = phase.batch_size if rows is None else rows
    return {
        key: jax.ShapeDtypeStruct((rows, *row.shape[1:]), row.dtype)
        for key, row in batch(recipe, phase, 1).items()
    }


def cost(recipe, phase):
    """flops.Count of a step of a phase."""
    batch = abstract_batch(recipe, phase)
    return steps.cost(phase.network, phase.objective, batch)
