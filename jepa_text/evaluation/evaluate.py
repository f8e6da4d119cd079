"""The command `evaluate`: a grid of models, tasks, learning rates and seeds.

Each member of the grid is fine-tuned and measured.

workdir/
  results/        a line and a side file per member: results/lines.py
  logs/           the output of members that are trained by other processes (engine.py)
  lines.jsonl     all lines, and the definition by which they are selected
  summary.json    selected learning rates, means and intervals

The same call resumes an evaluation: groups of members whose lines are there are finished.
The learning rate is selected on validation only; reported values are those of the test
set.
"""

import json
import math
import traceback
from pathlib import Path

from jepa_text import engine
from jepa_text.config import schema
from jepa_text.data import truncation
from jepa_text.evaluation import examiner, progress, zero_shot
from jepa_text.evaluation import groups as grouping
from jepa_text.evaluation.config import Config
from jepa_text.evaluation.results import comparison, page, published, selection, summary
from jepa_text.evaluation.results import lines as results
from jepa_text.files import atomic, paths
from jepa_text.pretrained import load, prediction
from jepa_text.running import compilation, xla_flags

MODES = results.MODES
FORMS = {
    'md': summary.markdown,
    'csv': summary.csv_of,
}


def evaluate(config, workdir, dry_run=False):
    """Trains and measures all members without results, and returns the summary.

    With `dry_run`, only prints what would be trained. Raises ValueError and
    FileNotFoundError, before anything is trained, for invalid tasks and settings, folders
    without a model, models that read fewer tokens than a row is to have, and models that
    cannot fill masks if a task needs it. Raises RuntimeError if members failed, after all
    results are written.
    """
    xla_flags.apply()
    config = schema.read(Config, schema.plain(config))
    folder = Path(paths.local('The workdir', workdir)).expanduser().absolute()
    compilation.use_cache()
    read = load.outline if dry_run else load.check
    for model in config.models:
        read(model)
        # Raises if the model does not read as many tokens.
        prediction.reader(load.outline(model), config.finetuning.max_length or None)
    tasks = tasks_of(config)
    _check_fills(config.models, tasks, dry_run)
    stamps = {model: load.fingerprint(model) for model in config.models}
    groups = grouping.groups_of(config, tasks, stamps)
    if dry_run:
        done = _done(folder)
        planned = plan_of(config, tasks, grouping.unique(groups), done)
        progress.show_plan(planned)
        return None
    with engine.opened(config.engine, folder) as run:
        failed = _work(config, folder, tasks, groups, stamps, run)
        summarized = summarize(config, tasks, folder, groups, failed)
    rows = summary.rows(summarized['chosen'])
    print(summary.markdown(summary.table(rows)))
    for cut in truncations(summarized['lines']):
        print(
            truncation.message(f'{cut.task}, {cut.model}', cut.length, cut.cut, cut.texts)
        )
    print(f'{folder}/evaluation.html')
    if failed:
        item, error = next(iter(failed.items()))
        raise RuntimeError(
            f'{len(failed)} of {len(groups)} groups of members failed and have no '
            f'results; {item}: {error} The page lists all errors; run the same command '
            'to try again.'
        )
    return summarized


def _done(folder):
    """Returns the keys of all lines."""
    return {grouping.key_of(line) for line in results.read(folder / results.FOLDER)[0]}


def _work(config, folder, tasks, groups, stamps, run):
    """Trains and measures the groups without lines; returns {item: error message}.

    They are tasks of an engine: here one after another; else those of a model and task
    in as many parts as there are jobs, or one by one on Ray.
    """
    done, unique = _done(folder), grouping.unique(groups)
    waiting = [group for group in unique if not group.keys <= done]
    if config.engine.is_in_process:
        with progress.MemberProgress(plan_of(config, tasks, unique, done)) as bar:
            return _examined(examiner.Examiner(config, tasks, folder, bar), waiting)
    by_part = {}
    for group in waiting:
        by_part.setdefault((group.task, group.model), []).append(group.item)
    jobs, given, parts, failed = config.engine.jobs, schema.as_dict(config), {}, {}
    for (name, model), items in by_part.items():
        count = len(items) if config.engine.name == 'ray' else min(jobs, len(items))
        section = config.tasks[list(tasks).index(name)]
        for part in range(count):
            own = items[part::count]
            arguments = [{**given, 'tasks': [section]}, str(folder), stamps, own]
            parts[f'{name} {model} {part + 1} of {count}'] = arguments
    function = f'{__name__}.{examine.__name__}'
    outcomes = run([engine.Task(name, function, own) for name, own in parts.items()])
    for name, (errors, lost) in outcomes.items():
        failed |= dict.fromkeys(parts[name][-1], str(lost)) if lost else errors
    return failed


def examine(config, folder, stamps, items):
    """Trains and measures groups of one task, a task of the engine, and writes their
    lines; returns {item: error message} of those that failed."""
    xla_flags.apply()
    config, folder = schema.read(Config, config), Path(folder)
    compilation.use_cache()
    tasks = tasks_of(config)
    groups = grouping.unique(grouping.groups_of(config, tasks, stamps))
    groups = [group for group in groups if group.item in items]
    with progress.MemberProgress(plan_of(config, tasks, groups, set())) as bar:
        return _examined(examiner.Examiner(config, tasks, folder, bar), groups)


def _examined(exam, groups):
    """Returns {item: error message} of the groups that failed; the others are written."""
    failed = {}
    for group in groups:
        try:
            exam.publish(group, exam.run(group))
        except Exception as error:  # the other groups are still wanted
            traceback.print_exception(error)
            failed[group.item] = f'{type(error).__name__}: {error}'
    return failed


def tasks_of(config):
    """Returns {name: task} of a Config, with as many examples as it says.

    Raises ValueError for tasks that cannot be learned, and for names that are not unique.
    """
    tasks = {task.name: task for task in map(examiner.task_of, config.tasks)}
    sampled = {name: examiner.sampled(task, config) for name, task in tasks.items()}
    for task in sampled.values():
        examiner.check(task, config.finetuning)
    if len(tasks) < len(config.tasks):
        raise ValueError(
            f'The {len(config.tasks)} tasks have only {len(tasks)} different names '
            f'({", ".join(tasks)}), so their results would be mixed: give one a `title`.'
        )
    return sampled


def _check_fills(models, tasks, dry_run):
    """Raises ValueError for a model that cannot fill masks, if a task needs it."""
    if any(map(zero_shot.fills_masks, tasks.values())):
        # A dry run downloads no weights of hub models, so these are not checked.
        for model in models:
            if not (dry_run and model.startswith('hf:')):
                load.check_fills(model)


def plan_of(config, tasks, groups, done):
    """Returns the progress.Planned of all models and tasks; `done` are the keys of all
    lines."""
    plans = []
    for model, name in dict.fromkeys((group.model, group.task) for group in groups):
        part = [g for g in groups if (g.model, g.task) == (model, name) and g.members]
        train_size, _, _ = examiner.sizes_of(tasks[name])
        batches = -(-train_size // config.finetuning.batch_size)
        steps = min(config.finetuning.steps, config.finetuning.epochs * batches)
        steps = 0 if zero_shot.is_zero_shot(tasks[name]) else steps
        members = sum(len(group.members) for group in part)
        finished = sum(len(group.keys & done) for group in part)
        plans.append(progress.Planned(model, name, members, steps, finished))
    return plans


def truncations(lines):
    """Returns a truncation.Cut for each model and task with truncated texts."""
    cuts = {}
    for line in lines:
        cut, texts = line.get('texts_cut') or (0, 0)
        if cut and not line.get('control'):
            key = line['task'], line['model']
            sizes = line['max_length'], texts, cut
            cuts.setdefault(key, truncation.Cut(*key, line['seed'], *sizes, math.nan))
    return list(cuts.values())


def summarize(config, tasks, folder, groups, failed=None):
    """Summarizes the lines of these groups, and writes summary.json, tables and the page.

    Lines of other settings, which the folder may contain too, are counted and left out.
    Returns {'lines', 'chosen', 'compared', 'damaged', 'failed'}.
    """
    failed = failed or {}
    lines, damaged = _lines(folder, groups, config)
    short = results.with_short_names(lines)
    chosen = selection.select(short, by=config.select_by)
    models = [choice for choice in chosen if not choice.first.get('control')]
    # Zero-shot tasks have no seeds.
    compared = comparison.compare([c for c in models if not c.first.get('zero_shot')])
    known = [row for row in published.rows() if row['task'] in tasks]
    rows = summary.rows(chosen)
    summary.write(folder, rows)
    for mode in MODES:
        table = summary.table(rows, mode, known)
        for suffix, form in FORMS.items():
            atomic.write(folder / f'table.{mode}.{suffix}', form(table))
    page.write(
        folder / 'evaluation.html',
        page.Contents(
            short,
            chosen,
            compared,
            [
                examiner.shared_texts(task)
                for task in tasks.values()
                if not zero_shot.is_zero_shot(task)
            ],
            known,
            failures=damaged | failed,
            truncations=truncations(short),
            instances=summary.over_instances(
                folder / results.FOLDER,
                chosen,
                {name: examiner.clusters(task) for name, task in tasks.items()},
            ),
        ),
    )
    return {
        'lines': lines,
        'chosen': chosen,
        'compared': compared,
        'damaged': damaged,
        'failed': failed,
    }


def _lines(folder, groups, config):
    """Writes lines.jsonl; returns (lines of these groups, {damaged file: error})."""
    all_lines, damaged = results.read(folder / results.FOLDER)
    lines = grouping.of_groups(all_lines, groups)
    if left_out := len(all_lines) - len({line['name'] for line in lines}):
        where = folder / results.FOLDER
        print(f'{left_out:,} members in {where} have other settings and are left out.')
    how = {'select_by': config.select_by}
    told = (json.dumps(line | how) + '\n' for line in lines)
    atomic.write(folder / 'lines.jsonl', ''.join(told))
    return lines, damaged
