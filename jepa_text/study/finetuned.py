"""Examines the members of a study: fine-tunes them to tasks, as `jepa-text evaluate`.

workdir/examined/<name>/    results, tables and evaluation.html of that command
workdir/examined/<name>/members/<member>.json    the metrics that the study reports

`examine` is {name: config of evaluate, without models}. The learning rate of each member
and task is selected on validation data. Sensitivity is the standard deviation of the test
score over seeds and over the learning rates of arXiv 2507.00994 (Figure 5).
"""

import math

import numpy as np

from jepa_text.evaluation import evaluate, identity
from jepa_text.evaluation.config import Config
from jepa_text.evaluation.results import selection
from jepa_text.running import restore
from jepa_text.settings import schema
from jepa_text.study import arms, cached_result, members

STRONGEST = 'the strongest of each task'


def check(sections, tasks=True):
    """Raises ValueError for an invalid section, before anything is trained.

    With `tasks`, also for tasks that cannot be built or learned. Returns the names of the
    sections with a task for which a member must fill masks, as far as tasks were built.
    """
    filling = set()
    for name, section in sections.items():
        if not name.isidentifier() or name in arms.TAKEN:
            raise ValueError(
                f'examine: {name!r} must be an identifier, such as finetuned, and none '
                f'of {", ".join(arms.TAKEN)}.'
            )
        if not isinstance(section, dict) or 'models' in section:
            raise ValueError(
                f'examine.{name}={section!r} must be a config of evaluate without '
                'models: the members of the study are examined.'
            )
        try:
            parsed = schema.read(Config, {**section, 'models': ('a member',)})
            built = evaluate.tasks_of(parsed) if tasks else {}
        except (ValueError, OSError) as error:
            raise ValueError(f'examine.{name}: {error}') from error
        if any(task.kind == 'cloze' for task in built.values()):
            filling.add(name)
    return filling


def check_run(sections, filling, recipe):
    """Raises ValueError for an exam that a run with this Recipe could not take: its rows
    may be longer, or the run does not fill masks. `filling` is the result of `check`."""
    length, token = recipe.phases[-1].length, recipe.phases[-1].objective.token_objective
    for name, section in sections.items():
        wanted = section.get('finetuning', {}).get('max_length', 0)
        if wanted > length:
            raise ValueError(
                f'examine.{name}: finetuning.max_length={wanted}, but the last phase '
                f'reads rows of {length} tokens: give that or fewer.'
            )
        if name in filling and not (token and token.fills):
            raise ValueError(
                f'examine.{name} has tasks in which masks are filled, but the last phase '
                'does not train this: end with an objective such as mlm.'
            )


def run(sections, workdir, fingerprints, engine):
    """Examines members, and returns {'values': {member: {metric: value}}, 'beside':
    {metric: {control: value}}, 'errors': [of exams with members that failed]}.

    `fingerprints` are {member: fingerprint}, and `engine` is a section of evaluate. Saved
    results are not measured again. Members without a result whose checkpoints are missing
    are reported and left out. Raises as evaluate, but not for members that fail.
    """
    values, controls, errors = {member: {} for member in fingerprints}, {}, []
    for name, section in sections.items():
        parsed = schema.read(Config, {**section, 'models': ('a member',)})
        # Tasks are known by what is in them, so that results outlive a move of the files.
        tasks = {n: identity.of_task(t) for n, t in evaluate.tasks_of(parsed).items()}
        asked = {'examine': {**section, 'tasks': tasks}, 'version': identity.VERSION}
        questions = {}
        for member, fingerprint in fingerprints.items():
            path = workdir / members.EXAMINED / name / 'members' / f'{member}.json'
            weights = _weights(path, workdir / member / 'checkpoints')
            questions[member] = path, {**asked, 'run': fingerprint, 'weights': weights}
        errors += _examine(name, {'engine': engine, **section}, workdir, questions, tasks)
        for member, (path, question) in questions.items():
            if answer := cached_result.answer(path, question):
                values[member] |= answer['values']
                controls[name] = answer['beside']
    return {'values': values, 'beside': controls, 'errors': errors}


def metrics_of(name, chosen, paths):
    """Returns ({member: {metric: value}}, {control: mean over tasks}) of an exam.

    If not all tasks have the same controls, STRONGEST is one, too. `chosen` are
    selection.Chosen of controls and of the models at `paths` {path: member}.
    """
    scores, sensitivities, controls = {}, {}, {}
    # A control may have no value by the paper's definition, as those of spans.
    kinds = {one.task: (one.by, one.metric) for one in chosen if one.model in paths}
    for one in chosen:
        value = one.interval().value
        if one.model in paths:
            member = paths[one.model]
            scores.setdefault(member, {})[one.task] = value
            sensitivities.setdefault(member, []).append(one.sensitivity)
        elif one.members and kinds.get(one.task) == (one.by, one.metric):
            own = controls.setdefault(one.task, {})
            own.setdefault(one.members[0]['control'], []).append(value)
    measured = {}
    for member, own in scores.items():
        measured[member] = {f'exam/{name}': float(np.mean(list(own.values())))}
        measured[member] |= {f'exam/{name} {task}': value for task, value in own.items()}
        sensitivity = float(np.mean(sensitivities[member]))
        if math.isfinite(sensitivity):
            measured[member][f'exam/{name} {arms.SENSITIVITY}'] = sensitivity
    return measured, _beside(controls, {one.task for one in chosen})


def _beside(controls, tasks):
    """Returns {control: mean over tasks} of {task: {control: values}}."""
    if not tasks or controls.keys() != tasks:
        return {}
    means = [{c: np.mean(v) for c, v in own.items()} for own in controls.values()]
    everywhere = [c for c in means[0] if all(c in own for own in means)]
    beside = {c: float(np.mean([own[c] for own in means])) for c in everywhere}
    if any(len(own) > len(everywhere) for own in means):
        beside[STRONGEST] = float(np.mean([max(own.values()) for own in means]))
    return beside


def _weights(path, folder):
    """Returns the identity of the newest checkpoint; without any, of the saved answer."""
    if newest := restore.newest_good(folder):
        return restore.identity(folder, newest[0])
    saved = cached_result.read(path)
    return saved and saved['config'].get('weights')


def _examine(name, section, workdir, questions, tasks):
    """Answers the open questions about members that have checkpoints, and returns the
    errors."""
    wanted = [
        member for member, one in questions.items() if not cached_result.answer(*one)
    ]
    present = [m for m in questions if restore.steps(workdir / m / 'checkpoints')]
    if missing := [member for member in wanted if member not in present]:
        print(f'Not examined, as their checkpoints are missing: {", ".join(missing)}')
    if not set(wanted) & set(present):
        return []
    paths = {str(workdir / member): member for member in present}
    config = {**section, 'models': list(paths)}
    folder = workdir / members.EXAMINED / name
    errors = []
    try:
        lines = evaluate.evaluate(config, folder)['lines']
    except evaluate.MembersFailed as error:  # raised once the report is written
        lines, errors = error.summarized['lines'], [error]
    config = schema.read(Config, schema.plain(config))
    rule = dict(by=config.select_by, rates=selection.PAPER_RATES)
    values, controls = metrics_of(name, selection.select(lines, **rule), paths)
    for member in present:
        own = values.get(member, {})
        if all(f'exam/{name} {task}' in own for task in tasks):
            answer = {'values': own, 'beside': controls}
            cached_result.get_or_compute(*questions[member], lambda one=answer: one)
    return errors
