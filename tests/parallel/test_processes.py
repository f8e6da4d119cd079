"""Multi-process jobs: data, losses, checkpoints and stopping agree."""

import contextlib
import json
import os
import signal
import socket
import threading
from pathlib import Path
from unittest import mock

import children
import draws
import pytest
import tiny
from jax._src.distributed import State
from numpy.testing import assert_allclose, assert_equal

from jepa_text.parallel import exits, processes
from jepa_text.running import metrics, places, restore

PROGRAM = tiny.__file__
STEPS = 24


def settings(folder, **changes):
    """Returns the metrics of a run; a forgotten step would show in its losses."""
    changes = {
        'mesh': dict(data=-1, fsdp=1, tensor=1),
        'phases': tiny.phases('mlm', rate=0.3),
        'evaluate': dict(every_steps=STEPS, rate=0.15, max_rows=12),
        'checkpoint': dict(every_steps=100, keep=2),
        **changes,
    }
    (folder / 'changes.json').write_text(json.dumps(changes))
    return tiny.config(folder, **changes)


@contextlib.contextmanager
def pair(folder, *arguments):
    """Yields the two processes of a program, which are killed at the end."""
    with socket.socket() as probe:
        probe.bind(('localhost', 0))
        port = probe.getsockname()[1]
    environment = {
        'JAX_COORDINATOR_ADDRESS': f'localhost:{port}',
        'JAX_NUM_PROCESSES': '2',
        'JAX_DISABLE_MOST_OPTIMIZATIONS': '1',
        'JAX_COMPILATION_CACHE_DIR': str(folder / 'cache'),
        'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
        'XLA_FLAGS': '--xla_force_host_platform_device_count=2',
    }
    with contextlib.ExitStack() as job:
        own = [environment | {'JAX_PROCESS_ID': number} for number in '01']
        yield [job.enter_context(children.started(*arguments, env=env)) for env in own]


def ends(job):
    """Returns the exit codes and the output."""
    outputs = [process.communicate(timeout=300)[1] for process in job]
    return [process.returncode for process in job], outputs


def completed(folder, *arguments):
    """Asserts that a program ends well in two processes."""
    with pair(folder, *arguments) as job:
        codes, outputs = ends(job)
    assert codes == [exits.DONE, exits.DONE], outputs


def wait_for(workdir, step):
    """Waits until the run has written the metrics of a step."""
    path = Path(workdir) / metrics.FILE

    def has_step():
        text = path.read_text() if path.exists() else ''
        complete = (x for x in text.splitlines() if x[-1] == '}')
        return any(json.loads(line)['step'] >= step for line in complete)

    children.until(has_step, 240)


@pytest.mark.slow
def test_two_processes_are_one_and_resume_each_other(folder, tmp_path):
    mesh = dict(data=-1, fsdp=1, tensor=2)
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
    with pair(folder, PROGRAM, folder, tmp_path / 'run') as job:
        wait_for(tmp_path / 'run', STEPS - 6)
        job[1].send_signal(signal.SIGTERM)
        codes, outputs = ends(job)
    assert codes == [exits.RESUME, exits.RESUME], outputs
    assert 'SIGTERM: the state will be saved' in outputs[1]
    assert first < STEPS - 6 <= stopped_at(tmp_path / 'run') < STEPS
    # ... and one again, until the end.
    tiny.train(alone, tmp_path / 'run')
    compare(tmp_path / 'run', tmp_path / 'straight')


# Killed after step 6, between two checkpoints.
JOB = dict(
    steps=12,
    checkpoint=dict(every_steps=4, keep=2),
    evaluate=dict(every_steps=0, rate=0.15, max_rows=12),
    watchdog=dict(seconds=60, pause_seconds=180),
)


@pytest.fixture(scope='module')
def straight(folder):
    """The folder of a run that two processes completed without interruption."""
    settings(folder, **JOB)
    completed(folder, PROGRAM, folder, folder / 'straight')
    return folder / 'straight'


@pytest.mark.remote
def test_two_processes_share_a_run_in_a_bucket(folder, straight, bucket):
    """Killed and resumed, it gives the same bits as in a local folder."""
    settings(folder, **JOB)
    steps = f'{bucket}/run/checkpoints'
    with pair(folder, PROGRAM, folder, f'{bucket}/run') as killed:
        children.until(lambda: restore.steps(steps), 240)
    ends(killed)
    assert 0 < max(restore.steps(steps)) < 12
    completed(folder, PROGRAM, folder, f'{bucket}/run')
    ((step, state), (_, wanted)) = (
        restore.newest(at, lambda at, step: restore.record(restore.folder_of(at, step)))
        for at in (steps, straight / 'checkpoints')
    )
    assert step == 12 and state.sums == wanted.sums
    there = places.model_folder('the run', f'{bucket}/run')
    assert_equal(tiny.log(there), tiny.log(straight))


def stop_me(workdir, step):
    wait_for(workdir, step)
    os.kill(os.getpid(), signal.SIGTERM)


def stopped_at(workdir):
    return max(restore.steps(Path(workdir, 'checkpoints')))


def compare(first, second):
    """Asserts that metrics are equal: counts exactly, losses to 1e-5."""
    logs = [tiny.log(workdir) for workdir in (first, second)]
    assert [line['step'] for line in logs[0]] == [line['step'] for line in logs[1]]
    for one, other in zip(*logs):
        assert one.keys() == other.keys()
        for key in ('train/tokens', 'train/masked_tokens'):
            assert one.get(key) == other.get(key)
        for key in one:
            assert_allclose(one[key], other[key], rtol=1e-5, err_msg=key)


@pytest.mark.parametrize(
    'environ, is_of_job',
    [
        ({}, False),
        ({'JAX_COORDINATOR_ADDRESS': 'host:1'}, True),
        ({'SLURM_STEP_NODELIST': 'n[1-4]', 'SLURM_NTASKS': '4'}, True),
        # A batch script without srun, and a single task.
        ({'SLURM_JOB_ID': '7', 'SLURM_NTASKS': '4'}, False),
        ({'SLURM_STEP_NODELIST': 'n1', 'SLURM_NTASKS': '1'}, False),
        ({'OMPI_COMM_WORLD_SIZE': '2'}, True),
        ({'KUBERNETES_SERVICE_HOST': 'x', 'JOB_COMPLETION_INDEX': '0'}, True),
        ({'KUBERNETES_SERVICE_HOST': 'x'}, False),
        ({'TPU_WORKER_HOSTNAMES': 'a,b'}, True),
        ({'TPU_WORKER_HOSTNAMES': 'a'}, False),
        ({'TPU_WORKER_HOSTNAMES': 'a', 'MEGASCALE_COORDINATOR_ADDRESS': 'a'}, True),
    ],
)
def test_launchers_are_detected(environ, is_of_job):
    assert processes.is_of_job({'JAX_PLATFORMS': 'cpu', **environ}) == is_of_job


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
        processes.start('auto', environ)
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
    'environ, visible',
    [
        (slurm('1(x2)'), 'all'),
        (slurm('1(x2)', node='1') | EIGHT, 'all'),
        (slurm('8(x2)', rank='5'), '5'),
        (slurm('8(x2)', node='1', rank='5') | EIGHT, '5'),
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
    processes.start('auto', environ)
    assert state.process_id == int(environ.get('JAX_PROCESS_ID', 3))
    assert updated['jax_cuda_visible_devices'] == visible


# Errors of one process, the errors that all of them must raise, a save that one process
# cannot finish, and a step of which one process cannot read its part; written to a file,
# as other code writes to stdout.
QUARREL = """
    import json
    import pathlib
    import sys
    import flax.struct
    import jax
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec
    import orbax.checkpoint as ocp
    from jepa_text.parallel import exits
    from jepa_text.parallel import processes
    from jepa_text.running import checkpoint
    processes.start()
    me, vote = jax.process_index(), processes.Vote(lag=1)
    votes, errors, saves = [vote(me == 1 and call == 1) for call in range(4)], [], []
    config_error = exits.ConfigError('bad config')
    for error in (config_error, ValueError('of a library'), OSError('disk'), KeyError(1)):
        try:
            with processes.fail_together('the test'):
                if me == 1:
                    raise error
        except Exception as raised:
            errors.append(f'{type(raised).__name__} {raised}')
    try:
        processes.check_equal('The rows', f'rows of {me}')
    except ValueError as raised:
        errors.append(str(raised))
    @flax.struct.dataclass
    class State:
        step: jax.Array
    def state(step):
        mesh = jax.make_mesh((jax.device_count(),), ('all',))
        return State(jax.device_put(np.int32(step), NamedSharding(mesh, PartitionSpec())))
    def broken(*_, **__):
        raise OSError(5, 'Input/output error')
    def shapes(step, _):
        one = state(step).step
        return State(jax.ShapeDtypeStruct((), one.dtype, sharding=one.sharding))
    temporary = ocp.path.atomicity.AtomicRenameTemporaryPath
    checkpoint._TIMEOUT = 8
    read = ocp.PyTreeCheckpointHandler.restore
    def once(*given, **options):
        ocp.PyTreeCheckpointHandler.restore = read
        raise ValueError('DATA_LOSS: cut')
    try:
        with checkpoint.Checkpointer(pathlib.Path(sys.argv[1], 'run')) as store:
            store.save(state(1), {}, wait=True)
            store.save(state(2), {}, wait=True)
            saves.append(store.last_step)
            if me == 1:
                ocp.PyTreeCheckpointHandler.restore = once
            saves.append(int(store.restore(shapes)[0].step))
            temporary.finalize = broken
            store.save(state(2), {})
            store.wait()
    except RuntimeError as raised:
        saves.append(str(raised))
    answer = dict(votes=votes, errors=errors, saves=saves)
    pathlib.Path(sys.argv[1], str(me)).write_text(json.dumps(answer))
"""


@pytest.fixture(scope='module')
def answers(folder, tmp_path_factory):
    """{'votes', 'errors', 'saves'} of each process of QUARREL."""
    place = tmp_path_factory.mktemp('quarrel')
    completed(folder, '-c', QUARREL, place)
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
        lambda: processes.on_first(str, 'inner'),
        lambda: processes.check_equal('The rows', 'abc'),
        lambda: processes.from_first(1),
        lambda: processes.maximum(1),
        lambda: processes.Vote()(False),
        lambda: processes.fail_together('inner').__enter__(),
    ],
)
def test_communication_within_a_block_is_rejected(ask):
    with (
        pytest.raises(RuntimeError, match='within the block "outer"'),
        processes.fail_together('outer'),
    ):
        ask()
    ask()  # outside of the block it works, even after an error within


@pytest.mark.slow
def test_orbax_which_communicates_is_not_called_within_a_block(
    folder, tmp_path, monkeypatch
):
    from orbax.checkpoint._src.multihost import multihost

    met = []
    monkeypatch.setattr(
        multihost,
        'sync_global_processes',
        lambda *_, **__: met.append(processes._BLOCK.get()),
    )
    short = dict(steps=2, evaluate=dict(every_steps=0, rate=0.15, max_rows=12))
    config = settings(folder, **short, checkpoint=dict(every_steps=1, keep=2))
    tiny.train(config, tmp_path / 'first')
    begins = config | {'init_from': dict(path=str(tmp_path / 'first')), 'model': {}}
    tiny.train(begins, tmp_path / 'second')
    tiny.train(begins, tmp_path / 'second')
    assert met and set(met) == {''}


@pytest.mark.slow
def test_saves_and_reads_that_fail_on_one_process_fail_on_all(answers):
    for *steps, error in (one['saves'] for one in answers):
        # Of what one process cannot read, both take the step before.
        assert steps == [2, 1]
        assert 'Step 2 could not be saved' in error


@pytest.mark.long
def test_a_killed_job_resumes_with_the_same_result(folder, straight, tmp_path):
    settings(folder, **JOB)
    victim = draws.seed() % 2
    with pair(folder, PROGRAM, folder, tmp_path / 'run') as job:
        wait_for(tmp_path / 'run', 6)
        job[victim].kill()
        codes, outputs = ends(job)
    # The other process ends by itself, with a code that says that a retry may succeed.
    assert codes[1 - victim] not in (exits.DONE, exits.USAGE, exits.RESUME), outputs
    completed(folder, PROGRAM, folder, tmp_path / 'run')
    assert_equal(tiny.log(tmp_path / 'run'), tiny.log(straight))
