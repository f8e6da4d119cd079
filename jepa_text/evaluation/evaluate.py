"""`evaluate(config, workdir)`: models x tasks x learning rates x seeds, each fine-tuned.

workdir/
  results/        a line and a side file a member: results/lines.py
  claims/         which worker is at which group of members: running/claims.py
  lines.jsonl     all lines
  summary.json    what was chosen, its mean and interval, verdicts

The same call goes on where it was left, and several workers may make it with one folder.
The learning rate is chosen on validation only; what is reported is of the test set.
"""

import datetime
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
from jepa_text.evaluation.results import tables as result_tables
from jepa_text.files import atomic
from jepa_text.running import claims, compilation, shared_workdir, xla_flags

MODES = results.MODES
FORMS = {
    'md': result_tables.markdown,
    'tex': result_tables.latex,
    'csv': result_tables.csv_of,
}


def evaluate(config, workdir, dry_run=False):
    """Trains and measures all members that are not there yet, and returns the summary.

    With `dry_run` it says what would be trained, and writes nothing. Raises ValueError
    and FileNotFoundError, before anything is trained, for tasks that cannot be made,
    settings that do not exist, folders that hold no model, and models that fill no masks
    where a task asks for it; and RuntimeError at the end, when all else is written, where
    members failed.
    """
    xla_flags.mend()
    config = schema.read(Config, schema.plain(config))
    compilation.use_cache(config.compilation_cache)
    with shared_workdir.opened(workdir) as place:
        return _evaluate(config, place, dry_run)


def _evaluate(config, place, dry_run):
    folder = place.folder
    look = load.outline if dry_run else load.check
    models = {model: look(model) for model in config.models}
    made = _tasks_of(config, dry_run)
    stamps = {model: load.stamp(model) for model in config.models}
    groups = grouping.groups_of(config, made, stamps)
    # Before the lines: what another worker ends after them is not gone.
    ended = claims.ended(place.claims)
    place.pull()
    there = {grouping.key_of(line) for line in results.read(folder / results.FOLDER)[0]}
    once = grouping.once(groups)
    planned = planned_of(config, made, once, there, models if dry_run else None)
    if dry_run:
        progress.show_plan(planned, config.hardware or hardware_here())
        return None
    by_item = {group.item: group for group in once if not group.keys <= there}
    for item in by_item.keys() & ended.keys():
        # Ended, but with lines that are missing or damaged.
        claims.reopen(place.claims, item, ended[item])
    with progress.Telling(planned) as told:
        exam = examiner.Examiner(config, made, folder, told)

        def publish(item, found):
            exam.publish(by_item[item], found)
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
    found = summarize(config, made, folder, groups, worked.failed)
    place.push()
    print(result_tables.markdown(result_tables.table(summary.rows(found['chosen']))))
    for cut in cuts(found['lines']):
        print(truncation.told(f'{cut.task}, {cut.model}', cut.length, cut.cut, cut.texts))
    print(f'{place.name}/evaluation.html')
    if worked.failed:
        item, error = next(iter(worked.failed.items()))
        raise RuntimeError(
            f'{len(worked.failed)} of {len(groups)} groups of members failed and have no '
            f'results; {item}: {said(error)} The page has all '
            'that went wrong; the same command tries them again.'
        )
    return found


def _tasks_of(config, dry_run):
    """{name: task} of what is examined, that all models can answer."""
    made = {task.name: task for task in map(examiner.task_of, config.tasks)}
    summary.check_benchmarks(config.hub, list(made))
    sampled = {name: examiner.sampled(task, config) for name, task in made.items()}
    for task in sampled.values():
        examiner.check(task, config.finetuning)
    if len(made) < len(config.tasks):
        raise ValueError(
            f'Two of the {len(config.tasks)} tasks have one name, of {", ".join(made)}, '
            'and their results would be one: give one a `title`.'
        )
    if any(map(zero_shot.fills, made.values())):
        # What a dry run would fetch is looked at when it is there.
        for model in config.models:
            if not (dry_run and model.startswith('hf:')):
                load.check_fills(model)
    return sampled


def hardware_here():
    """'h100:8' of this machine; '' where its device is in no table, as a CPU."""
    name = hardware.name_of(jax.devices()[0].device_kind)
    return f'{name}:{jax.device_count()}' if name else ''


def planned_of(config, made, groups, there, outlines=None):
    """[progress.Planned] of all models and tasks; `there` are the keys of all lines.
    With {model: load.outline of it} also of how many FLOPs."""
    found = []

    @functools.cache
    def cost_of(path, name):
        return member_cost.of_member(outlines[path], made[name], config.finetuning)

    for model, name in dict.fromkeys((group.model, group.task) for group in groups):
        part = [g for g in groups if (g.model, g.task) == (model, name) and g.members]
        learned, _, _ = examiner.sizes_of(made[name])
        batches = -(-learned // config.finetuning.batch_size)
        steps = min(config.finetuning.steps, config.finetuning.epochs * batches)
        steps = 0 if zero_shot.as_it_is(made[name]) else steps
        members = sum(len(group.members) for group in part)
        done = sum(len(group.keys & there) for group in part)
        one = progress.Planned(model, name, members, steps, done=done)
        if outlines and members > done:
            cost = cost_of(part[0].path, name)
            one = one._replace(steps=cost.steps, flops=cost.member, once=cost.once)
        found.append(one)
    return found


def said(error):
    """What an error says, without the frames of its traceback: they stand in claims/,
    and name folders of this machine."""
    lines = error.strip().splitlines()
    frames = [at for at, line in enumerate(lines) if line.startswith('  ')]
    return '\n'.join(lines[frames[-1] + 1 if frames else 0 :])


def cuts(lines):
    """[truncation.Cut] of each model and task some of whose texts were cut."""
    found = {}
    for line in lines:
        cut, texts = line.get('texts_cut') or (0, 0)
        if cut and not line.get('control'):
            key = line['task'], line['model']
            sizes = line['max_length'], texts, cut
            found.setdefault(key, truncation.Cut(*key, line['seed'], *sizes, math.nan))
    return list(found.values())


def summarize(config, made, folder, groups, failed=None):
    """What the lines of these groups say, also as files: summary.json, tables, the page.

    Lines of other settings, which the folder may hold too, are counted and left out.
    {'lines', 'chosen', 'compared', 'damaged', 'failed'}
    """
    failed = failed or {}
    lines, damaged = _lines(folder, groups)
    # Folders of this machine are of no use to others.
    short = results.shortened(lines)
    chosen = selection.select(short, by=config.select_by, rule=config.selection)
    models = [c for c in chosen if c.members and not c.members[0].get('control')]
    compared = comparison.compare(
        [one for one in models if not one.members[0].get('zero_shot')]  # no seeds
    )
    known = [row for row in published.rows() if row['task'] in made]
    summary.write(folder, chosen)
    _write_hub_results(folder / 'hub', models, config.hub)
    _write_tables(folder, summary.rows(chosen), known)
    page.write(
        folder / 'evaluation.html',
        page.Examined(
            short,
            chosen,
            compared,
            [examiner.shared(task) for task in made.values()],
            known,
            troubles=damaged | {what: said(why) for what, why in failed.items()},
            cuts=cuts(short),
            instances=summary.over_instances(folder / results.FOLDER, chosen),
        ),
    )
    return {
        'lines': lines,
        'chosen': chosen,
        'compared': compared,
        'damaged': damaged,
        'failed': failed,
    }


def _lines(folder, groups):
    """(lines of these groups, {damaged file: why}); writes lines.jsonl."""
    every, damaged = results.read(folder / results.FOLDER)
    lines = grouping.named(every, groups)
    if left := len(every) - len({line['name'] for line in lines}):
        where = folder / results.FOLDER
        print(f'{left:,} members of other settings lie in {where}: left out.')
    text = ''.join(json.dumps(line) + '\n' for line in lines)
    atomic.write(folder / 'lines.jsonl', text)
    return lines, damaged


def _write_hub_results(folder, models, benchmarks):
    for model in {one.model for one in models} if benchmarks else ():
        today = datetime.date.today().isoformat()
        own = [one for one in models if one.model == model]
        name = model.removeprefix('hf:').strip('/').replace('/', '-')
        summary.hub_results(folder / name, own, benchmarks, today)


def _write_tables(folder, rows, known):
    for mode in MODES:
        table = result_tables.table(rows, mode, published=known)
        for suffix, form in FORMS.items():
            atomic.write(folder / f'table.{mode}.{suffix}', form(table))
