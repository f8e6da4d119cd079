"""The command `jepa-text study`: trains, evaluates and compares several runs.

workdir/
  study.json        the members, each with its config (members.py)
  rows/             prepared once, read by all runs
  <run>/            a training run: config, checkpoints, metrics; for a run with seeds,
  <run>/seed_<n>/   one per seed
  evaluated/        the measured results of each member, saved as soon as they exist
  examined/         fine-tuning of the members, if configured (finetuned.py)
  results.json      what was measured; the scores of exams are in examined/
  report.html       the report; appendix.md has the same content (report.py)
  logs/             the output of tasks in processes of their own (engine.py)
"""

import contextlib
import dataclasses
import time
from pathlib import Path

from jepa_text import engine
from jepa_text.data.section import Prepare
from jepa_text.engine import Options
from jepa_text.evaluation import representation
from jepa_text.files import paths
from jepa_text.parallel import exits
from jepa_text.running import compilation, xla_flags
from jepa_text.settings import schema
from jepa_text.study import (
    finetuned,
    forecast,
    measure,
    members,
    papers,
    report,
    verdicts,
    work,
)
from jepa_text.training import config as settings
from jepa_text.training import prepare


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """The section `study`: what is measured for each run."""

    tasks: tuple[str, ...] = schema.field(
        representation.TASKS, 'sentence classification tasks for probes'
    )
    split: str | None = schema.field(
        None, 'split that is measured at the end; None: heldout'
    )

    def __post_init__(self):
        representation.check(self.tasks)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(settings.Shared):
    """The config of a study: what its runs share, and the runs."""

    prepare: Prepare = schema.field(doc='makes rows from text')
    runs: tuple[dict, ...] = schema.field(
        doc='runs: a name, phases, and any keys of its own'
    )
    seeds: tuple[int, ...] = schema.field(
        (), 'seeds of each run; a run may have its own `seeds`', minimum=0
    )
    engine: Options = schema.field({}, 'where members run')
    study: Measured = schema.field({}, 'what is measured for each run')
    report: papers.Reported = schema.field({}, 'what is compared')
    examine: dict = schema.field(
        {}, '{name: config of `evaluate` without models} for all members'
    )

    def __post_init__(self):
        verdicts.check(self.report.compare, [run.get('name') for run in self.runs])
        finetuned.check(self.examine, tasks=False)
        split = measure.split_of({'split': self.study.split})
        if split not in self.prepare.splits:
            raise ValueError(
                f'study.split={split!r} is not in prepare.splits={self.prepare.splits}.'
            )
        for key in ('folder', 'mixture'):
            if value := getattr(self.data, key):
                raise ValueError(
                    f'data.{key}={value!r}: a study reads the rows that it prepares. '
                    'Leave it out.'
                )
        if self.seeds and self.seed:
            raise ValueError(
                f'seed={self.seed} and seeds={self.seeds}: set only one of them.'
            )


def plain(config):
    """Returns the config of a study as plain dicts with all defaults."""
    config = schema.plain(config)
    if not config.get('runs'):
        raise ValueError(
            'A study needs `runs`, as in configs/quickstart.py, but this config has '
            'none. For a single run, use `jepa-text train`.'
        )
    return schema.resolved(Config, config)


def study(config, workdir, dry_run=False):
    """Prepares rows, trains and evaluates all members of the study, and writes a report.

    Returns the results. Finished work is not repeated: the same call resumes, and with
    more runs or seeds it trains these. With `dry_run`, prints what would be trained,
    writes nothing, and returns [forecast.Member]. Raises exits.ConfigError for what can
    never be trained; RuntimeError, or exits.Diverged, if members failed, after the others
    are done.
    """
    xla_flags.apply()
    with contextlib.ExitStack() as stack:
        with exits.config_errors():
            config, folder = plain(config), Path(paths.local('The workdir', workdir))
            folder = folder.absolute()
            if dry_run:
                return _dry_run(config, folder)
            compilation.use_cache()
            options = schema.read(engine.Options, config['engine'], 'engine')
            run = stack.enter_context(engine.opened(options, folder))
        return _study(config, folder, run)


def _study(config, folder, run):
    start = time.monotonic()
    with exits.config_errors():
        # A wrong key of a run is found before the rows, which may take hours.
        members.configs(config, folder / 'rows')
        prepare.run(config, folder / 'rows', is_brief=True)
    plan, error = run([_task('check', 'check', config, folder)], lambda *_: None)['check']
    if error:
        raise error
    fingerprints, configs = plan['fingerprints'], plan['configs']
    to_train = []
    for name, trunk, cost in plan['to_train']:
        # A trunk that is complete has no task.
        known = {task.name for task in to_train}
        after = known & ({f'train {trunk[0]}'} if trunk else set())
        given = name, configs[name], folder, trunk
        to_train.append(
            _task(f'train {name}', 'train', *given, after=(*after,), cost=cost)
        )
    failed = _errors(run(to_train)) if to_train else {}
    trained = {name: mark for name, mark in fingerprints.items() if name not in failed}
    if not trained:
        raise _failure(failed, fingerprints)
    marks = {members.UNTRAINED: fingerprints[next(iter(trained))], **trained}
    to_measure = [
        _task(f'measure {name}', 'measure_member', name, config, folder, mark, first)
        for first in [next(iter(trained))]
        for name, mark in marks.items()
        if not measure.is_measured(name, config, folder, mark)
    ]
    failed |= _errors(run(to_measure))
    measured = {name: mark for name, mark in trained.items() if name not in failed}
    if members.UNTRAINED in failed or not measured:
        raise _failure(failed, fingerprints)
    configs = {name: configs[name] for name in measured}
    results = measure.results(config, folder, configs, marks)
    missing = [name for name in plan['configs'] if name in failed]
    results['missing'] = {name: members.recipe_of(name) for name in missing}
    errors = []
    if config['examine']:
        examined = finetuned.run(config['examine'], folder, measured, config['engine'])
        errors, results['examined'] = examined.pop('errors'), examined
    path = report.write(folder, results, configs, config['report'])
    print(f'\n{path}  (this call: {time.monotonic() - start:.0f} s)')
    if failed:
        raise _failure(failed, fingerprints)
    for error in errors:
        raise error
    return results


def _task(name, function, *arguments, **more):
    arguments = [str(x) if isinstance(x, Path) else x for x in arguments]
    return engine.Task(name, f'{work.__name__}.{function}', arguments, **more)


def _errors(outcomes):
    return {
        name.partition(' ')[2]: outcome.error
        for name, outcome in outcomes.items()
        if outcome.error
    }


def _failure(failed, fingerprints):
    """Returns the error that names the failed members: Diverged if the same command can
    only fail again, else a RuntimeError."""
    is_final = all(exits.code_of(error) == exits.USAGE for error in failed.values())
    listed = '; '.join(f'{name}: {error}' for name, error in failed.items())
    return (exits.Diverged if is_final else RuntimeError)(
        f'Of {len(fingerprints)} runs, these have no results: {listed} The others are '
        'done. Run the same command to try these again.'
    )


def _dry_run(config, folder):
    """Prints what a study would train and cost, and returns [forecast.Member]."""
    configs = members.configs(config, folder / 'rows')
    members.enroll(folder, configs, write=False)
    whole = {n: one | {'prepare': config['prepare']} for n, one in configs.items()}
    expected = forecast.of_members(whole, folder)
    forecast.show(expected)
    missing, filling = work.missing_tasks(config, configs)
    if (folder / 'rows').is_dir():
        work.check_runs(config, work.completed(configs, folder), filling)
    else:
        print('There are no rows yet, so their number was not checked.')
    for error in missing:
        print(f'Missing on this machine, where the study would fail: {error}')
    return expected
