"""`evaluate(config, workdir)`: models x tasks x learning rates x seeds, each fine-tuned.

workdir/
  results/        a line and a side file a member: results.py
  claims/         which worker is at which group of members: running/claims.py
  lines.jsonl     all lines
  summary.json    what was chosen, its mean and interval, verdicts

The same call goes on where it was left, and several workers may make it with one folder.
The learning rate is chosen on validation only; what is reported is of the test set.
"""

import collections
import dataclasses
import itertools
import json
import re
from pathlib import Path

import jax
import numpy as np

from jepa_text import load
from jepa_text.config import schema
from jepa_text.evaluation import (
    comparing,
    finetune,
    grid,
    page,
    result_tables,
    results,
    retrieval,
    retrieving,
    selection,
    summary,
    telling,
)
from jepa_text.evaluation import task as tasks
from jepa_text.evaluation.config import Config
from jepa_text.evaluation.tasks import build
from jepa_text.files import atomic, checksums, paths
from jepa_text.running import claims, xla_flags

MODES = results.MODES
FORMS = {
    'md': result_tables.markdown,
    'tex': result_tables.latex,
    'csv': result_tables.csv_of,
}


@dataclasses.dataclass(frozen=True)
class Group:
    """Members of one model and task that are trained together; `item` is their name among
    the claims, and another one with another config."""

    item: str
    model: str
    task: str
    members: tuple


def evaluate(config, workdir, dry_run=False):
    """Trains and measures all members that are not there yet, and returns the summary.

    With `dry_run` it says what would be trained, and writes nothing. Raises ValueError
    and FileNotFoundError, before anything is trained, for tasks that cannot be made,
    settings that do not exist and folders that hold no model; and RuntimeError at the
    end, when all else is written, where members failed.
    """
    xla_flags.mend()
    config = schema.read(Config, schema.plain(config))
    folder = Path(paths.local('The workdir', workdir))
    for model in config.models:
        load.check(model)
    made = {task.name: task for task in map(task_of, config.tasks)}
    if len(made) < len(config.tasks):
        raise ValueError(
            f'Two of the {len(config.tasks)} tasks have one name, of {", ".join(made)}, '
            'and their results would be one: give one a `title`.'
        )
    made = {name: _sampled(task, config) for name, task in made.items()}
    groups = groups_of(config, made)
    # Before the lines: what another worker ends after them is not gone.
    ended = claims.ended(folder / 'claims')
    there = collections.Counter(
        line.get('item') for line in results.read(folder / results.FOLDER)[0]
    )
    planned = planned_of(config, made, groups, there)
    if dry_run:
        telling.show_plan(planned)
        return None
    for group in groups:
        # Ended, but with lines that are missing or damaged.
        if group.item in ended and there[group.item] < len(group.members):
            claims.reopen(folder / 'claims', group.item, ended[group.item])
    by_item = {group.item: group for group in groups}
    with telling.Telling(planned) as told:
        exam = _Exam(config, made, folder, told)
        worked = claims.work(
            folder / 'claims',
            list(by_item),
            lambda item: exam.run(by_item[item]),
            lambda item, found: exam.publish(by_item[item], found),
            lease=config.lease,
            attempts=config.attempts,
        )
    found = summarize(config, made, folder, worked.failed)
    print(result_tables.markdown(result_tables.table(summary.rows(found['chosen']))))
    print(folder / 'evaluation.html')
    if worked.failed:
        item, error = next(iter(worked.failed.items()))
        raise RuntimeError(
            f'{len(worked.failed)} of {len(groups)} groups of members failed and have no '
            f'results; {item}: {error.strip().splitlines()[-1]} The page has all '
            'that went wrong; the same command tries them again.'
        )
    return found


def task_of(section):
    """The task of a section, with a validation set."""
    task = build(section)
    return task if _ranks(task) else tasks.with_validation(task)


def examination_of(model, task, settings):
    """What trains and measures a load.Pretrained on a task."""
    kind = retrieving.Examination if _ranks(task) else finetune.Examination
    return kind(model, task, settings)


def _ranks(task):
    return isinstance(task, retrieval.Retrieval)


def sizes_of(task):
    """(examples that are learned from, that choose, that are scored)."""
    if _ranks(task):
        return len(task.pairs), len(task.validation_qrels or ()), len(task.qrels)
    return len(task.train), len(task.validation), len(task.test)


def groups_of(config, made):
    """All groups, in the order in which they are trained: model by model."""
    members = [
        grid.Member(rate, seed)
        for rate, seed in itertools.product(config.learning_rates, range(config.seeds))
    ]
    width, asked = width_of(config), schema.as_dict(config)
    said = [asked['finetuning'], config.train, config.test]
    groups = []
    for model, (name, section) in itertools.product(
        config.models, zip(made, asked['tasks'])
    ):
        for start in range(0, len(members), width):
            part = tuple(members[start : start + width])
            digest = checksums.checksum([model, section, *said, list(map(list, part))])
            words = name, Path(model).name, f'{part[0].learning_rate:g}-{part[0].seed}'
            item = re.sub(r'[^\w.+-]+', '-', '='.join(words))[:150]
            groups.append(Group(f'{item}={digest[:12]}', model, name, part))
    return groups


def width_of(config):
    """How many members are trained at once; 0 is one on a CPU, where one after the other
    is faster, and elsewhere a seed of each learning rate on each device."""
    if config.width:
        return config.width
    if jax.default_backend() == 'cpu':
        return 1
    return len(config.learning_rates) * jax.device_count()


def planned_of(config, made, groups, there):
    """[telling.Planned] of all models and tasks; `there` counts the lines by item."""
    found = []
    for model, name in itertools.product(config.models, made):
        part = [g for g in groups if (g.model, g.task) == (model, name)]
        learned, _, _ = sizes_of(made[name])
        batches = -(-learned // config.finetuning.batch_size)
        steps = min(config.finetuning.steps, config.finetuning.epochs * batches)
        members = sum(len(group.members) for group in part)
        done = sum(min(there[g.item], len(g.members)) for g in part)
        found.append(telling.Planned(model, name, members, steps, done=done))
    return found


class _Exam:
    """One model and task at a time, which stay until others are asked for."""

    def __init__(self, config, made, folder, told):
        self.config, self.tasks, self.folder = config, made, folder
        self.told = told
        self._now, self._model, self._made = (None, None), None, None

    def run(self, group):
        """[(config of a member, finetune.Outcome without parameters)]"""
        examination = self._examination(group)
        width, found = len(group.members), []
        how = {'width': width, 'how': 'vmap' if width > 1 else 'map', 'item': group.item}
        tell = self.told.group(group.model, group.task)
        for member, outcome in examination.run(group.members, width, tell):
            outcome = dataclasses.replace(outcome, params={})
            found.append((examination.config_of(member) | how, outcome))
        return found

    def publish(self, group, found):
        """Writes the lines of a group."""
        for config, made in found:
            results.write(
                self.folder / results.FOLDER,
                config,
                made.outcome,
                made.per_instance,
                made.predictions,
            )
            line = _told(config, made.outcome)
            self.told.done(group.model, group.task, 1, line)

    def _examination(self, group):
        if self._now[0] != group.model:
            self._model = load.load(group.model)
        if self._now != (group.model, group.task):
            task, settings = self.tasks[group.task], self.config.finetuning
            model = dataclasses.replace(self._model, name=group.model)
            self._made = examination_of(model, task, settings)
            self._now = group.model, group.task
        return self._made


def summarize(config, made, folder, failed=None):
    """What the lines say, also as files: summary.json, tables and the page.

    {'lines', 'chosen', 'compared', 'damaged', 'failed'}
    """
    lines, damaged = results.read(folder / results.FOLDER)
    text = ''.join(json.dumps(line) + '\n' for line in lines)
    atomic.write(folder / 'lines.jsonl', text)
    chosen = selection.select(lines, by=config.select_by, rule=config.selection)
    compared = comparing.compare([one for one in chosen if one.members])
    summary.write(folder, chosen)
    tables = {mode: result_tables.table(summary.rows(chosen), mode) for mode in MODES}
    for mode, table in tables.items():
        for suffix, form in FORMS.items():
            atomic.write(folder / f'table.{mode}.{suffix}', form(table))
    shared = [
        (
            name,
            sizes_of(task)[2],
            (retrieval if _ranks(task) else tasks).shared_texts(task),
        )
        for name, task in made.items()
    ]
    page.write(
        folder / 'evaluation.html',
        page.Examined(
            lines, chosen, compared, shared, troubles={**damaged, **(failed or {})}
        ),
    )
    return {
        'lines': lines,
        'chosen': chosen,
        'compared': compared,
        'damaged': damaged,
        'failed': failed or {},
    }


def _sampled(task, config):
    """The task with as many examples as the config asks for, drawn by seed 0."""
    learned, _, scored = sizes_of(task)
    learned, scored = config.train or learned, config.test or scored
    if not _ranks(task):
        return tasks.sample(task, learned, scored, 0)
    order = np.random.default_rng(0).permutation(len(task.pairs))[:learned]
    names = list(task.qrels)
    kept = np.random.default_rng(0).permutation(len(names))[:scored]
    return dataclasses.replace(
        task,
        pairs=[task.pairs[i] for i in np.sort(order)],
        qrels={names[i]: task.qrels[names[i]] for i in np.sort(kept)},
    )


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
