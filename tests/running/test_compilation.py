"""The compilation cache is in a folder that only its owner can write to."""

import time

import jax
import pytest

from jepa_text.running import compilation


@pytest.fixture(autouse=True)
def restored():
    before = jax.config.jax_compilation_cache_dir
    yield
    jax.config.update('jax_compilation_cache_dir', before)


def test_the_cache_is_private_and_the_environment_chooses_another_or_none(tmp_path):
    environ = {'XDG_CACHE_HOME': str(tmp_path)}
    before = jax.config.jax_compilation_cache_dir
    for given in ('', 'elsewhere'):
        given = environ | {'JAX_COMPILATION_CACHE_DIR': given}
        assert compilation.use_cache(given) == before
    path = compilation.use_cache(environ)
    assert path == str(tmp_path / 'jepa_text' / 'compiled')
    assert (tmp_path / 'jepa_text' / 'compiled').stat().st_mode & 0o777 == 0o700
    assert jax.config.jax_compilation_cache_dir == path
    assert compilation.use_cache(environ) == path


def test_a_folder_writable_by_others_raises(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(ValueError, match='chmod 700'):
        compilation.private_folder(tmp_path, 'cache')


def test_the_stopwatch_counts_compiling_once_and_nothing_else(monkeypatch):
    """Also programs within programs, whose events are nested."""
    with compilation.Stopwatch() as watch:
        jax.jit(lambda x: jax.jit(lambda y: y * 2 + len(str(watch)))(x))(1.5)
        first = watch.seconds
        time.sleep(0.2)
        assert watch.seconds == first > 0
    jax.jit(lambda x: x - 1)(1.5)
    assert watch.seconds == first
    now = iter([10.0, 11.0, 12.0, 20.0])
    monkeypatch.setattr(time, 'perf_counter', lambda: next(now))
    watch = compilation.Stopwatch()
    for name, seconds in (('trace', 1.0), ('trace', 0.5), ('trace', 4.0), ('compile', 7)):
        watch._add(f'/jax/core/compile/{name}', seconds)
    assert watch.seconds == 4 + 7
    watch._add('/jax/other', 3.0)
    assert watch.seconds == 11
