"""A model on a task: what the examiner asks of every examination.

    config_of(member)           what results.config_hash takes
    run(members, width, tell)   yields (Member, Outcome) of each

finetune.py trains members, retrieving.py those that rank; zero_shot.py trains nothing.
"""

import dataclasses

from jepa_text.evaluation import identity


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
            'data_revision': '-'.join(
                filter(None, (task.revision, identity.of_data(task)))
            ),
            'tokenizer': model.tokenizer.fingerprint,
            'metric': self.metric,
        }

    def width(self, count):
        """How many of so many members go at once."""
        return 1

    def config_of(self, member):
        """The config of one member."""
        return {**self.config, **member._asdict()}
