"""What the tasks of a study do: check all of it, train a member, measure a member.

They run in whichever process the engine chooses, with the devices of the members; the
driver of a study needs none. A member with steps in common with an earlier one starts
from the checkpoint of that one, its trunk, which is kept.
"""

import contextlib
import time
from pathlib import Path

from jepa_text.evaluation import tasks
from jepa_text.evaluation.during_training import EVALUATIONS
from jepa_text.parallel import exits, signals
from jepa_text.running import budget, compilation, restore, workdir
from jepa_text.study import budgets, finetuned, measure, members, tree
from jepa_text.training import completion, switches
from jepa_text.training import recipe as recipes
from jepa_text.training import train as training

_WAIT = 0.5  # seconds between polls


def check(config, folder):
    """Returns {'configs', 'fingerprints', 'to_train': [(name, trunk or None, FLOPs)]} of
    the members of a study; writes study.json.

    Raises exits.ConfigError for a member, probe or exam that would fail later.
    """
    folder = Path(folder)
    with exits.config_errors():
        configs = members.configs(config, folder / 'rows')
        measure.probes(config, folder / 'rows')
        filling = finetuned.check(config['examine'])
        whole = completed(configs, folder)
        check_runs(config, whole, filling)
        fingerprints = members.enroll(folder, configs)
        ended = {n for n, own in whole.items() if members.finished(folder / n, own)}
        by_result = {
            name
            for name, mark in fingerprints.items()
            if measure.is_known(config, folder, name, mark)
        }
    saved = saved_steps(configs, folder)
    trunks = tree.trunks(courses(whole), saved, ended | by_result)
    keep_at_steps = {name: set() for name in configs}
    for other, step in filter(None, trunks.values()):
        keep_at_steps[other].add(step)
    for name in ended:
        print(f'{name}: complete, {budget.total_steps(whole[name]):,} steps')
    for name in by_result - ended:
        print(f'{name}: complete by its result; it has no checkpoints here')
    left = {n: own for n, own in whole.items() if n not in ended | by_result}
    costs = {
        name: float(one.flops(one.steps) - one.flops(max(begun)))
        for name, one in budgets.of_runs(left).items()
        for begun in [[*saved[name], *(trunks[name] or ())[1:], 0]]
    }
    return {
        'configs': {
            name: with_milestones(own, keep_at_steps[name]) for name, own in whole.items()
        },
        'fingerprints': fingerprints,
        'to_train': [(name, trunks[name], costs[name]) for name in left],
    }


def train(name, config, folder, trunk):
    """Trains or resumes a member; a new one starts from `trunk` (name, step), or from an
    earlier checkpoint of it if that one is damaged. Raises as train.train."""
    own = Path(folder, name)
    while workdir.is_locked(own):  # by a process whose driver was killed, and which saves
        time.sleep(_WAIT)
    if trunk:
        other, step = trunk
        steps = Path(folder, other, 'checkpoints')
        if newest := restore.newest_good(steps, step):
            print(f'{name}: continues from {other} after {newest[0]:,} steps')
            trunk = Path(folder, other), newest[0]
        else:
            print(f'{name}: {other} has no good checkpoint up to step {step:,} any more.')
            trunk = None
    with signals.StopRequests() as requests:
        training.train(config, own, EVALUATIONS, trunk=trunk)
        if requests.requested:  # in the last step
            raise exits.Stopped('stopped as requested; the same command resumes.')


def measure_member(name, config, folder, fingerprint, first):
    """Measures a member, or the untrained model of the member `first`."""
    compilation.use_cache()
    measure.once(name, config, Path(folder), fingerprint, first)


def completed(configs, folder, mesh=lambda config: None):
    """Returns the configs with the models of their starts and their baselines, which
    `mesh` makes the devices of a config for, by default those of this job."""
    started = {n: completion.with_init_from(c, folder / n) for n, c in configs.items()}
    return {n: completion.with_baseline(c, mesh(c)) for n, c in started.items()}


def check_runs(config, configs, filling):
    """Raises ValueError for a run that would only fail after training."""

    @tree.shared
    def check_run(own):
        recipe = recipes.make(own, EVALUATIONS)
        switches.check(recipe)
        finetuned.check_run(config['examine'], filling, recipe)

    for name, own in configs.items():
        with named(name):
            check_run(own)


def missing_tasks(config, configs):
    """Returns ([error of a missing task], result of finetuned.check, empty after one)."""
    texts = {text for one in configs.values() for text in one['evaluate']['tasks']}
    missing, filling = [], set()
    checks = [lambda: filling.update(finetuned.check(config['examine']))]
    checks += [lambda text=text: tasks.build(tasks.section_of(text)) for text in texts]
    for one in checks:
        try:
            one()
        except (ValueError, OSError) as error:
            missing.append(error)
    return missing, filling


def courses(configs):
    """Returns {name: tree.Course} of completed configs, on this machine's devices."""
    outline = tree.shared(recipes.outline)
    return {name: tree.course(own, outline(own)) for name, own in configs.items()}


def saved_steps(names, folder):
    """Returns {name: steps of its checkpoints} of members."""
    return {name: restore.steps(folder / name / 'checkpoints') for name in names}


def with_milestones(config, steps):
    """Returns the config of a run that also keeps its checkpoints at these steps."""
    section = config['checkpoint']
    steps = sorted({*section['keep_at_steps'], *steps})
    return config | {'checkpoint': section | {'keep_at_steps': steps}}


@contextlib.contextmanager
def named(name):
    """Adds the name of a run to a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f'run {name!r}: {error}') from error
