"""One model and one task at a time: trained, measured, and written as lines."""

import dataclasses
import time

import numpy as np

from jepa_text import load
from jepa_text.evaluation import (
    controls,
    finetune,
    identity,
    retrieving,
    search,
    zero_shot,
)
from jepa_text.evaluation.controls import baselines
from jepa_text.evaluation.controls import ranking as word_ranking
from jepa_text.evaluation.metrics import ranking
from jepa_text.evaluation.results import lines as results
from jepa_text.evaluation.sets import retrieval
from jepa_text.evaluation.sets import task as tasks
from jepa_text.evaluation.tasks import build

CONTROLS = 'controls'


def task_of(section):
    """The task of a section, with a validation set; with `zero_shot` in it, as
    zero_shot.task_of makes it. Raises ValueError for what cannot be such a task."""
    section = dict(section)
    given = section.pop('zero_shot', None)
    task = build(section)
    task = task if ranks(task) else tasks.with_validation(task)
    return task if given in (None, False) else zero_shot.task_of(task, given)


def examination_of(model, task, settings):
    """What trains and measures a load.Pretrained on a task."""
    kind = retrieving.Examination if ranks(task) else finetune.Examination
    if zero_shot.as_it_is(task):
        kind = zero_shot.KINDS[task.kind]
    return kind(model, task, settings)


def check(task, settings):
    """Raises ValueError, before any model is read, for a task of which nothing can be
    learned: one class only, scores that are all equal, no pairs of texts, no layer."""
    if ranks(task) and settings.layers == 0:
        raise ValueError(
            f'{task.name}: finetuning.layers=0 trains the head alone, but retrieval has '
            'none: give 1 or more.'
        )
    if not zero_shot.as_it_is(task):
        (retrieving if ranks(task) else finetune).kind_of(task, settings)


def ranks(task):
    """Is it a retrieval.Retrieval?"""
    return isinstance(task, retrieval.Retrieval)


def sizes_of(task):
    """(examples that are learned from, that choose, that are scored)."""
    if ranks(task):
        return len(task.pairs), len(task.validation_qrels or ()), len(task.qrels)
    return len(task.train), len(task.validation), len(task.test)


def shared(task):
    """(its name, test examples, how many of them have a text that is trained on)."""
    count = retrieval.shared_texts if ranks(task) else tasks.shared_texts
    return task.name, sizes_of(task)[2], count(task)


def sampled(task, config):
    """The task with as many examples as the config asks for, drawn by seed 0."""
    learned, _, scored = sizes_of(task)
    learned, scored = config.train or learned, config.test or scored
    if not ranks(task):
        return tasks.sample(task, learned, scored, 0)
    order = np.random.default_rng(0).permutation(len(task.pairs))[:learned]
    names = list(task.qrels)
    kept = np.random.default_rng(0).permutation(len(names))[:scored]
    return dataclasses.replace(
        task,
        pairs=[task.pairs[i] for i in np.sort(order)],
        qrels={names[i]: task.qrels[names[i]] for i in np.sort(kept)},
    )


class Examiner:
    """One model and task at a time, which stay until others are asked for."""

    def __init__(self, config, made, folder, told):
        self.config, self.tasks, self.folder = config, made, folder
        self.told = told
        self._now, self._model, self._made = (None, None), None, None

    def run(self, group):
        """[(config, outcome, per_instance, predictions)] of each member, or control, as
        results.write takes them."""
        examination = self._examination(group)
        if group.control == CONTROLS:
            return self._controls(group, examination)
        width, found = examination.width(len(group.members)), []
        how = {
            'width': width,
            'how': 'vmap' if width > 1 else 'map',
            'item': group.common,
        }
        how |= {'control': group.control} if group.control else {}
        tell = self.told.group(group.model, group.task)
        for member, made in examination.run(group.members, width, tell):
            config = examination.config_of(member) | how
            found.append((config, made.outcome, made.per_instance, made.predictions))
        return found

    def publish(self, group, found):
        """Writes the lines of a group."""
        for config, outcome, *side in found:
            path = results.write(self.folder / results.FOLDER, config, outcome, *side)
            if outcome['status'] != 'not finite' and ranks(self.tasks[group.task]):
                # As every program of the field reads a ranking.
                runs = self.folder / 'runs'
                runs.mkdir(exist_ok=True)
                search.write_run(runs / f'{path.stem}.run', side[1], path.stem)
            count = 0 if group.control == CONTROLS else 1
            self.told.done(group.model, group.task, count, _told(config, outcome))

    def _controls(self, group, examination):
        """Those of a model; what needs none is written beside the first."""
        common = examination.config | {'item': group.common}
        if ranks(examination.task):
            return list(_of_words(examination, common)) if group.first else []
        found = baselines.members(examination.task, common, examination.model)
        return [one for one in found if group.first or one[0]['control'] == controls.BAG]

    def _examination(self, group):
        name = group.path if group.control == CONTROLS else group.model
        if self._now[0] != name:
            self._model = load.load(group.path)
            if group.control == controls.UNTRAINED:
                self._model = controls.untrained(self._model)
            self._model = dataclasses.replace(self._model, name=name)
        if self._now != (name, group.task):
            task, settings = self.tasks[group.task], self.config.finetuning
            self._made = examination_of(self._model, task, settings)
            self._now = name, group.task
        return self._made


def _of_words(examination, common):
    """TF-IDF and BM25 of a retrieval task, as results.write takes them."""
    task, began = examination.task, time.monotonic()
    found = word_ranking.runs(task.queries, task.corpus, retrieving.DEPTH)
    for name, run in found.items():
        measured = [
            ranking.measure(qrels, {query: run.get(query, {}) for query in qrels})
            for qrels in (task.validation_qrels, task.qrels)
        ]
        own = dict(model=name, model_revision=name, control=name)
        config = {**common, **own, 'learning_rate': 0.0, 'seed': 0, 'steps': 0}
        versions = identity.versions('retrieval', 'scipy')
        outcome = baselines.outcome(*measured, time.monotonic() - began, versions)
        said = {query: run.get(query, {}) for query in task.qrels}
        yield config, outcome, measured[1].per_instance, said


def _told(config, outcome):
    """A line on one member."""
    who = f'{config["task"]}  {config["model"]}'
    which = f'rate {config["learning_rate"]:g}  seed {config["seed"]}'
    if outcome['test'] is None:
        return f'{who}  {which}  {outcome["status"]}'
    metric = config['metric']
    value = outcome['test']['standard'].get(metric)
    said = '' if value is None else f'{metric} {value:.4f}'
    return f'{who}  {which}  {said}  {outcome["seconds"]:.0f} s  {outcome["status"]}'
