"""The command `evaluate`: a grid of models, tasks, learning rates and seeds.

Each member of the grid is fine-tuned and measured.

workdir/
  results/        a line and a side file per member: results/lines.py
  claims/         which worker works on which group of members: running/claims.py
  lines.jsonl     all lines, and the definition by which they are selected
  summary.json    selected learning rates, means and intervals

The same call resumes an evaluation, and several workers can share a folder. The learning
rate is selected on validation only; reported values are those of the test set.
"""

import functools
import json
import math

import jax

from jepa_text import load
from jepa_text.config import schema
from jepa_text.cost import hardware
from jepa_text.data import truncation
from jepa_text.evaluation import examiner, progress, zero_shot
from jepa_text.evaluation import groups as grouping
from jepa_text.evaluation.config import Config
from jepa_text.evaluation.members import cost as member_cost
from jepa_text.evaluation.results import comparison, page, published, selection, summary
from jepa_text.evaluation.results import lines as results
from jepa_text.files import atomic
from jepa_text.kinds import prediction
from jepa_text.running import claims, compilation, shared_workdir, xla_flags

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
    compilation.use_cache(config.compilation_cache)
    with shared_workdir.opened(workdir) as place:
        return _evaluate(config, place, dry_run)


def _evaluate(config, place, dry_run):
    folder = place.folder
    read = load.outline if dry_run else load.check
    models = {model: read(model) for model in config.models}
    for model in config.models:
        # Raises if the model does not read as many tokens.
        prediction.reader(load.outline(model), config.finetuning.max_length or None)
    tasks = tasks_of(config)
    _check_fills(config.models, tasks, dry_run)
    stamps = {model: load.stamp(model) for model in config.models}
    groups = grouping.groups_of(config, tasks, stamps)
    # Read claims before lines: a group that another worker ends in between then has all
    # its lines, and is not mistaken for one with missing lines.
    ended = claims.ended(place.claims)
    place.pull()
    done = {grouping.key_of(line) for line in results.read(folder / results.FOLDER)[0]}
    unique = grouping.unique(groups)
    planned = plan_of(config, tasks, unique, done, models if dry_run else None)
    if dry_run:
        progress.show_plan(planned, config.hardware or local_hardware())
        return None
    by_item = {group.item: group for group in unique if not group.keys <= done}
    for item in by_item.keys() & ended.keys():
        # Ended, but with lines that are missing or damaged.
        claims.reopen(place.claims, item, ended[item])
    with progress.MemberProgress(planned) as bar:
        exam = examiner.Examiner(config, tasks, folder, bar)

        def publish(item, members):
            exam.publish(by_item[item], members)
            place.push()

        worked = claims.work(
            place.claims,
            list(by_item),
            lambda item: exam.run(by_item[item]),
            publish,
            lease=config.lease,
            attempts=config.attempts,
        )
    place.pull()
    summarized = summarize(config, tasks, folder, groups, worked.failed)
    place.push()
    rows = summary.rows(summarized['chosen'])
    print(summary.markdown(summary.table(rows)))
    for cut in truncations(summarized['lines']):
        print(
            truncation.message(f'{cut.task}, {cut.model}', cut.length, cut.cut, cut.texts)
        )
    print(f'{place.name}/evaluation.html')
    if worked.failed:
        item, error = next(iter(worked.failed.items()))
        raise RuntimeError(
            f'{len(worked.failed)} of {len(groups)} groups of members failed and have no '
            f'results; {item}: {error_message(error)} The page lists all errors; run the '
            'same command to try again.'
        )
    return summarized


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


def local_hardware():
    """Returns this machine as 'h100:8'; '' if its device is in no table, like a CPU."""
    name = hardware.name_of(jax.devices()[0].device_kind)
    return f'{name}:{jax.device_count()}' if name else ''


def plan_of(config, tasks, groups, done, outlines=None):
    """Returns the progress.Planned of all models and tasks.

    `done` are the keys of all lines. With {model: load.outline}, FLOPs are included.
    """
    plans = []

    @functools.cache
    def cost_of(path, name):
        return member_cost.of_member(outlines[path], tasks[name], config.finetuning)

    for model, name in dict.fromkeys((group.model, group.task) for group in groups):
        part = [g for g in groups if (g.model, g.task) == (model, name) and g.members]
        train_size, _, _ = examiner.sizes_of(tasks[name])
        batches = -(-train_size // config.finetuning.batch_size)
        steps = min(config.finetuning.steps, config.finetuning.epochs * batches)
        steps = 0 if zero_shot.is_zero_shot(tasks[name]) else steps
        members = sum(len(group.members) for group in part)
        finished = sum(len(group.keys & done) for group in part)
        plan = progress.Planned(model, name, members, steps, done=finished)
        if outlines and members > finished:
            cost = cost_of(part[0].path, name)
            costs = dict(steps=cost.steps, flops=cost.member, shared=cost.shared)
            plan = plan._replace(**costs)
        plans.append(plan)
    return plans


def error_message(error):
    """Returns the message of a traceback without its frames.

    The frames are in claims/; they would name folders of this machine.
    """
    lines = error.strip().splitlines()
    frames = [at for at, line in enumerate(lines) if line.startswith('  ')]
    return '\n'.join(lines[frames[-1] + 1 if frames else 0 :])


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
    chosen = selection.select(short, by=config.select_by, rule=config.selection)
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
            failures=damaged | {k: error_message(e) for k, e in failed.items()},
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
    how = {'select_by': config.select_by, 'selection': config.selection}
    told = (json.dumps(line | how) + '\n' for line in lines)
    atomic.write(folder / 'lines.jsonl', ''.join(told))
    return lines, damaged
