"""Linear probes of labeled tasks, logged at the evaluation steps of training.

    config.evaluate.tasks = ('mine.jsonl', 'sst2@GLUE/SST-2')

The commands `train` and `study` pass `make` to training/train.py.
"""

import dataclasses
import warnings

import numpy as np

from jepa_text.evaluation.sets import task as tasks
from jepa_text.evaluation.tasks import build, section_of
from jepa_text.measures import probes
from jepa_text.pretrained import base, labels, prediction
from jepa_text.training import heldout

LEARNED, SCORED = 2000, 1000  # maximum training and validation examples, drawn by seed 0
SHARE = 0.2  # of the training set, if a task has no validation set
_MEAN = labels.Labels(pool='mean')


def make(recipe, section):
    """Returns the Prober of a run; None without tasks or evaluations.

    Raises ValueError for a task without labels, and all errors of reading a task.
    """
    if not section.every_steps or not section.tasks:
        return None
    probed = [build(section_of(text)) for text in section.tasks]
    tasks.check_names(probed)
    for task in probed:
        if task.kind != 'labels':
            raise ValueError(
                f'evaluate.tasks={tuple(section.tasks)}: {task.name} is a task of '
                f'{task.kind}. All tasks must have labels.'
            )
    probed = [_drawn(tasks.with_validation(task, SHARE)) for task in probed]
    return Prober(recipe, probed, section.every_steps)


def _drawn(task):
    """Returns the task with LEARNED and SCORED examples, if these have two classes."""
    train, validation = task.train.draw(LEARNED), task.validation.draw(SCORED)
    task = dataclasses.replace(task, train=train, validation=validation)
    tasks.check_classes(task)
    return task


class Prober:
    """Logistic regression on mean vectors of frozen encoders.

    It is fitted on the training examples and scored on the validation examples, the same
    at every step. The test set is not used.
    """

    def __init__(self, recipe, probed, every):
        self.every, self.mesh = every, recipe.mesh
        tokenizer, length = recipe.tokenizer, recipe.phases[0].length
        ends = (tokenizer.bos_id,), (tokenizer.eos_id,)
        self._reading = tokenizer.pad_id, length
        self._parts = {}
        for task in probed:
            reader = base.Reader(tokenizer, *ends, length)
            kind = labels.Labels(**({'template': task.template} if task.template else {}))
            self._parts[task.name] = [
                (kind.rows(reader, base.Unlabeled(part.first, part.second)), part.target)
                for part in (task.train, task.validation)
            ]
            if cut := reader.counts['cut']:
                warnings.warn(
                    f'evaluate.tasks, {task.name}: {cut:,} of {reader.counts["texts"]:,} '
                    f'texts are longer than the {length:,} tokens of a row; the rest is '
                    'not read.',
                    stacklevel=2,
                )

    def run(self, params, network):
        """Returns {probe/TASK/accuracy, probe/TASK/balanced}, NaN for invalid vectors."""
        metrics = {}
        for name, sides in self._parts.items():
            vectors = [self._vectors(params, network, rows) for rows, _ in sides]
            values = {'accuracy': float('nan'), 'balanced': float('nan')}
            if all(np.isfinite(side_ND).all() for side_ND in vectors):
                (_, train), (_, validation) = sides
                values = probes.linear_probe(vectors[0], train, vectors[1], validation)
            for key in ('accuracy', 'balanced'):
                metrics[f'probe/{name}/{key}'] = float(values[key])
        return metrics

    def _vectors(self, params, network, rows):
        """Returns [N, D] float32 on every process."""
        vectors_ND, pooled = None, heldout.on_mesh(self.mesh, _MEAN.features, network)
        for chosen, batch in prediction.batches(rows, *self._reading):
            batch_BD = np.asarray(pooled({'encoder': params['encoder']}, batch))
            if vectors_ND is None:
                vectors_ND = np.zeros((len(rows), batch_BD.shape[1]), np.float32)
            vectors_ND[chosen] = batch_BD[: len(chosen)]
        return vectors_ND


EVALUATIONS = (make,)
