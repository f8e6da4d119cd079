"""Several runs on the same rows, one after the other, and a comparison of them.

workdir/
  study.json        the members, each with its config: members.py
  rows/             prepared once, read by all
  <run>/            one training run each: config, checkpoints, metrics; of a run with
  <run>/seed_<n>/   seeds, one for each
  evaluated/        what was measured of each model, kept as soon as it is done
  examined/         the members at tasks, if they are to be examined: finetuned.py
  results.json      every number and prediction of the report
  report.html       and appendix.md, of a study with seeds: appendix.py
  claims/           which worker is at what: running/claims.py
"""

import contextlib
import dataclasses
import functools
import re
import time

from jepa_text.config import schema
from jepa_text.data import prepare as prepared
from jepa_text.data import tokenizers
from jepa_text.data.rows import row_folder
from jepa_text.evaluation import representation, tasks
from jepa_text.evaluation.during_training import EVALUATIONS
from jepa_text.files import cached_result
from jepa_text.parallel import exits
from jepa_text.running import claims, compilation, shared_runs, xla_flags
from jepa_text.study import (
    finetuned,
    forecast,
    measure,
    members,
    papers,
    report,
    time_to_target,
    training_work,
    verdicts,
)
from jepa_text.training import assemble, completion, prepare, switches
from jepa_text.training import config as settings

_KIND = re.compile(r'^[\w.]+: ')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """The section `study`: what is measured of each run."""

    tasks: tuple[str, ...] = schema.field(
        representation.TASKS, 'sets of sentences: evaluation/tasks/sentences.py'
    )
    label: str = schema.field('', 'a field of the documents for a probe')
    sentences: tuple[tuple, ...] = schema.field((), '(text with one <mask>, the answer)')
    split: str | None = schema.field(
        None, 'of the rows, which is measured in the end; heldout'
    )

    def __post_init__(self):
        representation.check(self.tasks)
        for item in self.sentences:
            if len(item) != 2 or str(item[0]).count('<mask>') != 1:
                raise ValueError(
                    f'study.sentences: {item!r} is not (a text with one <mask>, the '
                    'answer).'
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(settings.Shared):
    """The config of a study: what its runs share, and what each has of its own."""

    prepare: prepared.Config = schema.field(doc='text to rows')
    runs: tuple[dict, ...] = schema.field(doc='a name, phases, and keys of its own, each')
    seeds: tuple[int, ...] = schema.field(
        (), 'each run with each of them; a run may have `seeds` of its own', minimum=0
    )
    attempts: int = schema.field(3, 'at a run that fails, without getting on', minimum=1)
    lease: float = schema.field(
        claims.LEASE, 'seconds after which a silent worker is given up', above=0
    )
    study: Measured = schema.section(Measured, 'what is measured of each run')
    report: papers.Reported = schema.section(papers.Reported, 'what is compared')

    examine: dict = schema.field(
        {}, 'by name: configs of `evaluate` without models, of tasks for the members'
    )

    def __post_init__(self):
        verdicts.check(self.report.compare, [run.get('name') for run in self.runs])
        finetuned.check(self.examine, tasks=False)
        split = measure.split_of({'split': self.study.split})
        if split not in self.prepare.splits:
            raise ValueError(
                f'study.split={split!r} is none of prepare.splits={self.prepare.splits}.'
            )
        if self.seeds and self.seed:
            raise ValueError(
                f'seed={self.seed} and seeds={self.seeds}: give one of them.'
            )


def plain(config):
    """The config of a study as plain dicts, with all defaults."""
    config = schema.plain(config)
    if not config.get('runs'):
        raise ValueError(
            'A study needs `runs`, as configs/quickstart.py has them; this config has '
            'none. A single run is for the command train.'
        )
    return schema.resolved(Config, config)


def study(config, workdir, dry_run=False):
    """Prepares rows, trains every member of the study, evaluates them, and reports.

    Returns the results. What is done already is not done again: the same call resumes,
    or only says that all is complete; with more runs or seeds, these are trained. Several
    workers may make it, with one folder or one address. With `dry_run` it says what would
    be trained, and writes nothing.
    """
    xla_flags.mend()
    with contextlib.ExitStack() as stack:
        with exits.refusals():
            opened = shared_runs.opened(workdir, members.TAKEN, finetuned.is_left_out)
            place = stack.enter_context(opened)
        return (_dry_run if dry_run else _study)(config, place)


def _study(config, place):
    began, workdir = time.monotonic(), place.folder
    with exits.refusals():
        config = plain(config)
        compilation.use_cache(config['compilation_cache'])
        asked = _asked(config, workdir)
        _prepare(config, place)
        # Now: what does not exist is not to be found out after training.
        probes = measure.probes(config, workdir / 'rows')
        finetuned.check(config['examine'])
        configs = {name: _matched(one, workdir / name) for name, one in asked.items()}
        _check(config, configs, workdir)
        marks = _enroll(asked, place, config['lease'])
        left = dict(configs)
        for name, mark in marks.items():
            if measure.is_known(config, workdir, name, mark):
                print(f'{name}: complete, by its result; its checkpoints are not here')
                del left[name]
    with training_work.Worker(place, config['lease'], config['attempts']) as worker:
        failed = training_work.train_all(left, worker)
        trained = {name: mark for name, mark in marks.items() if name not in failed}
        if not trained:
            raise _given_up(failed, marks)
        measuring = measure.Measuring(config, place, trained, probes)
        wanted = [members.UNTRAINED, *trained]
        untold = worker.share('measure', wanted, measuring.is_known, measuring.once)
    failed |= untold
    there = {name: mark for name, mark in trained.items() if name not in untold}
    if members.UNTRAINED in untold or not there:
        raise _given_up(failed, marks)
    results = cached_result.once(
        workdir / 'results.json',
        {'study': config['study'], 'members': there},
        lambda: measuring.results([*there]),
    )
    if config['examine']:
        results['examined'] = finetuned.run(config['examine'], place, there)
    made = {name: completion.matched(configs[name], workdir / name) for name in there}
    path = report.write(workdir, results, made, config['report'])
    place.send()
    print(f'\n{path}  (this call: {time.monotonic() - began:.0f} s)')
    if failed:
        raise _given_up(failed, marks)
    return results


def _matched(config, folder):
    """The config of a member with its baseline; one that is matched by time stays as it
    is, as another worker may be the one to take the time."""
    return config if config['baseline'] == 'time' else completion.matched(config, folder)


def _given_up(failed, marks):
    """The error that names what has failed; the same command helps, unless all of it can
    only happen again."""
    last = {name: text.strip().splitlines()[-1] for name, text in failed.items()}
    again = all(text.startswith(exits.__name__) for text in last.values())
    # As a traceback ends: with the kind of the error, which is for programs.
    said = [f'{name}: {_KIND.sub("", text)}' for name, text in last.items()]
    return (exits.Diverged if again else RuntimeError)(
        f'Of {len(marks)} runs, these have no results: {"; ".join(said)} The others are '
        'done. The same command tries these again.'
    )


def _prepare(config, place):
    """Makes the rows, once for all workers, or says that they are there."""
    rows = place.folder / 'rows'
    make = functools.partial(prepare.run, config, rows)
    is_there = (rows / row_folder.MANIFEST).is_file
    return place.once('prepare', is_there, make, config['lease']) or make()


def _enroll(asked, place, lease):
    """As members.enroll; one worker at a time writes."""
    is_done = functools.partial(members.is_enrolled, place.folder, asked)
    enroll = functools.partial(members.enroll, place.folder, asked)
    return place.once('enroll', is_done, enroll, lease) or enroll()


def _dry_run(config, place):
    """Prints the tree of the study, and returns it: [forecast.Member]."""
    with exits.refusals():
        config, workdir = plain(config), place.folder
        configs = _asked(config, workdir)
        members.enroll(workdir, configs, write=False)
        found = forecast.outlook(
            {name: one | {'prepare': config['prepare']} for name, one in configs.items()},
            workdir,
        )
        forecast.show(found)
        if (workdir / 'rows').is_dir():
            _check(config, configs, workdir)
        else:
            print('There are no rows yet: whether they are enough is checked with them.')
        for error in _not_there(config, configs):
            print(f'Not to be had here, so it would be refused: {error}')
    return found


def _not_there(config, configs):
    """What is wrong with tasks, whose files may be on another machine."""
    texts = [text for one in configs.values() for text in one['evaluate']['tasks']]
    looks = [lambda: finetuned.check(config['examine'])]
    looks += [lambda text=text: tasks.build(tasks.section_of(text)) for text in {*texts}]
    for look in looks:
        try:
            look()
        except (ValueError, OSError) as error:
            yield error


def _asked(config, workdir):
    """As members.configs. Raises ValueError for a run of which nothing could be told."""
    configs = members.configs(config, workdir / 'rows')
    for name, one in configs.items():
        try:
            if not one['checkpoint']['every']:
                raise ValueError(
                    'checkpoint.every=0 keeps no state, but a study reads the last one.'
                )
            time_to_target.check_run(config['report']['target'], one['evaluate'])
        except ValueError as error:
            raise ValueError(f'run {name!r}: {error}') from error
    return configs


def _check(config, configs, workdir):
    """Raises ValueError for a run or a sentence that would fail after others trained."""
    tokenizer = tokenizers.load(workdir / 'rows' / 'tokenizer.json')
    for item in config['study']['sentences']:
        maximum = config['data']['row_length'] - 2
        if (found := len(tokenizer.encode_masked(item[0]))) > maximum:
            raise ValueError(
                f'study.sentences: {item[0]!r} has {found} tokens, but the runs read '
                f'{maximum}: shorten it, or raise data.row_length.'
            )
    tried = []
    for name, run_config in configs.items():
        # Seeds of a run are alike.
        alike = {k: v for k, v in run_config.items() if k not in ('name', 'seed')}
        if alike in tried:
            continue
        tried.append(alike)
        try:
            whole = completion.completed(run_config, workdir / name)
            switches.check(assemble.make(whole, EVALUATIONS))
        except ValueError as error:
            raise ValueError(f'run {name!r}: {error}') from error
