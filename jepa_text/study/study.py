"""The command `jepa-text study`: trains, evaluates and compares several runs.

workdir/
  study.json        the members, each with its config (members.py)
  rows/             prepared once, read by all runs
  <run>/            a training run: config, checkpoints, metrics; for a run with seeds,
  <run>/seed_<n>/   one per seed
  evaluated/        the measured results of each member, saved as soon as they exist
  examined/         fine-tuning of the members, if configured (finetuned.py)
  results.json      all numbers and predictions of the report
  report.html       the report; for a study with seeds also appendix.md (appendix.py)
  claims/           which worker works on what (running/claims.py)
"""

import contextlib
import dataclasses
import functools
import re
import time

from jepa_text.config import schema
from jepa_text.data import prepare as prepared
from jepa_text.data.rows import row_folder
from jepa_text.evaluation import representation
from jepa_text.files import cached_result
from jepa_text.parallel import exits
from jepa_text.running import claims, compilation, shared_runs, xla_flags
from jepa_text.study import (
    checks,
    finetuned,
    forecast,
    measure,
    members,
    papers,
    report,
    training_work,
    verdicts,
)
from jepa_text.training import completion, prepare
from jepa_text.training import config as settings

_ERROR_TYPE = re.compile(r'^[\w.]+: ')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """The section `study`: what is measured for each run."""

    tasks: tuple[str, ...] = schema.field(
        representation.TASKS, 'sentence classification tasks for probes'
    )
    label: str = schema.field('', 'field of the documents that a probe predicts')
    sentences: tuple[tuple, ...] = schema.field(
        (), 'pairs (text with one <mask>, answer)'
    )
    split: str | None = schema.field(
        None, 'split that is measured at the end; None: heldout'
    )

    def __post_init__(self):
        representation.check(self.tasks)
        for item in self.sentences:
            if len(item) != 2 or str(item[0]).count('<mask>') != 1:
                raise ValueError(
                    f'study.sentences: {item!r} is not a pair (text with one <mask>, '
                    'answer).'
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(settings.Shared):
    """The config of a study: what its runs share, and the runs."""

    prepare: prepared.Config = schema.field(doc='makes rows from text')
    runs: tuple[dict, ...] = schema.field(
        doc='runs: a name, phases, and any keys of its own'
    )
    seeds: tuple[int, ...] = schema.field(
        (), 'seeds of each run; a run may have its own `seeds`', minimum=0
    )
    attempts: int = schema.field(
        3, 'attempts at a run that fails without progress', minimum=1
    )
    lease: float = schema.field(
        claims.LEASE, 'seconds after which a silent worker loses its claim', above=0
    )
    study: Measured = schema.section(Measured, 'what is measured for each run')
    report: papers.Reported = schema.section(papers.Reported, 'what is compared')
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
    more runs or seeds it trains these. Several workers may make the same call, with one
    shared folder or one address. With `dry_run`, prints what would be trained, writes
    nothing, and returns [forecast.Member].
    """
    xla_flags.apply()
    with contextlib.ExitStack() as stack:
        with exits.config_errors():
            opened = shared_runs.opened(workdir, members.TAKEN, finetuned.is_left_out)
            place = stack.enter_context(opened)
        return (_dry_run if dry_run else _study)(config, place)


def _study(config, place):
    start, workdir = time.monotonic(), place.folder
    with exits.config_errors():
        config = plain(config)
        compilation.use_cache(config['compilation_cache'])
        plain_configs = checks.member_configs(config, workdir)
        _prepare(config, place)
        # Everything that may be missing is checked before training, not after it.
        probes = measure.probes(config, workdir / 'rows')
        filling = finetuned.check(config['examine'])
        configs = {
            name: _completed(member, workdir / name)
            for name, member in plain_configs.items()
        }
        checks.check_runs(config, configs, workdir, filling)
        fingerprints = _enroll(plain_configs, place, config['lease'])
        to_train = dict(configs)
        for name, fingerprint in fingerprints.items():
            if measure.is_known(config, workdir, name, fingerprint):
                print(f'{name}: complete by its result; it has no checkpoints here')
                del to_train[name]
    with training_work.Worker(place, config['lease'], config['attempts']) as worker:
        failed = training_work.train_all(to_train, worker)
        trained = {n: mark for n, mark in fingerprints.items() if n not in failed}
        if not trained:
            raise _failure(failed, fingerprints)
        measuring = measure.Measuring(config, place, trained, probes)
        wanted = [members.UNTRAINED, *trained]
        unmeasured = worker.share('measure', wanted, measuring.is_known, measuring.once)
    failed |= unmeasured
    measured = {n: mark for n, mark in trained.items() if n not in unmeasured}
    if members.UNTRAINED in unmeasured or not measured:
        raise _failure(failed, fingerprints)
    results = cached_result.get_or_compute(
        workdir / 'results.json',
        {'measured': measuring.questions(measured)},
        lambda: measuring.results({name: configs[name] for name in measured}),
    )
    recipes = measure.recipes(configs).items()
    results['missing'] = {name: pair for name, pair in recipes if name in failed}
    if config['examine']:
        results['examined'] = finetuned.run(config['examine'], place, measured)
    completed = {n: members.as_trained(configs[n], workdir / n) for n in measured}
    path = report.write(workdir, results, completed, config['report'])
    place.send()
    print(f'\n{path}  (this call: {time.monotonic() - start:.0f} s)')
    if failed:
        raise _failure(failed, fingerprints)
    return results


def _completed(config, folder):
    """Returns the config of a member with the model of its start and its baseline."""
    config = completion.with_init_from(config, folder)
    return completion.with_baseline(config, folder)


def _failure(failed, fingerprints):
    """Returns the error that names the failed members.

    It is Diverged if the same command can only fail again, else a RuntimeError.
    """
    last = {name: text.strip().splitlines()[-1] for name, text in failed.items()}
    is_final = all(text.startswith(exits.__name__) for text in last.values())
    # Tracebacks end with the type of the error, which helps programs only.
    listed = [f'{name}: {_ERROR_TYPE.sub("", text)}' for name, text in last.items()]
    return (exits.Diverged if is_final else RuntimeError)(
        f'Of {len(fingerprints)} runs, these have no results: {"; ".join(listed)} The '
        'others are done. Run the same command to try these again.'
    )


def _prepare(config, place):
    """Prepares the rows once for all workers, or reports that they exist."""
    rows = place.folder / 'rows'
    make = functools.partial(prepare.run, config, rows)
    exist = (rows / row_folder.MANIFEST).is_file
    return place.once('prepare', exist, make, config['lease']) or make()


def _enroll(configs, place, lease):
    """Like members.enroll; only one worker at a time writes."""
    is_done = functools.partial(members.is_enrolled, place.folder, configs)
    enroll = functools.partial(members.enroll, place.folder, configs)
    return place.once('enroll', is_done, enroll, lease) or enroll()


def _dry_run(config, place):
    """Prints what a study would train and cost, and returns [forecast.Member]."""
    with exits.config_errors():
        config, workdir = plain(config), place.folder
        configs = checks.member_configs(config, workdir)
        members.enroll(workdir, configs, write=False)
        whole = {n: one | {'prepare': config['prepare']} for n, one in configs.items()}
        found = forecast.outlook(whole, workdir)
        forecast.show(found)
        missing, filling = checks.missing_tasks(config, configs)
        if (workdir / 'rows').is_dir():
            checks.check_runs(config, configs, workdir, filling)
        else:
            print('There are no rows yet, so their number was not checked.')
        for error in missing:
            print(f'Missing on this machine, where the study would fail: {error}')
    return found
