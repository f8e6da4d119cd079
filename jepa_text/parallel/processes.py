"""Communication between the processes of a multi-process job.

Every process of a job runs the same program. What only one of them notices (a signal, a
full disk, an invalid config) must become known to all, or the others wait for it forever.

All communication goes through this module. None of it may happen inside a `fail_together`
block: a process that fails there before it communicates would leave the block, and the
others would take its next message for the reply to a different one.
"""

import collections
import contextlib
import contextvars
import glob
import importlib.util
import os
import re
import zlib

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jepa_text.parallel import exits

# Description of the `fail_together` block that this thread is in; '' outside.
_BLOCK = contextvars.ContextVar('_BLOCK', default='')


def start(choice='auto', environ=os.environ):
    """Joins the other processes of this job, if any. Must be called before all else.

    'auto' looks for JAX_COORDINATOR_ADDRESS (with JAX_NUM_PROCESSES and JAX_PROCESS_ID),
    SLURM, Open MPI, Kubernetes and TPU pods; 'on' requires other processes; 'off' ignores
    them. The only process of a node uses all devices that it sees. Raises ValueError if
    the environment is incomplete.
    """
    if choice == 'off' or jax.distributed.is_initialized():
        return
    if choice == 'auto' and not is_of_job(environ):
        return
    # The only implementation that lets CPU processes compute together.
    jax.config.update('jax_cpu_collectives_implementation', 'gloo')
    # The service would intercept SIGTERM, but not SIGINT: see signals.py.
    jax.config.update('jax_enable_preemption_service', False)
    # jax finds the others by itself.
    variables = {'num_processes': 'JAX_NUM_PROCESSES', 'process_id': 'JAX_PROCESS_ID'}
    try:
        jax.distributed.initialize(
            **{key: int(environ[v]) for key, v in variables.items() if v in environ},
            local_device_ids=_local_device_ids(environ),
        )
    except (ValueError, TypeError) as error:
        raise ValueError(
            'The environment is not sufficient to join the processes of a job '
            f'({error}). Set JAX_COORDINATOR_ADDRESS=host:port, JAX_NUM_PROCESSES and '
            'JAX_PROCESS_ID in each process, or use --distributed=off.'
        ) from error


def is_of_job(environ):
    """Returns whether something started this process as one of several."""
    several = {
        name: environ.get(name, '') not in ('', '0', '1')
        for name in ('SLURM_NTASKS', 'OMPI_COMM_WORLD_SIZE')
    }
    hosts = environ.get('TPU_PROCESS_ADDRESSES') or environ.get('TPU_WORKER_HOSTNAMES')
    return (
        'JAX_COORDINATOR_ADDRESS' in environ
        or ('SLURM_STEP_NODELIST' in environ and several['SLURM_NTASKS'])
        or several['OMPI_COMM_WORLD_SIZE']
        or {'KUBERNETES_SERVICE_HOST', 'JOB_COMPLETION_INDEX'} <= environ.keys()
        or ',' in (hosts or '')
        or 'MEGASCALE_COORDINATOR_ADDRESS' in environ
        or (hosts is None and _is_tpu_vm(environ))
    )


def on_first(function, what):
    """Calls `function` on process 0 while the others wait; all fail if it fails.

    Returns its result on process 0 and None elsewhere.
    """
    with fail_together(what):
        return function() if jax.process_index() == 0 else None


@contextlib.contextmanager
def fail_together(what):
    """Makes all processes raise an error if any of them raises one within the block.

    Exceptions of this package are converted to ConfigError (`exits.config_errors`). A
    process without an error of its own raises ConfigError or RuntimeError, depending on
    the worst error of the others. Every process must enter the block at the same point.
    Communication within it raises RuntimeError, even in a single process.
    """
    _check_outside(what)
    error = None
    entered = _BLOCK.set(what)
    try:
        with exits.config_errors():
            yield
    except Exception as raised:
        error = raised
    finally:
        _BLOCK.reset(entered)
    codes_P = _gather(exits.code_of(error) if error else exits.DONE)
    if error is not None:
        raise error
    if codes_P.any():
        where = ', '.join(map(str, np.flatnonzero(codes_P)))
        kind = exits.ConfigError if codes_P.max() == exits.USAGE else RuntimeError
        raise kind(f'{what}: failed on process {where}; see its log for the reason.')


def check_equal(what, text):
    """Raises ConfigError on all processes unless `text` is equal on all of them."""
    sums_P = _gather(zlib.crc32(text.encode()))
    if (sums_P != sums_P[0]).any():
        others = ', '.join(map(str, np.flatnonzero(sums_P != sums_P[0])))
        raise exits.ConfigError(
            f'{what} differ between process 0 and {others}: all processes must read the '
            'same files with the same config.'
        )


def from_first(number):
    """Returns the nonnegative integer of process 0 on every process; None stays None."""
    first = int(_gather(0 if number is None else number + 1)[0])
    return first - 1 if first else None


def maximum(number):
    """Returns the maximum of a nonnegative integer over all processes."""
    return int(_gather(number).max())


class Vote:
    """Logical or over all processes: each call returns the same result everywhere.

    The result of a call is returned `lag` calls later, so that no process waits for its
    devices. In a single process it is returned at once.
    """

    def __init__(self, lag=2):
        self._lag, self._pending = lag, collections.deque()
        self._is_single = jax.process_count() == 1
        mesh = Mesh(np.array(jax.devices()), ('devices',))
        self._sharding = NamedSharding(mesh, PartitionSpec('devices'))
        self._any = jax.jit(
            lambda votes_N: votes_N.max(),
            out_shardings=NamedSharding(mesh, PartitionSpec()),
        )

    def __call__(self, mine):
        _check_outside('a vote')
        if self._is_single:
            return mine
        votes_N = np.full(jax.local_device_count(), mine, np.int32)
        votes_N = jax.make_array_from_process_local_data(self._sharding, votes_N)
        self._pending.append(self._any(votes_N))
        return len(self._pending) > self._lag and bool(self._pending.popleft())


def _gather(number):
    _check_outside('a count')
    if jax.process_count() == 1:
        return np.array([number], np.uint32)
    try:
        return multihost_utils.process_allgather(np.uint32(number))
    except (ValueError, RuntimeError) as error:
        raise RuntimeError(
            f'Another process of this job does not respond ({error}). See its log for '
            'the reason. The same command, in all processes, resumes from the last '
            'checkpoint.'
        ) from error


def _check_outside(what):
    """Raises RuntimeError inside a `fail_together` block."""
    if block := _BLOCK.get():
        raise RuntimeError(
            f'{what}: communicates with the other processes within the block "{block}", '
            'where they would match its message with a different one. Communicate '
            'outside of the block.'
        )


def _local_device_ids(environ):
    """Returns [], which means all visible devices, or None: jax decides.

    Under SLURM and Open MPI jax assigns to each process the device of its local rank.
    That is wrong for the only process of a node, and for processes that see only the
    devices that were bound to them.
    """
    if 'JAX_LOCAL_DEVICE_IDS' in environ:
        return None
    ranks = environ.get('OMPI_COMM_WORLD_LOCAL_SIZE')
    # As '2(x3)': two tasks on each of three nodes.
    ranks = ranks or environ.get('SLURM_STEP_TASKS_PER_NODE', '')
    count = int(re.match(r'\d*', ranks)[0] or 0)
    visible = environ.get('CUDA_VISIBLE_DEVICES')
    is_bound = visible is not None and len(visible.split(',')) < count
    return [] if count == 1 or is_bound else None


def _is_tpu_vm(environ):
    """Returns whether this is a TPU VM, whose metadata server jax asks for the others."""
    if environ.get('JAX_PLATFORMS', 'tpu').split(',')[0] != 'tpu':
        return False
    chips = glob.glob('/dev/accel*') or glob.glob('/dev/vfio/[0-9]*')
    return bool(chips) and importlib.util.find_spec('libtpu') is not None
