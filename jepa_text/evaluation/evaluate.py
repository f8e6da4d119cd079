"""The command `evaluate`: a grid of models, tasks, learning rates and seeds.

Each member of the grid is fine-tuned and measured.

workdir/
  results/        a line and a side file per member: results/result_files.py
  logs/           the output of members that are trained by other processes (engine.py)
  lines.jsonl     all lines
  summary.json    selected learning rates, means and intervals; summary.csv: one per line

The same call resumes an evaluation: members whose lines are there are finished.
The learning rate is selected on validation only; reported values are those of the test
set.
"""

import dataclasses
import json
import traceback
from pathlib import Path

from jepa_text import engine
from jepa_text.evaluation import examiner, finetune, forecast
from jepa_text.evaluation import groups as grouping
from jepa_text.evaluation.config import Config
from jepa_text.evaluation.results import page, result_files, selection, summary
from jepa_text.evaluation.sets.task import check_names, identifying_texts
from jepa_text.files import atomic, extras, paths
from jepa_text.pretrained import load, prediction
from jepa_text.report import console, progress
from jepa_text.running import compilation, xla_flags
from jepa_text.settings import schema


class MembersFailed(RuntimeError):
    """Some groups have no results; `summarized` is the summary of the others."""

    def __init__(self, message, summarized):
        super().__init__(message)
        self.summarized = summarized


def evaluate(config, workdir, dry_run=False):
    """Trains and measures all members without results, and returns the summary.

    With `dry_run`, only prints what would be trained. Raises ValueError and
    FileNotFoundError for what cannot be evaluated and ModuleNotFoundError without
    matplotlib, before anything is trained, and MembersFailed if members failed, after all
    results are written.
    """
    xla_flags.apply()
    config = schema.read(Config, schema.plain(config))
    folder = Path(paths.local('The workdir', workdir)).absolute()
    compilation.use_cache()
    models = {name: load.outline(name, weights=not dry_run) for name in config.models}
    for model in models.values():
        # Raises if the model does not read as many tokens.
        prediction.reader(model, config.finetuning.max_length or None)
    tasks = tasks_of(config)
    if any(task.kind == 'cloze' for task in tasks.values()):
        for model in models.values():
            # A dry run reads no weights of models of transformers: these are not checked.
            if not (dry_run and model.name.startswith(paths.MODEL)):
                model.check_fills()
    stamps = {model: load.fingerprint(model) for model in config.models}
    facts = {model: load.trained(model) for model in config.models}
    groups = grouping.groups_of(config, tasks, stamps)
    seeds = grouping.searching(config)
    first = [g for g in groups if not g.members or g.members[0].seed in seeds]
    further = [g for g in groups if g not in first]
    if dry_run:
        # A rate that is not chosen yet stands for the one that will be.
        rates = _chosen_rates(config, folder, first)
        left = _at(further, lambda key: rates.get(key, config.learning_rates[0]))
        unique = grouping.unique(first + left)
        _show_plan(config, models, tasks, unique, _done(folder))
        return None
    extras.package('matplotlib', 'viz', 'The page of results')
    with engine.opened(config.engine, folder) as run:
        failed = _work(config, folder, tasks, first, stamps, run)
        left = _at(further, _chosen_rates(config, folder, first).get)
        failed |= _work(config, folder, tasks, left, stamps, run)
        unique = grouping.unique(first + left)
        summarized = summarize(config, tasks, folder, groups, failed, facts)
    rows = summary.rows(summarized['chosen'])
    summary.show(rows)
    told = (summarized[key] for key in ('compared', 'failed', 'instances'))
    print(page.answer(rows, *told))
    for sentence in summary.truncated(summarized['lines']):
        print(sentence)
    print(f'{folder}/evaluation.html')
    if failed:
        item, error = next(iter(failed.items()))
        raise MembersFailed(
            f'{len(failed)} of {len(unique)} groups of members failed and have no '
            f'results; {item}: {error} The page lists all errors; run the same command '
            'to try again.',
            summarized,
        )
    return summarized


def _at(groups, rate_of):
    return [g for g in groups if g.members[0].learning_rate == rate_of((g.model, g.task))]


def _chosen_rates(config, folder, groups):
    """Returns {(model, task): learning rate} that the lines of these groups choose."""
    lines = grouping.of_groups(result_files.read(folder / result_files.FOLDER)[0], groups)
    chosen = selection.select(lines, by=config.select_by)
    return {(choice.model, choice.task): choice.rate for choice in chosen}


def _done(folder):
    return set(map(grouping.key_of, result_files.read(folder / result_files.FOLDER)[0]))


def _work(config, folder, tasks, groups, stamps, run):
    """Trains and measures the groups without lines, in this process or by tasks of the
    engine; returns {item: error message} of those that still lack some."""
    done, unique = _done(folder), grouping.unique(groups)
    waiting = [group for group in unique if not group.keys <= done]
    if not waiting:
        return {}
    if config.engine.is_in_process:
        failed = _examined(config, tasks, folder, waiting, stamps)
    else:
        failed = _examined_elsewhere(config, tasks, folder, waiting, stamps, run)
    done = _done(folder)
    left = [group.item for group in waiting if not group.keys <= done]
    silent = 'it ended without an error, but not all of its results are there.'
    return {item: failed.get(item, silent) for item in left}


def _examined_elsewhere(config, tasks, folder, groups, stamps, run):
    """Like `_examined`, by tasks of the engine: those of a model and task in as many
    parts as there are jobs, or one by one on Ray."""
    by_part, shares, parts, failed = {}, {}, [], {}
    for group in groups:
        by_part.setdefault((group.task, group.model), []).append(group)
    function = f'{__name__}.{examine.__name__}'
    for (name, model), some in by_part.items():
        is_ray = config.engine.name == 'ray'
        count = len(some) if is_ray else min(config.engine.jobs, len(some))
        section = config.tasks[list(tasks).index(name)]
        given = schema.as_dict(config) | {'tasks': [section]}
        for part in range(count):
            share = some[part::count]
            # The groups themselves: a process that sees other devices cuts others.
            fields = list(map(dataclasses.asdict, share))
            title = f'evaluate {name} {model} {part + 1} of {count}'
            shares[title] = share
            arguments = [given, str(folder), stamps, fields]
            parts.append(engine.Task(title, function, arguments))
    for title, (errors, lost) in run(parts).items():
        items = [group.item for group in shares[title]]
        failed |= dict.fromkeys(items, str(lost)) if lost else errors
    return failed


def examine(config, folder, stamps, groups):
    """Trains and measures groups of one task, a task of the engine, and writes their
    lines; returns {item: error message} of those that failed.

    Raises ValueError if this process reads other examples than the driver.
    """
    xla_flags.apply()
    config, folder = schema.read(Config, config), Path(folder)
    compilation.use_cache()
    tasks = tasks_of(config)
    groups = list(map(grouping.group_of, groups))
    known = {one.common for one in grouping.groups_of(config, tasks, stamps)}
    if other := {group.common for group in groups} - known:
        raise ValueError(
            f'{", ".join(tasks)}: the examples or the version of jepa-text are not those '
            f'of the process that began this evaluation ({min(other)}): give all '
            'processes the same, or run the command again if the files have changed.'
        )
    return _examined(config, tasks, folder, groups, stamps)


def _examined(config, tasks, folder, groups, stamps):
    """Returns {item: error message} of the groups that failed; the members of the others
    are written, and of these those before the error."""
    exam, failed = examiner.Examiner(config, tasks, stamps), {}
    known, results = _done(folder), folder / result_files.FOLDER
    # A task that is repeated after a killed process has written some of them.
    groups = [one for one in groups if not one.keys <= known]
    costs = [(1, _cost(config, tasks[group.task], group)) for group in groups]
    with progress.Progress('evaluate', len(groups), 0, costs) as bar:
        for done, group in enumerate(groups, 1):
            bar.update(done - 1, description=f'{group.task}, {Path(group.model).name}')
            try:
                for described, outcome, *side in exam.run(group, known):
                    result_files.write(results, described, outcome, *side)
                    bar.log(examiner.said(described, outcome))
            except Exception as error:  # the other groups are still wanted
                told = f'{type(error).__name__}: {error}'
                if told not in failed.values():
                    traceback.print_exception(error)
                failed[group.item] = told
            bar.update(done)
    return failed


def _cost(config, task, group):
    """Returns about how many training steps a group takes as long as."""
    _, validation, test = examiner.sizes_of(task)
    # Without a gradient, a batch takes a third of a step.
    answered = (validation + test) / config.finetuning.batch_size / 3
    return len(group.members) * (_steps(config, task) + answered) or answered


def _steps(config, task):
    """Returns the training steps of a member; of long contexts there may be more."""
    if task.zero_shot:
        return 0
    batches = -(-examiner.sizes_of(task)[0] // config.finetuning.batch_size)
    return min(config.finetuning.steps, config.finetuning.epochs * batches)


def tasks_of(config):
    """Returns {name: task} of a Config, with as many examples as it says; raises
    ValueError for tasks that cannot be learned."""
    tasks = [examiner.sampled(examiner.task_of(one), config) for one in config.tasks]
    check_names(tasks)
    for task in tasks:
        if not task.zero_shot:
            finetune.kind_of(task, config.finetuning)
    return {task.name: task for task in tasks}


def _show_plan(config, models, tasks, groups, done):
    """Prints what remains to be trained; `done` are the keys of all lines."""
    rows = {}
    for group in groups:
        key = group.model, group.task, group.path
        row = rows.setdefault(key, [0, 0])
        row[0] += len(group.members)
        row[1] += len(group.keys & done) if group.members else 0
    speed, machine = forecast.speed()
    columns = ['model', 'task', 'members', 'done', 'steps each', 'hours']
    table, members, steps, hours = [], 0, 0, 0.0
    for (model, name, path), (count, finished) in rows.items():
        each, left = _steps(config, tasks[name]), count - finished
        taken = None
        if speed and count:
            given = models[path], tasks[name], config.finetuning, each
            taken = left * forecast.flops(*given) / speed / 3600
            hours += taken
        table.append([model, name, count, finished, each, taken and f'{taken:.2g}'])
        members, steps = members + left, steps + left * each
    console.table('Training plan', columns, table)
    print(f'{members:,} members remain to be trained, {steps:,} steps in total.')
    if speed:
        print(f'They take about {hours:.2g} hours on this machine ({machine}).')


def summarize(config, tasks, folder, groups, failed, facts):
    """Summarizes the lines of these groups, and writes the summary and the page.

    Lines of other settings, which the folder may contain too, are counted and left out.
    `facts` are {model: load.trained}. Returns {'lines', 'chosen', 'compared',
    'instances', 'damaged', 'failed'}.
    """
    results = folder / result_files.FOLDER
    all_lines, damaged = result_files.read(results)
    lines = grouping.of_groups(all_lines, groups)
    if left_out := len(all_lines) - len({line['name'] for line in lines}):
        print(f'{left_out:,} members in {results} have other settings and are left out.')
    atomic.write(folder / 'lines.jsonl', ''.join(json.dumps(x) + '\n' for x in lines))
    short = result_files.with_short_names(lines)
    chosen = selection.select(short, by=config.select_by)
    models = [choice for choice in chosen if not choice.first.get('control')]
    # Zero-shot tasks have no seeds.
    compared = selection.compare([c for c in models if not c.first.get('zero_shot')])
    summary.write(folder, summary.rows(chosen))
    told = [examiner.said_of_shared(task) for task in tasks.values()]
    told = [*filter(None, told), *summary.truncated(short)]
    clusters = {
        name: identifying_texts(task.test)
        for name, task in tasks.items()
        if task.kind != 'retrieval'
    }
    instances = summary.over_instances(results, chosen, clusters)
    path, failures = folder / 'evaluation.html', damaged | failed
    page.write(path, short, chosen, compared, told, failures, instances, facts)
    whole = dict(lines=lines, chosen=chosen, compared=compared, instances=instances)
    return whole | {'damaged': damaged, 'failed': failed}
