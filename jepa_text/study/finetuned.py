"""The members of a study are examined: fine-tuned to tasks, as `jepa-text evaluate` does.

workdir/examined/<name>/    results, claims, tables and evaluation.html of that command
workdir/examined/<name>/members/<member>.json    what the study takes from it

`examine` is {name: the config of evaluate, without its models}. The learning rate of each
member and task is chosen on validation; sensitivity is the deviation of the test score
over seeds and the learning rates between which arXiv 2507.00994 looks (Figure 5).
"""

import math

import numpy as np

from jepa_text.config import schema
from jepa_text.evaluation import evaluate, examiner
from jepa_text.evaluation.config import Config
from jepa_text.evaluation.results import selection
from jepa_text.files import cached_result
from jepa_text.running import restore
from jepa_text.study import arms, members


def check(sections, tasks=True):
    """Raises ValueError, before anything is trained, for a section that evaluate does not
    take, and, with `tasks`, for tasks that cannot be made. Nothing is examined without
    one."""
    for name, section in sections.items():
        if not name.isidentifier():
            raise ValueError(f'examine: {name!r} must be a word, as finetuned.')
        if not isinstance(section, dict) or 'models' in section:
            raise ValueError(
                f'examine.{name}={section!r}: it is what evaluate takes, without models: '
                'the members of the study are examined.'
            )
        try:
            asked = schema.read(Config, {**section, 'models': ('a member',)})
            for task in asked.tasks if tasks else ():
                examiner.task_of(task)
        except (ValueError, OSError) as error:
            raise ValueError(f'examine.{name}: {error}') from error


def run(sections, place, marks):
    """{'values': {member: {metric: value}}, 'beside': {metric: {control: value}}}.

    `place` is as of view.opened, `marks` are {member: fingerprint}. What is known of a
    member is not asked again; those whose checkpoints are gone before it is known are
    named and left out. Several workers may do so at once. Raises as evaluate.
    """
    values, beside = {member: {} for member in marks}, {}
    for name, section in sections.items():
        folder = place.folder / members.EXAMINED / name
        asked = {
            member: (
                folder / 'members' / f'{member}.json',
                {'examine': section, 'run': mark},
            )
            for member, mark in marks.items()
        }
        _examine(name, section, place, asked)
        for member, (path, question) in asked.items():
            if found := _answer(path, question):
                values[member] |= found['values']
                beside[name] = found['beside']
    return {'values': values, 'beside': beside}


def taken(name, chosen, paths):
    """What it says: ({member: {metric: value}}, {control: mean over tasks}), of
    selection.Chosen whose models are the `paths` {path: member}, or controls."""
    scores, calm, beside = {}, {}, {}
    for one in chosen:
        value = one.interval().value
        if one.model in paths:
            scores.setdefault(paths[one.model], {})[one.task] = value
            calm.setdefault(paths[one.model], []).append(one.sensitivity)
        elif one.members:
            beside.setdefault(one.members[0]['control'], []).append(value)
    found = {}
    for member, own in scores.items():
        found[member] = {f'exam/{name}': float(np.mean(list(own.values())))}
        found[member] |= {f'exam/{name} {task}': value for task, value in own.items()}
        spread = float(np.mean(calm[member]))
        if math.isfinite(spread):
            found[member][f'exam/{name} {arms.SENSITIVITY}'] = spread
    return found, {control: float(np.mean(v)) for control, v in beside.items()}


def _examine(name, section, place, asked):
    """Writes the answers that are not there of members that can be asked."""
    wanted = [member for member, one in asked.items() if not _answer(*one)]
    there = [m for m in asked if restore.steps(place.folder / m / 'checkpoints')]
    if gone := [member for member in wanted if member not in there]:
        print(f'Not examined, as their checkpoints are gone: {", ".join(gone)}')
    if not set(wanted) & set(there):
        return
    # Of one name for all workers, who share it: at an address they are read from there.
    paths = {place.at(member): member for member in there}
    config = {**section, 'models': list(paths)}
    lines = evaluate.evaluate(config, place.at(f'{members.EXAMINED}/{name}'))['lines']
    config = schema.read(Config, schema.plain(config))
    by = dict(by=config.select_by, rule=config.selection, rates=selection.PAPER_RATES)
    values, beside = taken(name, selection.select(lines, **by), paths)
    for member in there:
        answer = {'values': values[member], 'beside': beside}
        cached_result.once(*asked[member], lambda answer=answer: answer)
    place.send()


def is_left_out(name):
    """Is a file at an address one of `evaluate` alone?"""
    parts = name.split('/')
    return parts[0] == members.EXAMINED and parts[2:3] != ['members']


def _answer(path, question):
    """What a file says, if it is an answer to this question; else None."""
    saved = cached_result.read(path)
    is_it = saved and saved['config'] == schema.plain(question)
    return saved['results'] if is_it else None
