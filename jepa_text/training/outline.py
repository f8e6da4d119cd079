"""What a config stands for before there are rows: words, network, phases, shapes."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jepa_text.config import resolve, schema
from jepa_text.data import tokenizers
from jepa_text.files import paths
from jepa_text.objectives.base import View
from jepa_text.objectives.latent.base import LatentObjective
from jepa_text.optim import optimizers
from jepa_text.running import budget
from jepa_text.training import config as settings
from jepa_text.training import prepare, recipe
from jepa_text.training import state as states
from jepa_text.training import step as steps


@dataclasses.dataclass(frozen=True)
class Outline:
    """A recipe.Recipe without rows, on a mesh that may be abstract. `batch_size` rows of
    `length` make a batch, on all devices together."""

    tokenizer: tokenizers.Tokenizer
    mesh: Any
    encoder: Any
    optimizer: Any
    phases: tuple
    seed: int
    batch_size: int
    length: int
    steps: int
    offload: str


def make(config, mesh, vocab_size=None):
    """The Outline of a train config on a mesh; nothing is read but a tokenizer.

    Raises ValueError for what cannot work together.
    """
    schema.read(settings.Config, config)
    batch_size = budget.rows(config['data'], mesh.size)
    total = budget.steps(config, batch_size)
    tokenizer = words(config, vocab_size)
    encoder = resolve.build('models', config['model'], vocab_size=tokenizer.vocab_size)
    optimizer = optimizers.make(config['optimizer'])
    length, sized = config['data']['row_length'], config | {'steps': total}
    return Outline(
        tokenizer=tokenizer,
        mesh=mesh,
        encoder=encoder,
        optimizer=optimizer,
        phases=recipe.make_phases(sized, encoder, tokenizer, length, optimizer),
        seed=config['seed'],
        batch_size=batch_size,
        length=length,
        steps=total,
        offload=recipe.OFFLOADED[config['offload']],
    )


def words(config, vocab_size=None):
    """The tokenizer of the rows, if they are there; else the one that `prepare` would
    use; else a stand-in of `vocab_size` words.

    Raises ValueError where there is none of the three.
    """
    folder = config['data']['folder']
    prepared = Path(folder and paths.local('data.folder', folder), 'tokenizer.json')
    if folder and prepared.is_file():
        return tokenizers.load(prepared)
    wanted = config.get('prepare', {}).get('tokenizer', '')
    if wanted in ('bundled', 'start') or (wanted and Path(wanted).is_file()):
        return prepare.tokenizer_of(config)
    if vocab_size:
        bundled = tokenizers.load(tokenizers.BUNDLED)
        return dataclasses.replace(bundled, vocab_size=vocab_size)
    raise ValueError(
        f'How many words? data.folder={folder!r} has no tokenizer.json, and '
        f'prepare.tokenizer={wanted!r} is no file. Set one of them, or plan.vocab_size.'
    )


def mlm_section(section, objective):
    """The section of the MLM part of an objective with a latent term; None without."""
    if not isinstance(objective, LatentObjective):
        return None
    return {'name': 'mlm', **(section.get('mlm') or {})}


def batch(phase, rows, length, tokenizer):
    """Rows of made-up words, each one document, as the objective hides them."""
    words = np.setdiff1d(np.arange(tokenizer.vocab_size), tokenizer.special_ids)
    rng = np.random.default_rng(0)
    made = []
    for _ in range(rows):
        row = {
            'tokens': rng.choice(words, length).astype(np.int32),
            'segment_ids': np.ones(length, np.int32),
            'positions': np.arange(length, dtype=np.int32),
        }
        made.append(phase.corrupt(row, rng, phase.start))
    return {key: np.stack([row[key] for row in made]) for key in made[0]}


def abstract_batch(phase, rows, length, tokenizer):
    """Shapes and dtypes of a batch."""
    return {
        key: jax.ShapeDtypeStruct((rows, *row.shape[1:]), row.dtype)
        for key, row in batch(phase, 1, length, tokenizer).items()
    }


def creation(outline, phase):
    """A function without arguments that makes a state of a phase."""
    return functools.partial(
        states.create, phase.network, phase.objective, outline.optimizer, outline.seed
    )


def abstract_state(outline, phase):
    """Shapes and dtypes of the state in a phase."""
    return jax.eval_shape(creation(outline, phase))


def loss(phase, network=None):
    """(params, state, batch) -> the loss of a step; `state` gives all but parameters."""
    network = network or phase.network

    def run(params, state, batch):
        view = View(
            apply=network.apply,
            target=state.target,
            memory=state.memory,
            batch=batch,
            step=state.step,
            counts=phase.objective.counts(batch),
        )
        return steps.loss_of(phase.objective, params, view)[0]

    return run
