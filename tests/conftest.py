"""Settings for every test: four fake CPU devices, no silent rank promotion."""

import gc
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

# Bytecode is kept, whatever the environment says: each program that a test starts would
# compile the package again, which takes longer than many of the tests.
sys.dont_write_bytecode = False
os.environ.pop('PYTHONDONTWRITEBYTECODE', None)
# Imports and tracing make many objects, and hardly a cycle: looking for them as often as
# by default took a fifteenth of the suite's time.
gc.set_threshold(100_000)

from jepa_text.running import xla_flags  # noqa: E402

# Before jax is imported: the device count is fixed at the first use of a backend.
os.environ.setdefault('JAX_PLATFORMS', 'cpu')
# A program that is not split for several threads compiles in less time.
_QUICK = '--xla_cpu_parallel_codegen_split_count=1'
if platform.machine() == 'x86_64' and metadata.version('jaxlib').startswith('0.10.'):
    # XLA's older emitters, which jaxlib 0.12 has no more, compile tiny programs in two
    # thirds of the time. AVX: where there is FMA, they fuse products and sums in one
    # program and not in another; without it, what must be equal to the last bit is.
    _QUICK += ' --xla_cpu_use_fusion_emitters=false --xla_cpu_max_isa=AVX'
# Flags that are given stay as they are: .ci/run asks for those of users.
_FLAGS = os.environ.get('XLA_FLAGS', _QUICK)
if 'host_platform_device_count' not in _FLAGS:
    _FLAGS = f'{_FLAGS} --xla_force_host_platform_device_count=4'.strip()
# Devices that wait for each other for 40 seconds, as on a busy machine, end the process.
if 'collective_call_terminate' not in _FLAGS:
    _FLAGS = f'{_FLAGS} --xla_cpu_collective_call_terminate_timeout_seconds=300'
os.environ['XLA_FLAGS'] = _FLAGS
xla_flags.apply()
# What several tests compile alike is compiled once, by whichever worker or run was first;
# programs that tests start find it too.
_CACHE = Path(__file__).parents[1] / '.pytest_cache' / 'jax'
os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', str(_CACHE))
os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0.05')
# The suite compiles hundreds of tiny programs and runs each a few times; so do programs
# that tests start.
os.environ.setdefault('JAX_DISABLE_MOST_OPTIMIZATIONS', '1')

import fsspec  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

from jepa_text.models import memo  # noqa: E402

jax.config.update('jax_numpy_rank_promotion', 'raise')


# Files whose slow tests take long, about the longest first.
LONG = (
    'training/test_step',
    'test_own',
    'parallel/test_partitioning',
    'evaluation/test_evaluate',
    'training/test_train',
    'running/test_faults',
    'training/test_init_from',
    'parallel/test_processes',
    'study/test_tree',
    'parallel/test_context',
    'study/test_study',
    'training/test_switches',
    'evaluation/test_grid',
    'test_api',
    'hf/test_task_export',
    'study/test_work',
)


def pytest_collection_modifyitems(items):
    """Long files first, so that workers end at about the same time."""
    names = [f'{Path(__file__).parent}/{name}.py' for name in LONG]
    order = {name: number for number, name in enumerate(names)}
    items.sort(key=lambda item: order.get(str(item.path), len(order)))


def pytest_collection_finish(session):
    """What is imported stays, and need not be looked through."""
    gc.freeze()


@pytest.fixture(autouse=True)
def fresh_programs(request):
    """A test that changes modules shares no programs with others, which keep theirs."""
    changes = 'monkeypatch' in request.fixturenames
    known = [(cache, tuple(cache)) for cache in memo.CACHES] if changes else ()
    for cache, _ in known:
        cache.clear()
    yield
    for cache in memo.CACHES if changes else ():
        cache.clear()
    for cache, programs in known:
        cache.extend(programs)


@pytest.fixture(scope='module', autouse=True)
def few_maps():
    """Compiled programs take memory maps, of which Linux gives a process 65,530: one that
    ran all slow tests was aborted."""
    yield
    maps = Path('/proc/self/maps')
    if maps.exists() and maps.read_bytes().count(b'\n') > 30_000:
        jax.clear_caches()


@pytest.fixture
def bucket(monkeypatch):
    """The address of a bucket on a server of gs:// in a process of its own."""
    for name in ('gcsfs', 'gcp_storage_emulator'):
        pytest.importorskip(name)
    import stores

    with stores.gcs() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield f'gs://{stores.BUCKET}/runs'


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """A folder of this module's own, with the rows of tests/tiny.py."""
    import tiny

    path = tmp_path_factory.mktemp('tiny')
    tiny.rows(path)
    return path


@pytest.fixture(scope='session')
def ours():
    """The bundled tokenizer."""
    from jepa_text.data import tokenizers

    return tokenizers.load(tokenizers.BUNDLED)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def memory(tmp_path):
    """An empty store at memory://, and an empty folder of copies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('JEPA_TEXT_CACHE', str(tmp_path / 'cache'))
        store = fsspec.filesystem('memory')
        store.store.clear()
        yield store
