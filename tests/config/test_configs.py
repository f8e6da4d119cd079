"""Every preset builds, and its first step is finite."""

import random

import draws
import jax
import numpy as np
import pytest
import tiny

from jepa_text.config import config_file
from jepa_text.parallel import sharding
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes
from jepa_text.training import state as states


@pytest.mark.slow
def test_a_step_of_every_phase_of_presets(folder):
    for preset in random.Random(draws.seed()).sample(
        list(config_file.shared('toy').PRESETS), 3
    ):
        print(preset)
        step_of_every_phase(preset, folder)


def step_of_every_phase(preset, folder):
    config = config_file.shared('toy').get_config(preset)
    config.data.folder, config.data.row_length = tiny.rows(folder), tiny.LENGTH
    config.data.batch_size = 8
    config.model = dict(name='transformer', preset='tiny', scan=False, depth=3)
    config.evaluate.every = 0
    made = recipes.make(settings.plain(config))
    for phase in made.phases:
        rows = [
            phase.corrupt(
                phase.mixture.parts[0].rows[i], np.random.default_rng(i), phase.start
            )
            for i in range(8)
        ]
        batch = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
        state = jax.jit(
            lambda phase=phase: states.create(
                phase.network, phase.objective, made.optimizer, 0
            )
        )()
        # The first step of the phase, which includes all diagnostics.
        state = state.replace(step=state.step + phase.start)
        after, metrics = jax.jit(phase.step)(state, sharding.put_batch(batch, made.mesh))
        assert all(np.isfinite(value) for value in metrics.values()), metrics
        assert int(after.skipped) == 0
        moved = jax.tree.map(
            lambda a, b: bool((a != b).any()),
            after.params['encoder'],
            state.params['encoder'],
        )
        assert all(jax.tree.leaves(moved))


@pytest.mark.parametrize(
    ('name', 'argument', 'words'),
    [
        ('small_gpu', 'mlm,h100', "'h100' is not one of t4, l4"),
        ('benchmark', 'speed', 'objectives'),
        ('benchmark', 'batch,16,many', "'batch,16,many'.*batch,16,32"),
        ('finetune', 'model=a,b,task=bundled', 'one model and one task'),
        ('finetune', 'task=a.jsonl,b.jsonl', 'one model and one task'),
        ('cpt', 'hf:x,2k,mlm,toy,toy', 'must be a model, steps, an objective and `toy`'),
    ],
)
def test_an_invalid_argument_is_named(name, argument, words):
    with pytest.raises(ValueError, match=words):
        config_file.shared(name).get_config(argument)
