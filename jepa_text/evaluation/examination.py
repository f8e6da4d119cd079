"""The common interface of fine-tuning, retrieval and zero-shot evaluation of a task.

    config_of(member)             the config that results.config_hash takes
    run(members, width, report)   yields (Member, Outcome) of each member

finetune.py trains members, retrieving.py trains members that rank documents, and
zero_shot.py trains nothing.
"""

import dataclasses

from jepa_text.evaluation import identity


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a member.

    outcome         as results.write takes it
    per_instance    values of every test instance
    predictions     for every test instance
    params          the trained parameters with the head
    """

    outcome: dict
    per_instance: dict
    predictions: list
    params: dict


class Examination:
    """A load.Pretrained on a task.Task with a validation set, by a config.Finetuning.

    `config` is the part of the config that all members share.
    """

    def __init__(self, model, task, settings):
        self.model, self.task, self.settings = model, task, settings

    @property
    def metric(self):
        """The metric by which models are compared."""
        return self.task.metric

    def common(self):
        """Returns the fields of the config that describe the model and the data."""
        model, task = self.model, self.task
        return {
            'model': model.name,
            'model_revision': identity.of(model),
            'task': task.name,
            # Other fields, names or templates give other examples of the same commit.
            'data_revision': '-'.join(
                filter(None, (task.revision, identity.of_data(task)))
            ),
            'tokenizer': model.tokenizer.fingerprint,
            'metric': self.metric,
        }

    def width(self, count):
        """Returns how many of `count` members are trained at once."""
        return 1

    def config_of(self, member):
        """Returns the config of a member."""
        return {**self.config, **member._asdict()}
