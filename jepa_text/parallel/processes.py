"""The processes of one job: how they find each other, and how they agree.

A job of several processes runs the same program in each. What one of them alone learns
(a signal, a full disk, a bad config) must become known to all, or the others wait for it
for ever.

All talk between processes goes through this file. None of it may happen inside of a
`together` block: a process that fails there before it speaks would go to the end of the
block, and the others would take what it says there for the answer to something else.
"""

import collections
import contextlib
import contextvars
import glob
import importlib.util
import os
import pathlib
import time
import uuid
import zlib

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jepa_text.parallel import exits

CHOICES = ('auto', 'on', 'off')
_PATIENCE = 10.0  # seconds until a file that one made is seen by all

# What the `together` block is about that this thread is in; '' outside.
_BLOCK = contextvars.ContextVar('_BLOCK', default='')


def start(choice='auto', environ=os.environ):
    """Joins the other processes of this job, if there are any. Call it before all else.

    'auto' looks for JAX_COORDINATOR_ADDRESS (with JAX_NUM_PROCESSES and
    JAX_PROCESS_ID), SLURM, Open MPI, Kubernetes and TPU pods; 'on' insists, 'off' stays
    alone. Raises ValueError for an environment that says too little.
    """
    if choice not in CHOICES:
        raise ValueError(f'distributed={choice!r}; there are: {", ".join(CHOICES)}.')
    if choice == 'off' or jax.distributed.is_initialized():
        return
    if choice == 'auto' and announced(environ) is None:
        return
    # The one that lets CPU processes compute together, for tests as for real runs.
    jax.config.update('jax_cpu_collectives_implementation', 'gloo')
    # It would swallow SIGTERM, and SIGINT is none of its business: see signals.py.
    jax.config.update('jax_enable_preemption_service', False)
    try:
        jax.distributed.initialize(**_told(environ))
    except (ValueError, TypeError) as error:
        raise ValueError(
            'This environment does not say enough to join the processes of a job '
            f'({error}). Set JAX_COORDINATOR_ADDRESS=host:port, JAX_NUM_PROCESSES and '
            'JAX_PROCESS_ID in each, or run with --distributed=off.'
        ) from error


def announced(environ):
    """Who started several processes: 'environment', 'slurm', ...; None for nobody."""
    if 'JAX_COORDINATOR_ADDRESS' in environ:
        return 'environment'
    if 'SLURM_STEP_NODELIST' in environ and _number(environ, 'SLURM_NTASKS') > 1:
        return 'slurm'
    if _number(environ, 'OMPI_COMM_WORLD_SIZE') > 1:
        return 'mpi'
    if 'KUBERNETES_SERVICE_HOST' in environ and 'JOB_COMPLETION_INDEX' in environ:
        return 'kubernetes'
    hosts = environ.get('TPU_PROCESS_ADDRESSES') or environ.get('TPU_WORKER_HOSTNAMES')
    if ',' in (hosts or '') or 'MEGASCALE_COORDINATOR_ADDRESS' in environ:
        return 'tpu'
    return 'tpu' if hosts is None and _on_tpu_vm(environ) else None


def first(function, what):
    """Runs `function` on process 0 while the others wait; all fail if it fails.

    Returns what it returned there, None elsewhere.
    """
    with together(what):
        return function() if jax.process_index() == 0 else None


@contextlib.contextmanager
def together(what):
    """All processes leave the block without an error, or all raise one.

    What this package refuses in it is a ConfigError (`exits.refusals`). Where the block
    went well but not so elsewhere, ConfigError or RuntimeError is raised, as the worst of
    the others' errors asks for. Every process must enter it at the same point, and
    nothing in it may ask the others: RuntimeError, also in a process that is alone.
    """
    _outside(what)
    error = None
    entered = _BLOCK.set(what)
    try:
        with exits.refusals():
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
        raise kind(f'{what}: failed on process {where}, whose log says why.')


def same(what, text):
    """Raises ConfigError, on all processes, unless all of them give the same text."""
    sums_P = _gather(zlib.crc32(text.encode()))
    if (sums_P != sums_P[0]).any():
        other = np.flatnonzero(sums_P != sums_P[0])
        raise exits.ConfigError(
            f'{what} differ between process 0 and {", ".join(map(str, other))}: all '
            'processes must read the same files under the same config.'
        )


def from_first(array):
    """Every process gets the array or number of process 0."""
    _outside('from_first')
    if jax.process_count() == 1:
        return np.asarray(array)
    with _answered():
        return np.asarray(multihost_utils.broadcast_one_to_all(np.asarray(array)))


def see(folder, what):
    """Does this process see a file that process 0 makes in a folder?"""
    if jax.process_count() == 1:
        return True
    name = f'.seen-{int(from_first(np.int32(uuid.uuid4().int % 2**31)))}'
    file = pathlib.Path(folder, name)
    first(lambda: file.write_text(''), what)
    end = time.monotonic() + _PATIENCE
    # A network file system may be late.
    while not (is_seen := file.exists()) and time.monotonic() < end:
        time.sleep(0.1)
    highest(0)  # all have looked
    first(file.unlink, what)
    return is_seen


def highest(number):
    """The highest of the processes' whole numbers from 0, on all of them."""
    return int(_gather(number).max())


class Vote:
    """Does any process say yes? All get the same answer, in the same call.

    The answer to one call comes `lag` calls later, so that nobody waits for the devices;
    a process that is alone is answered at once.
    """

    def __init__(self, lag=2):
        self._lag, self._asked = lag, collections.deque()
        self._alone = jax.process_count() == 1
        mesh = Mesh(np.array(jax.devices()), ('devices',))
        self._each = NamedSharding(mesh, PartitionSpec('devices'))
        self._any = jax.jit(
            lambda votes_N: votes_N.max(),
            out_shardings=NamedSharding(mesh, PartitionSpec()),
        )

    def __call__(self, mine):
        _outside('a vote')
        if self._alone:
            return mine
        votes_N = np.full(jax.local_device_count(), mine, np.int32)
        votes_N = jax.make_array_from_process_local_data(self._each, votes_N)
        self._asked.append(self._any(votes_N))
        return len(self._asked) > self._lag and bool(self._asked.popleft())


def _gather(number):
    _outside('a count')
    if jax.process_count() == 1:
        return np.array([number], np.uint32)
    with _answered():
        return multihost_utils.process_allgather(np.uint32(number))


def _outside(what):
    """Raises RuntimeError inside of a `together` block."""
    if block := _BLOCK.get():
        raise RuntimeError(
            f'{what}: asks the other processes from within the block "{block}", where '
            'they would pair its question with another one. Ask outside of the block.'
        )


@contextlib.contextmanager
def _answered():
    """Says in words that another process is gone: jax may call that a ValueError."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        raise RuntimeError(
            f'Another process of this job does not answer ({error}). Its own log says '
            'why; the same command, in all of them, goes on from the last checkpoint.'
        ) from error


def _told(environ):
    """What the JAX_ variables say; the rest is found by jax."""
    given = {
        'coordinator_address': ('JAX_COORDINATOR_ADDRESS', str),
        'num_processes': ('JAX_NUM_PROCESSES', int),
        'process_id': ('JAX_PROCESS_ID', int),
    }
    return {
        key: of(environ[name]) for key, (name, of) in given.items() if name in environ
    }


def _number(environ, name):
    text = environ.get(name, '')
    return int(text) if text.isdecimal() else 0


def _on_tpu_vm(environ):
    """A TPU VM tells its neighbors through its metadata server; jax asks it."""
    if environ.get('JAX_PLATFORMS', 'tpu').split(',')[0] != 'tpu':
        return False
    chips = glob.glob('/dev/accel*') or glob.glob('/dev/vfio/[0-9]*')
    return bool(chips) and importlib.util.find_spec('libtpu') is not None
