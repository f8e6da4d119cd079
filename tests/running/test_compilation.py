"""The compilation cache is in a folder that only its owner can write to."""

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


def test_without_a_folder_to_write_to_there_is_no_cache(tmp_path, caplog):
    (tmp_path / 'jepa_text').write_text('a file')
    assert compilation.use_cache({'XDG_CACHE_HOME': str(tmp_path)}) is None
    assert 'JAX_COMPILATION_CACHE_DIR names another' in caplog.text


def test_a_folder_writable_by_others_raises(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(ValueError, match='chmod 700'):
        compilation.private_folder(tmp_path, 'cache')
