"""A model on a task: what the examiner asks of every examination.

    config_of(member)           what results.config_hash takes
    run(members, width, tell)   yields (Member, Outcome) of each

finetune.py trains members, retrieving.py those that rank; zero_shot.py trains nothing.
"""

import dataclasses

import numpy as np

from jepa_text.evaluation import identity
from jepa_text.files import checksums


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """What a member came to: `outcome` as results.write takes it, values and predictions
    of every test instance, and the parameters with the head."""

    outcome: dict
    per_instance: dict
    predictions: list
    params: dict


class Examination:
    """A load.Pretrained and a task.Task with a validation set, as `settings`, a
    config.Finetuning, say. `config` is what all members have in common."""

    def __init__(self, model, task, settings):
        self.model, self.task, self.settings = model, task, settings

    @property
    def metric(self):
        """By which one compares."""
        return self.task.metric

    def common(self):
        """What the config says of the model and of the data."""
        model, task = self.model, self.task
        return {
            'model': model.name,
            'model_revision': identity.of(model),
            'task': task.name,
            # One commit gives other examples with other fields, names or templates.
            'data_revision': '-'.join(filter(None, (task.revision, self.checksum()))),
            'tokenizer': model.tokenizer.fingerprint,
            'metric': self.metric,
        }

    def checksum(self):
        """A checksum of all that the task holds, where no revision is known."""
        parts = [self.task.train, self.task.validation, self.task.test]
        held = [[p.first, p.second, list(map(_json, p.target))] for p in parts]
        return checksums.checksum(held)

    def width(self, count):
        """How many of so many members go at once."""
        return 1

    def config_of(self, member):
        """The config of one member."""
        return {**self.config, **member._asdict()}


def _json(value):
    if isinstance(value, list | tuple):
        return [_json(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value
