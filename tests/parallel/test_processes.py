"""Multi-process jobs: data, losses, checkpoints and stopping agree."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from unittest import mock

import draws
import numpy as np
import psutil
import pytest
import stores
import tiny
from jax._src.distributed import State

from jepa_text.files import transfer
from jepa_text.parallel import exits
from jepa_text.parallel import processes as distributed
from jepa_text.running import download, metrics, mirror

PROGRAM = tiny.__file__
STEPS = 24


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('tiny')


def settings(folder, **changes):
    """Returns the metrics of a run; a forgotten step would show in its losses."""
    changes = {
        'mesh': dict(data=-1, fsdp=1, tensor=1),
        'phases': (dict(objective=dict(name='mlm', rate=0.3)),),
        'evaluate': dict(every=STEPS, rate=0.15, max_rows=12),
        'checkpoint': dict(every=100, keep=2),
        **changes,
    }
    (folder / 'changes.json').write_text(json.dumps(changes))
    return tiny.config(folder, **changes)


def pair(folder, *arguments, logs=(subprocess.PIPE, subprocess.PIPE)):
    """Starts a program in two processes, whose output goes to `logs`."""
    with socket.socket() as probe:
        probe.bind(('localhost', 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        'JAX_COORDINATOR_ADDRESS': f'localhost:{port}',
        'JAX_NUM_PROCESSES': '2',
        'JAX_DISABLE_MOST_OPTIMIZATIONS': '1',
        'JAX_COMPILATION_CACHE_DIR': str(folder / 'cache'),
        'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
        'XLA_FLAGS': '--xla_force_host_platform_device_count=2',
    }
    return [
        subprocess.Popen(
            [sys.executable, *arguments],
            env=environment | {'JAX_PROCESS_ID': str(index)},
            stdout=subprocess.PIPE if log == subprocess.PIPE else subprocess.DEVNULL,
            stderr=log,
            text=True,
        )
        for index, log in enumerate(logs)
    ]


def ends(processes):
    """Returns the exit codes and the output."""
    try:
        outputs = [process.communicate(timeout=300)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], outputs


def wait_for(workdir, step):
    """Waits until the run has written the metrics of a step."""
    path, deadline = Path(workdir) / metrics.FILE, time.monotonic() + 240
    while time.monotonic() < deadline:
        text = path.read_text() if path.exists() else ''
        if any(json.loads(x)['step'] >= step for x in text.splitlines() if x[-1] == '}'):
            return
        time.sleep(0.01)
    raise TimeoutError(f'{path} has no step {step}: {text[-300:]}')


@pytest.mark.slow
def test_two_processes_are_one_and_resume_each_other(folder, tmp_path):
    mesh = dict(data=-1, fsdp=1, tensor=2, dcn_data=2)
    config = settings(folder, mesh=mesh, steps=STEPS)
    alone = config | {'mesh': dict(data=-1, fsdp=1, tensor=1)}
    tiny.train(alone, tmp_path / 'straight')
    # One process, stopped early ...
    thread = threading.Thread(target=stop_me, args=(tmp_path / 'run', 1))
    thread.start()
    with pytest.raises(exits.Stopped, match='the state is saved'):
        tiny.train(alone, tmp_path / 'run')
    thread.join()
    first = stopped_at(tmp_path / 'run')
    # ... then two, one of which is stopped ...
    processes = pair(folder, PROGRAM, folder, tmp_path / 'run')
    try:
        wait_for(tmp_path / 'run', STEPS - 6)
        processes[1].send_signal(signal.SIGTERM)
        codes, outputs = ends(processes)
    finally:
        for process in processes:
            process.kill()
    assert codes == [exits.RESUME, exits.RESUME], outputs
    assert 'SIGTERM: the state will be saved' in outputs[1]
    assert first < STEPS - 6 <= stopped_at(tmp_path / 'run') < STEPS
    # ... and one again, until the end.
    tiny.train(alone, tmp_path / 'run')
    compare(tmp_path / 'run', tmp_path / 'straight')


@pytest.fixture(params=['file', pytest.param('s3', marks=pytest.mark.remote)])
def shelf(request, tmp_path, monkeypatch):
    """Yields an address to write to."""
    if request.param == 'file':
        yield f'file://{tmp_path}/shelf'
        return
    pytest.importorskip('moto')
    with stores.s3() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield f's3://{stores.BUCKET}/runs'


# Killed after step 6, between two checkpoints.
JOB = dict(
    steps=12,
    checkpoint=dict(every=4, keep=2),
    evaluate=dict(every=0, rate=0.15, max_rows=12),
    watchdog=dict(seconds=60, compile=180, pause=60),
)


@pytest.fixture(scope='module')
def straight(folder):
    """The folder of a run that two processes completed without interruption."""
    settings(folder, **JOB)
    codes, outputs = ends(pair(folder, PROGRAM, folder, folder / 'straight'))
    assert codes == [0, 0], outputs
    return folder / 'straight'


@pytest.mark.slow
def test_two_processes_share_a_run_at_an_address(
    folder, straight, tmp_path, shelf, monkeypatch
):
    """Killed and resumed elsewhere, it gives the same bits as in a local folder."""
    config = settings(folder, **JOB)
    monkeypatch.setenv('JEPA_TEXT_CACHE', str(tmp_path / 'first'))
    killed = pair(folder, PROGRAM, folder, f'{shelf}/run')
    try:
        wait_for(mirror.folder_of(f'{shelf}/run'), 6)
    finally:
        for process in killed:
            process.kill()
        ends(killed)
    assert download.steps(transfer.list_files(f'{shelf}/run'))[-1:] != [12]
    monkeypatch.setenv('JEPA_TEXT_CACHE', str(tmp_path / 'second'))
    codes, outputs = ends(pair(folder, PROGRAM, folder, f'{shelf}/run'))
    assert codes == [0, 0], outputs
    # One process on another machine finds them complete.
    monkeypatch.setenv('JEPA_TEXT_CACHE', str(tmp_path / 'third'))
    alone = config | {'mesh': dict(data=-1, fsdp=1, tensor=1)}
    copy = shutil.copytree(straight, tmp_path / 'straight')
    states = [tiny.train(alone, at) for at in (f'{shelf}/run', copy)]
    assert tiny.fingerprint(states[0]) == tiny.fingerprint(states[1])
    there = mirror.folder_of(f'{shelf}/run')
    np.testing.assert_equal(tiny.log(there), tiny.log(straight))


@pytest.mark.slow
def test_processes_without_a_shared_folder_are_rejected(folder, tmp_path):
    settings(folder)
    program = f"""
import os, runpy, sys
os.environ['JEPA_TEXT_CACHE'] = {str(tmp_path)!r} + '/' + os.environ['JAX_PROCESS_ID']
sys.argv = ['tiny', {str(folder)!r}, 'file://{tmp_path}/shelf/run']
from jepa_text.parallel import processes
processes._PATIENCE = 0.2
sys.path.insert(0, {str(Path(PROGRAM).parent)!r})
runpy.run_path({PROGRAM!r}, run_name='__main__')
"""
    codes, said = ends(pair(folder, '-c', program))
    assert codes == [1, 1], said
    assert 'does not see its copy' in said[1] and 'JEPA_TEXT_CACHE' in said[1]
    assert 'failed on process 1; see its log' in said[0]
    assert not (tmp_path / 'shelf').exists()


def stop_me(workdir, step):
    wait_for(workdir, step)
    os.kill(os.getpid(), signal.SIGTERM)


def stopped_at(workdir):
    complete = (Path(workdir) / 'checkpoints').glob('*/CHECKSUMS.json')
    return max(int(path.parent.name) for path in complete)


def compare(first, second):
    """Asserts that metrics are equal: counts exactly, losses to 1e-5."""
    logs = [tiny.log(workdir) for workdir in (first, second)]
    assert [line['step'] for line in logs[0]] == [line['step'] for line in logs[1]]
    for one, other in zip(*logs):
        assert one.keys() == other.keys()
        for key in ('train/tokens', 'train/masked_tokens'):
            assert one.get(key) == other.get(key)
        for key in one:
            np.testing.assert_allclose(one[key], other[key], rtol=1e-5, err_msg=key)


@pytest.mark.parametrize(
    ('environ', 'who'),
    [
        ({}, None),
        ({'JAX_COORDINATOR_ADDRESS': 'host:1'}, 'environment'),
        ({'SLURM_STEP_NODELIST': 'n[1-4]', 'SLURM_NTASKS': '4'}, 'slurm'),
        # A batch script without srun, and a single task.
        ({'SLURM_JOB_ID': '7', 'SLURM_NTASKS': '4'}, None),
        ({'SLURM_STEP_NODELIST': 'n1', 'SLURM_NTASKS': '1'}, None),
        ({'OMPI_COMM_WORLD_SIZE': '2'}, 'mpi'),
        ({'KUBERNETES_SERVICE_HOST': 'x', 'JOB_COMPLETION_INDEX': '0'}, 'kubernetes'),
        ({'KUBERNETES_SERVICE_HOST': 'x'}, None),
        ({'TPU_WORKER_HOSTNAMES': 'a,b'}, 'tpu'),
        ({'TPU_WORKER_HOSTNAMES': 'a'}, None),
        ({'TPU_WORKER_HOSTNAMES': 'a', 'MEGASCALE_COORDINATOR_ADDRESS': 'a'}, 'tpu'),
    ],
)
def test_launchers_are_detected(environ, who):
    assert distributed.launcher({'JAX_PLATFORMS': 'cpu', **environ}) == who


def test_an_unknown_choice_is_named():
    with pytest.raises(ValueError, match='auto, on, off'):
        distributed.start('yes')


@pytest.mark.parametrize('given', [{}, {'JAX_NUM_PROCESSES': 'two'}])
def test_an_incomplete_environment_is_rejected(given, monkeypatch):
    def initialize(num_processes=None, **_):
        if num_processes is None:
            raise ValueError('Number of processes must be defined.')

    updated = []
    monkeypatch.setattr('jax.distributed.initialize', initialize)
    monkeypatch.setattr('jax.config.update', lambda *setting: updated.append(setting))
    environ = {'JAX_COORDINATOR_ADDRESS': 'localhost:1', **given}
    with pytest.raises(ValueError, match='JAX_PROCESS_ID'):
        distributed.start('auto', environ)
    assert ('jax_enable_preemption_service', False) in updated


def slurm(tasks, node='0', rank='0'):
    """Returns the environment of a task of a SLURM job on two nodes of eight GPUs."""
    return {
        'SLURM_JOB_ID': '7',
        'SLURM_STEP_NODELIST': 'n[1-2]',
        'SLURM_NTASKS': '16',
        'SLURM_PROCID': '3',
        'SLURM_NODEID': node,
        'SLURM_LOCALID': rank,
        'SLURM_STEP_TASKS_PER_NODE': tasks,
    }


def mpi(ranks, rank='0'):
    return {
        'OMPI_MCA_orte_hnp_uri': '1531576320.0;tcp://10.96.0.1:34911',
        'OMPI_COMM_WORLD_SIZE': '16',
        'OMPI_COMM_WORLD_RANK': '3',
        'OMPI_COMM_WORLD_LOCAL_SIZE': ranks,
        'OMPI_COMM_WORLD_LOCAL_RANK': rank,
    }


EIGHT = {'CUDA_VISIBLE_DEVICES': '0,1,2,3,4,5,6,7'}
JAX = {'JAX_COORDINATOR_ADDRESS': 'n1:1', 'JAX_NUM_PROCESSES': '2', 'JAX_PROCESS_ID': '1'}


@pytest.mark.parametrize(
    ('environ', 'visible'),
    [
        (slurm('1(x2)'), 'all'),
        (slurm('1(x2)', node='1') | EIGHT, 'all'),
        (slurm('8(x2)', rank='5'), '5'),
        (slurm('8(x2)', node='1', rank='5') | EIGHT, '5'),
        (slurm('8,1', node='1'), 'all'),
        (slurm('8,1', rank='5'), '5'),
        # Each task sees only what was bound to it: --gpus-per-task=1, and =2.
        (slurm('8(x2)', rank='5') | {'CUDA_VISIBLE_DEVICES': '0'}, 'all'),
        (slurm('4(x2)', rank='3') | {'CUDA_VISIBLE_DEVICES': '6,7'}, 'all'),
        (slurm('1(x2)') | {'JAX_LOCAL_DEVICE_IDS': '2,3'}, '2,3'),
        (slurm('1(x2)') | JAX, 'all'),
        (JAX, 'all'),
        (mpi('1'), 'all'),
        (mpi('8', rank='5'), '5'),
        (mpi('8', rank='5') | {'CUDA_VISIBLE_DEVICES': '5'}, 'all'),
        # Under mpirun in a SLURM job, SLURM describes the daemons of Open MPI.
        (slurm('1(x2)') | mpi('8', rank='5'), '5'),
    ],
)
def test_the_only_process_of_a_node_uses_all_its_devices(environ, visible, monkeypatch):
    """What jax finds in the environment; only its connection is replaced."""
    for name in (*slurm(''), *mpi(''), *EIGHT, *JAX, 'JAX_LOCAL_DEVICE_IDS'):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    updated = {'jax_cuda_visible_devices': 'all'}
    monkeypatch.setattr('jax.config.update', updated.__setitem__)
    monkeypatch.setattr('jax._src.distributed.config.update', updated.__setitem__)
    monkeypatch.setattr('jax._src.distributed._jax', mock.MagicMock())
    monkeypatch.setattr('jax._src.distributed.global_state', state := State())
    monkeypatch.setattr('jax._src.xla_bridge.backends_are_initialized', lambda: False)
    distributed.start('auto', environ)
    assert state.process_id == int(environ.get('JAX_PROCESS_ID', 3))
    assert updated['jax_cuda_visible_devices'] == visible


@pytest.mark.parametrize(
    ('platform', 'environ', 'unused'),
    [
        ('gpu', {'CUDA_VISIBLE_DEVICES': '0,1,2,3'}, 0),
        ('gpu', EIGHT, 4),
        ('gpu', {}, 2),
        ('gpu', {'CUDA_VISIBLE_DEVICES': '0'}, 0),
        ('cpu', EIGHT, 0),
    ],
)
def test_unused_gpus_are_counted(platform, environ, unused, monkeypatch):
    """This process has four devices; its machine six GPUs."""
    monkeypatch.setattr('glob.glob', lambda pattern: ['/dev/nvidia0'] * 6)
    monkeypatch.setattr('jax.default_backend', lambda: platform)
    assert distributed.unused_gpus(environ) == unused


def test_a_single_process_needs_no_communication():
    with pytest.raises(KeyError), distributed.fail_together('this'):
        raise KeyError
    ran = []
    distributed.on_first(lambda: ran.append(1), 'this')
    distributed.check_equal('the rows', 'abc')
    vote = distributed.Vote()
    assert ran == [1] and [vote(False), vote(True), vote(False)] == [False, True, False]


# Errors of one process, the errors that all of them must raise, and a save of which only
# process 0 writes the manifest; written to a file, as other code writes to stdout.
QUARREL = """
    import json
    import pathlib
    import sys
    import flax.struct
    import jax
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec
    from jepa_text.files import checksums
    from jepa_text.parallel import exits
    from jepa_text.parallel import processes as distributed
    from jepa_text.running import checkpoint
    distributed.start()
    me, vote = jax.process_index(), distributed.Vote(lag=1)
    votes, errors, saves = [vote(me == 1 and call == 1) for call in range(4)], [], []
    config_error = exits.ConfigError('bad config')
    for error in (config_error, ValueError('of a library'), OSError('disk'), KeyError(1)):
        try:
            with distributed.fail_together('the test'):
                if me == 1:
                    raise error
        except Exception as raised:
            errors.append(f'{type(raised).__name__} {raised}')
    try:
        distributed.check_equal('The rows', f'rows of {me}')
    except ValueError as raised:
        errors.append(str(raised))
    @flax.struct.dataclass
    class State:
        step: jax.Array
    def state(step):
        mesh = jax.make_mesh((jax.device_count(),), ('all',))
        return State(jax.device_put(np.int32(step), NamedSharding(mesh, PartitionSpec())))
    def broken(folder):
        raise OSError(5, 'Input/output error')
    whole = checksums.write
    with checkpoint.Checkpointer(pathlib.Path(sys.argv[1], 'run')) as store:
        store.save(state(1), {}, wait=True)
        checksums.write = broken
        store.save(state(2), {})
        try:
            store.wait()
        except RuntimeError as raised:
            saves.append(str(raised))
        checksums.write = whole
        saves.append(store.last_step)
        store.save(state(2), {}, wait=True)
        saves.append(store.last_step)
    answer = dict(votes=votes, errors=errors, saves=saves)
    pathlib.Path(sys.argv[1], str(me)).write_text(json.dumps(answer))
"""


@pytest.fixture(scope='module')
def answers(folder, tmp_path_factory):
    """{'votes', 'errors', 'saves'} of each process of QUARREL."""
    place = tmp_path_factory.mktemp('quarrel')
    codes, outputs = ends(pair(folder, '-c', textwrap.dedent(QUARREL), str(place)))
    assert codes == [0, 0], outputs
    return [json.loads((place / name).read_text()) for name in ('0', '1')]


@pytest.mark.slow
def test_errors_and_votes_reach_all_processes(answers):
    assert [one['votes'] for one in answers] == [[False, False, True, False]] * 2
    first, second = (one['errors'] for one in answers)
    assert second[:4] == [
        'ConfigError bad config',
        'ValueError of a library',
        'OSError disk',
        'KeyError 1',
    ]
    assert [line.split()[0] for line in first[:4]] == [
        'ConfigError',
        *3 * ['RuntimeError'],
    ]
    assert all('failed on process 1' in line for line in first[:4])
    assert all('differ between process 0 and 1' in lines[4] for lines in (first, second))


@pytest.mark.parametrize(
    'ask',
    [
        lambda: distributed.on_first(str, 'inner'),
        lambda: distributed.check_equal('The rows', 'abc'),
        lambda: distributed.from_first(1),
        lambda: distributed.maximum(1),
        lambda: distributed.Vote()(False),
        lambda: distributed.fail_together('inner').__enter__(),
    ],
)
def test_communication_within_a_block_is_rejected(ask):
    with (
        pytest.raises(RuntimeError, match='within the block "outer"'),
        distributed.fail_together('outer'),
    ):
        ask()
    ask()  # outside of the block it works, even after an error within


def test_only_processes_py_communicates():
    package = Path(distributed.__file__).parents[1]
    talks = [
        path.relative_to(package).as_posix()
        for path in package.rglob('*.py')
        if 'multihost_utils' in path.read_text()
    ]
    assert talks == ['parallel/processes.py']


@pytest.mark.slow
def test_orbax_which_communicates_is_not_called_within_a_block(
    folder, tmp_path, monkeypatch
):
    from orbax.checkpoint._src.multihost import multihost

    met = []
    monkeypatch.setattr(
        multihost,
        'sync_global_processes',
        lambda *_, **__: met.append(distributed._BLOCK.get()),
    )
    short = dict(steps=2, evaluate=dict(every=0, rate=0.15, max_rows=12))
    config = settings(folder, **short, checkpoint=dict(every=1, keep=2))
    tiny.train(config, tmp_path / 'first')
    begins = config | {'init_from': dict(path=str(tmp_path / 'first')), 'model': {}}
    tiny.train(begins, tmp_path / 'second')
    tiny.train(begins, tmp_path / 'second')
    assert met and set(met) == {''}


@pytest.mark.slow
def test_a_save_that_fails_on_one_process_fails_on_all(answers):
    """Both must report it in the same call."""
    first, second = (one['saves'] for one in answers)
    assert 'Input/output error' in first[0] and 'failed on another process' in second[0]
    assert first[1:] == second[1:] == [1, 2]


CONFIG = """
    import json
    from pathlib import Path
    from ml_collections import ConfigDict
    def get_config():
        return ConfigDict(json.loads(Path(__file__).with_suffix('.json').read_text()))
"""


@pytest.mark.slow
def test_a_killed_job_resumes_with_the_same_result(folder, straight, tmp_path):
    victim = draws.seed() % 2
    config = settings(folder, **JOB)
    path = tmp_path / 'settings.py'
    path.write_text(textwrap.dedent(CONFIG))
    path.with_suffix('.json').write_text(json.dumps(config))
    words = ['supervise', 'train', f'--config={path}', f'--workdir={tmp_path / "run"}']
    logs = [(tmp_path / f'{index}.txt').open('w') for index in (0, 1)]
    job = pair(folder, '-m', 'jepa_text.main', *words, logs=logs)
    try:
        wait_for(tmp_path / 'run', 6)
        (child,) = psutil.Process(job[victim].pid).children()
        child.send_signal(signal.SIGKILL)
        codes = [process.wait(timeout=400) for process in job]
    finally:
        outputs = [(tmp_path / f'{i}.txt').read_text() for i in (0, 1)]
        for process in job:
            if process.poll() is None:
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
            process.kill()
            process.wait()
    assert codes == [exits.DONE, exits.DONE], outputs
    assert 'starting again' in outputs[victim]
    np.testing.assert_equal(tiny.log(tmp_path / 'run'), tiny.log(straight))
