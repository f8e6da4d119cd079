"""A linear probe of labeled tasks beside the steps of training: how the exam is learned.

    config.evaluate.tasks = ('mine.jsonl', 'sst2@GLUE/SST-2')

EVALUATIONS is what the command `train` hands to training/train.py.
"""

import functools

import numpy as np

from jepa_text.evaluation.sets import task as tasks
from jepa_text.evaluation.tasks import build, section_of
from jepa_text.kinds import base, labels, prediction
from jepa_text.measures import probes
from jepa_text.models import pooling
from jepa_text.training import evals
from jepa_text.training.evals import compiled

LEARNED, SCORED = 2000, 1000  # examples at most, drawn by seed 0
SHARE = 0.2  # of the training set, where a task has no validation set


def make(recipe, section):
    """The Prober of a run, at the steps of its other evaluations; None without tasks.

    Raises ValueError for a task that is not of labels, and whatever reading it raises.
    """
    if not section.every or not section.tasks:
        return None
    made = [
        tasks.with_validation(build(section_of(text)), SHARE) for text in section.tasks
    ]
    names = [task.name for task in made]
    for task in made:
        if task.kind != 'labels' or names.count(task.name) > 1:
            raise ValueError(
                f'evaluate.tasks={tuple(section.tasks)}: {task.name} is of '
                f'{task.kind}. Each must be of labels, and have a name of its own.'
            )
    return Prober(recipe, made, section.every)


class Prober:
    """Logistic regression on mean vectors of frozen encoders, learned from at most
    LEARNED training examples and scored on at most SCORED of the validation set, which
    are the same at every step. The test set stays unread."""

    def __init__(self, recipe, made, every):
        self.every, self.mesh = every, recipe.mesh
        tokenizer, length = recipe.tokenizer, recipe.phases[0].length
        reader = base.Reader(tokenizer, (tokenizer.bos_id,), (tokenizer.eos_id,), length)
        self._batches = functools.partial(
            prediction.batches, pad_id=tokenizer.pad_id, maximum=length
        )
        self._parts = {task.name: list(_parts(task, reader)) for task in made}
        self._pooled = compiled.OfEncoder(recipe.mesh, _pooled)

    def run(self, params, network):
        """{probe/TASK/accuracy, probe/TASK/balanced}; NaN where vectors are not."""
        found = {}
        for name, sides in self._parts.items():
            vectors = [self._vectors(params, network, rows) for rows, _ in sides]
            values = {'accuracy': float('nan'), 'balanced': float('nan')}
            if all(np.isfinite(side_ND).all() for side_ND in vectors):
                (_, learned), (_, scored) = sides
                values = probes.linear_probe(vectors[0], learned, vectors[1], scored)
            for key in ('accuracy', 'balanced'):
                found[f'probe/{name}/{key}'] = float(values[key])
        return found

    def why_not(self, network):
        """Any network has vectors."""
        return ''

    def _vectors(self, params, network, rows):
        """[N, D] float32, on every process."""
        found_ND, pooled = None, self._pooled.of(network)
        for chosen, batch in self._batches(rows):
            made_BD = np.asarray(pooled({'encoder': params['encoder']}, batch))
            if found_ND is None:
                found_ND = np.zeros((len(rows), made_BD.shape[1]), np.float32)
            found_ND[chosen] = made_BD[: len(chosen)]
        return found_ND


def _pooled(network, params, batch):
    keys = 'tokens', 'segment_ids', 'positions'
    inputs = (batch[key] for key in keys)
    hidden_BLD = network.apply('encoder', params, *inputs, causal=False)
    return pooling.mean(hidden_BLD, batch['segment_ids'] > 0)


def _parts(task, reader):
    """(rows, labels) of what is learned from, and of what is scored."""
    kind = labels.Labels(**({'template': task.template} if task.template else {}))
    for part, limit in ((task.train, LEARNED), (task.validation, SCORED)):
        index_M = np.sort(np.random.default_rng(0).permutation(len(part))[:limit])
        drawn = part.take(index_M)
        yield kind.rows(reader, base.Asked(drawn.first, drawn.second)), drawn.target


EVALUATIONS = (*evals.EVALUATIONS, ('evaluate', make))
