"""Training and measuring of one model on one task at a time."""

import dataclasses

from jepa_text.evaluation import controls, finetune, retrieving, zero_shot
from jepa_text.evaluation.controls import baselines
from jepa_text.evaluation.sets import retrieval
from jepa_text.evaluation.sets import task as tasks
from jepa_text.evaluation.tasks import build
from jepa_text.pretrained import load

CONTROLS = 'controls'


def task_of(section):
    """Builds the task of a section, with a validation set.

    With `zero_shot` in the section, the task is made by zero_shot.task_of, with a test
    set only. Otherwise says how many texts of the test set a trained model would know.
    Raises ValueError for invalid tasks.
    """
    section = dict(section)
    options = section.pop('zero_shot', None) or None
    task = build(section, zero_shot=options is not None)
    if options is not None or task.zero_shot:
        return zero_shot.task_of(task, options)
    if shared := said_of_shared(task):
        print(shared)
    return task if task.kind == 'retrieval' else tasks.with_validation(task)


def said_of_shared(task):
    """Returns a sentence on the test examples that share a text with the training set;
    '' without any."""
    if task.zero_shot:
        return ''
    is_set = task.kind == 'retrieval'
    count = len(task.qrels if is_set else task.test)
    shared, name = (retrieval if is_set else tasks).shared_texts(task), task.name
    if shared == count:
        return (
            f'{name}: all {count:,} test examples share a text with the training set: is '
            'the test set the training set? If so, give another file `test`.'
        )
    return shared and (
        f'{name}: {shared:,} of {count:,} test examples ({100 * shared / count:.1f} %) '
        'share a text with the training set. They are kept; remove them from one of the '
        'two for a test of texts that are new.'
    )


def examination_of(model, task, settings):
    """Returns the Examination that trains and measures a load.Pretrained on a task."""
    kind = retrieving.Examination if task.kind == 'retrieval' else finetune.Examination
    if task.zero_shot:
        kind = zero_shot.Examination
    return kind(model, task, settings)


def sizes_of(task):
    """Returns the numbers of training, validation and test examples."""
    if task.kind == 'retrieval':
        return len(task.pairs), len(task.validation_qrels or ()), len(task.qrels)
    return len(task.train), len(task.validation), len(task.test)


def sampled(task, config):
    """Returns the task with as many examples as the config says, drawn by seed 0."""
    train, _, test = sizes_of(task)
    train, test = config.train or train, config.test or test
    if task.kind != 'retrieval':
        parts = dict(train=task.train.draw(train), test=task.test.draw(test))
        return dataclasses.replace(task, **parts)
    train_M = tasks.drawn(len(task.pairs), train)
    queries = list(task.qrels)
    test_M = tasks.drawn(len(queries), test)
    qrels = {queries[i]: task.qrels[queries[i]] for i in test_M}
    return dataclasses.replace(task, pairs=[task.pairs[i] for i in train_M], qrels=qrels)


def measured_controls(examination, names, common):
    """Returns [(config, outcome, per_instance, predictions)] of controls of a task;
    `common` are the other fields of their configs."""
    # The bag of embeddings reads as much of a text as the model does.
    model = dataclasses.replace(examination.model, length=examination.max_length)
    return list(baselines.members(examination.task, common, names, model))


class Examiner:
    """Runs groups, and keeps the last model and task for the next group."""

    def __init__(self, config, tasks, stamps):
        self.config, self.tasks, self.stamps = config, tasks, stamps
        self._key, self._model, self._examination = (None, None), None, None

    def run(self, group, done=()):
        """Yields (config, outcome, per_instance, predictions) for result_files, except of
        members whose keys are `done`."""
        examination = self._examination_of(group)
        if group.control == CONTROLS:
            common = examination.config | {'item': group.common}
            yield from measured_controls(examination, group.controls, common)
            return
        members = [one for one in group.members if (group.common, *one) not in done]
        width = examination.width(len(members))
        how = {'width': width, 'how': 'vmap' if width > 1 else 'map'}
        how['item'] = group.common
        how |= {'control': group.control} if group.control else {}
        for member, result in examination.run(members, width):
            config = examination.config_of(member) | how
            yield config, result.outcome, result.per_instance, result.predictions

    def _examination_of(self, group):
        name = group.path if group.control == CONTROLS else group.model
        # The last ones are let go first: memory may not hold two.
        if self._key[0] != name:
            self._key, self._model, self._examination = (None, None), None, None
            model = load.load(group.path)
            if load.fingerprint(group.path) != self.stamps[group.path]:
                raise ValueError(
                    f'{group.path} has changed since this evaluation began: does it '
                    'still train? Run the same command again when it has ended.'
                )
            if group.control == controls.UNTRAINED:
                model = controls.untrained(model)
            self._key, self._model = (name, None), dataclasses.replace(model, name=name)
        if self._key[1] != group.task:
            self._key, self._examination = (name, group.task), None
            task, settings = self.tasks[group.task], self.config.finetuning
            try:
                self._examination = examination_of(self._model, task, settings)
            except ValueError as error:  # and so for all groups of this model and task
                self._examination = error
        if isinstance(self._examination, ValueError):
            raise self._examination
        return self._examination


def said(config, outcome):
    """Returns a log line about a member."""
    member = (
        f'{config["task"]}  {config["model"]}  rate {config["learning_rate"]:g}  '
        f'seed {config["seed"]}'
    )
    if outcome['test'] is None:
        return f'{member}  {outcome["status"]}'
    metric = config['metric']
    value = outcome['test']['standard'].get(metric)
    shown = '' if value is None else f'{metric} {value:.4f}'
    return f'{member}  {shown}  {outcome["seconds"]:.0f} s  {outcome["status"]}'
