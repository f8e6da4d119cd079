"""On a real Ray cluster of two nodes, whatever is killed, a study is the local one."""

import os
import random
import signal
import threading
import time

import children
import draws
import engine_tasks
import psutil
import pytest
from test_engine import task
from test_work import config, outcome, start

from jepa_text import engine
from jepa_text.parallel import exits
from jepa_text.study import study

pytestmark = pytest.mark.ray
RAY = engine.Options(name='ray')
TESTS = os.path.dirname(engine_tasks.__file__)


@pytest.fixture(scope='module')
def cluster():
    """A head and a second node of two cores each, in a SLURM job of two tasks."""
    from ray import cluster_utils

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('SLURM_NTASKS', '2')
        patch.setenv('SLURM_STEP_NODELIST', 'a,b')
        patch.setenv('PYTHONPATH', TESTS, prepend=os.pathsep)
        made = cluster_utils.Cluster(True, head_node_args=dict(num_cpus=2))
        made.add_node(num_cpus=2)
        patch.setenv('RAY_ADDRESS', made.address)
        yield made
        made.shutdown()


def tasks_of(process):
    """Returns the processes of tasks below a process."""
    return [
        child
        for child in psutil.Process(process).children(recursive=True)
        if any('engine.main()' in word for word in child.cmdline())
    ]


def test_tasks_end_as_local_ones_do(cluster, tmp_path):
    """With the same environment, results, errors and logs."""
    names = ('SLURM_NTASKS', 'SLURM_STEP_NODELIST', 'OMP_NUM_THREADS', 'HOME')
    tasks = [task(name, 'environment', name) for name in names]
    tasks += [
        task('red', 'environment', 'COLOR', variables={'COLOR': 'red'}),
        task('raises', 'fail', 'disk'),
        task('diverged', 'fail', 'diverged'),
        task('child', 'add', 1, after=('raises',)),
        task('killed', 'die_once', 'marker'),
        task('after', 'add', 1, 2, after=('killed',)),
    ]
    found = []
    for place, options in (('ray', RAY), ('local', engine.Options(jobs=2))):
        (tmp_path / place).mkdir()
        tasks[-2].arguments[0] = str(tmp_path / place / 'marker')
        with engine.opened(options, tmp_path / place) as run:
            outcomes = run(tasks)
        found.append({name: (x.value, str(x.error)) for name, x in outcomes.items()})
        assert 'Traceback' in (tmp_path / place / 'logs' / 'raises.log').read_text()
        assert isinstance(outcomes['diverged'].error, exits.Diverged)
    assert found[0] == found[1]
    assert found[0]['SLURM_NTASKS'] == ([None], 'None')


def test_a_task_that_no_node_can_run_and_a_second_driver_are_refused(
    cluster, tmp_path, monkeypatch
):
    with (
        engine.opened(engine.Options(name='ray', gpus=16), tmp_path) as run,
        pytest.raises(exits.ConfigError, match='needs 16 GPUs, but no node .* than 0'),
    ):
        run([task('a', 'add')])
    monkeypatch.setattr(engine, '_PATIENCE', 0.5)
    with (
        engine.opened(RAY, tmp_path),
        pytest.raises(RuntimeError, match=f'in use by process {os.getpid()} on'),
        engine.opened(RAY, tmp_path),
    ):
        pass


DRIVER = """
import sys
from jepa_text import engine
with engine.opened(engine.Options(name='ray'), sys.argv[1]) as run:
    run([engine.Task('a', 'engine_tasks.sleep_until', sys.argv[2:])])
"""


def test_after_a_killed_driver_another_one_goes_on(cluster, tmp_path):
    files = [str(tmp_path / name) for name in ('started', 'end', 'asked')]
    with children.started('-c', DRIVER, tmp_path, *files) as driver:
        children.until(lambda: driver.poll() is None and os.path.exists(files[0]))
    with engine.opened(RAY, tmp_path) as run:
        assert run([task('b', 'add', 1)])['b'].value == 1
    # Its task ends, too.
    with open(files[0]) as file:
        number = int(file.read())
    children.until(lambda: not psutil.pid_exists(number))


def test_a_study_whose_processes_and_a_node_are_killed_equals_the_local_one(
    cluster, tmp_path
):
    rng, runs = random.Random(draws.seed()), ('clm', 'split', 'mlm')
    made = config(tmp_path)
    made['runs'] = [run for run in made['runs'] if run['name'] in runs]
    alone = start(tmp_path, made, tmp_path / 'alone')
    _, said = alone.communicate(timeout=300)
    assert alone.returncode == 0, said
    out, killed = tmp_path / 'out', []

    def kill():
        while not list(out.glob('logs/train-*')):
            time.sleep(0.1)
        time.sleep(rng.uniform(0, 4))
        if running := tasks_of(os.getpid()):
            os.kill(rng.choice(running).pid, signal.SIGKILL)
            killed.append('task')
        time.sleep(rng.uniform(0, 4))
        cluster.remove_node(list(cluster.worker_nodes)[0], allow_graceful=False)
        killed.append('node' if not (out / 'report.html').exists() else 'too late')

    thread = threading.Thread(target=kill)
    thread.start()
    study.study(made | {'engine': {'name': 'ray'}}, out)
    thread.join()
    assert killed[-1] == 'node'
    assert outcome(out, runs) == outcome(tmp_path / 'alone', runs)
