"""The engine runs tasks in the order of their dependencies, and isolates failures."""

import os
import signal
import sys

import children
import engine_tasks
import pytest

from jepa_text import engine
from jepa_text.parallel import exits

HERE, FRESH = engine.Options(), engine.Options(jobs=2)


def task(name, function, *arguments, **keywords):
    return engine.Task(name, f'engine_tasks.{function}', list(arguments), **keywords)


def run(workdir, *tasks, options=HERE):
    with engine.opened(options, workdir) as started:
        return started(tasks)


def test_fresh_processes_keep_the_order_and_write_logs(tmp_path, monkeypatch):
    """`x` ends once a later task has run; `y` waits for it in spite of a free process."""
    monkeypatch.setenv('SLURM_NTASKS', '2')
    x, y = ('long ' * 60 + end for end in 'xy')
    started, file, asked = (str(tmp_path / name) for name in ('started', 'file', 'asked'))
    outcomes = run(
        tmp_path,
        task(x, 'sleep_until', started, file, asked),
        task(y, 'note', file, 'y', after=(x,)),
        task('fails', 'fail', 'disk'),
        task('b', 'environment', 'SLURM_NTASKS', 'COLOR', variables={'COLOR': 'red'}),
        task('free', 'note', file, 'free'),
        options=FRESH,
    )
    assert outcomes[y].value == ['free', 'y'] and outcomes['b'].value == [None, 'red']
    assert (tmp_path / 'started').read_text() != str(os.getpid())
    assert str(outcomes['fails'].error) == 'OSError: disk is wrong'
    log = (tmp_path / 'logs' / 'fails.log').read_text()
    assert len(list((tmp_path / 'logs').glob('long-*.log'))) == 2
    assert 'before the failure' in log and 'Traceback' in log


@pytest.mark.parametrize('options', [HERE, FRESH], ids=['here', 'fresh'])
def test_a_failure_stops_no_other_task(tmp_path, options):
    outcomes = run(
        tmp_path,
        task('bad', 'fail', 'diverged'),
        task('other', 'add', 1, 2),
        task('child', 'add', 1, after=('bad',)),
        task('last', 'add', 3, after=('other', 'child')),
        options=options,
    )
    assert isinstance(outcomes['bad'].error, exits.Diverged)
    assert [outcomes[name].value for name in ('other', 'child', 'last')] == [3, 1, 3]
    assert options is FRESH or list(outcomes) == ['bad', 'other', 'child', 'last']


def test_a_lost_process_is_started_again_but_not_for_ever(tmp_path):
    (outcome,) = run(
        tmp_path, task('a', 'die_once', str(tmp_path / 'marker')), options=FRESH
    ).values()
    assert outcome.value == 'alive'
    options = engine.Options(jobs=2, retries=0)
    (outcome,) = run(
        tmp_path, task('a', 'die_once', str(tmp_path / 'other')), options=options
    ).values()
    assert 'its process ended with SIGKILL' in str(outcome.error)


@pytest.mark.parametrize(
    'tasks, says',
    [
        ([task('a', 'add'), task('a', 'add')], "'a' must be unique"),
        ([task('a', 'add', after=('b',)), task('b', 'add')], 'of an earlier task'),
        ([task('a', 'add', after=('a',))], 'of an earlier task'),
    ],
)
def test_invalid_tasks_are_refused(tmp_path, tasks, says):
    with pytest.raises(ValueError, match=says):
        run(tmp_path, *tasks)


def test_arguments_and_results_are_plain_on_every_engine(tmp_path):
    given = task('a', 'note', str(tmp_path / 'file'), (1, 2))
    bad = task('b', 'note', tmp_path, 'a path is not plain')
    for options in (HERE, FRESH):
        outcomes = run(tmp_path / 'out', given, options=options)
    assert outcomes['a'].value == ['[1,', '2]', '[1,', '2]']
    assert 'not JSON serializable' in str(run(tmp_path, bad)['b'].error)


def test_a_second_driver_is_refused_with_the_name_of_the_first(tmp_path):
    with (
        engine.opened(HERE, tmp_path),
        pytest.raises(RuntimeError, match=f'in use by process {os.getpid()} on '),
        engine.opened(FRESH, tmp_path),
    ):
        pass
    with engine.opened(HERE, tmp_path):  # the lock is free again
        pass


DRIVER = """
import json, sys
from jepa_text import engine
with engine.opened(engine.Options(jobs=2), sys.argv[1]) as run:
    run([engine.Task('a', 'engine_tasks.sleep_until', sys.argv[2:])])
"""


def test_a_process_that_is_lost_before_it_reads_its_arguments(tmp_path, monkeypatch):
    """They are longer than what a pipe holds."""
    monkeypatch.setattr(engine, '_PROGRAM', 'import os; os.kill(os.getpid(), 9)')
    options = engine.Options(jobs=2, retries=1)
    (outcome,) = run(tmp_path, task('a', 'add', 'x' * 200_000), options=options).values()
    assert str(outcome.error).startswith('its process ended with SIGKILL')


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGKILL])
def test_tasks_are_asked_to_stop_with_their_driver(tmp_path, number):
    """Whether it is asked to stop, or killed; then another driver may begin."""
    files = [str(tmp_path / name) for name in ('started', 'end', 'asked')]
    path = os.pathsep.join([*sys.path, os.path.dirname(engine_tasks.__file__)])
    env = {'PYTHONPATH': path}
    with children.started('-c', DRIVER, tmp_path / 'out', *files, env=env) as driver:
        children.until(lambda: os.path.exists(files[0]))
        driver.send_signal(number)
        _, said = driver.communicate(timeout=60)
    assert children.until(lambda: os.path.exists(files[2]))
    assert number == signal.SIGKILL or 'the same command resumes' in said
    assert run(tmp_path / 'out', task('b', 'add', 1))['b'].value == 1


def test_progress_names_each_task(tmp_path, capsys):
    seen = []
    with engine.opened(HERE, tmp_path) as started:
        started([task('a', 'add', 1)], lambda *end: seen.append(end))
        started([task('b', 'add', 1), task('c', 'fail', 'config')])
    assert seen == [('a', engine.Outcome(1))]
    said = capsys.readouterr().err.splitlines()
    assert {'b: done', 'c: failed: config is wrong'} < {*said}
    assert said[-1] == 'b 2/2  100%  0:00 elapsed'


def test_ray_is_asked_for_by_name_if_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, 'ray', None)
    with (
        pytest.raises(ModuleNotFoundError, match=r"pip install 'jepa-text\[ray\]'"),
        engine.opened(engine.Options(name='ray'), tmp_path),
    ):
        pass
