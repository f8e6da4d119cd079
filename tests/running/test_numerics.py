"""Settings that change draws are rejected; others that change numbers are recorded."""

import jax
import pytest
import tiny

from jepa_text import main
from jepa_text.evaluation.members import grid
from jepa_text.parallel import exits
from jepa_text.running import numerics


@pytest.fixture(
    params=[
        ('jax_enable_x64', True),
        ('jax_threefry_partitionable', False),
        ('jax_random_seed_offset', 3),
    ]
)
def setting(request):
    """The name of a setting that has an unusual value."""
    name, value = request.param
    usual = getattr(jax.config, name)
    jax.config.update(name, value)
    yield name
    jax.config.update(name, usual)


def test_settings_that_change_draws_are_rejected_at_start(setting, tmp_path, capsys):
    config = tiny.config(tmp_path)
    for start in (
        lambda: tiny.train(config, tmp_path / 'run'),
        lambda: grid.Grid(None, None, None),
    ):
        with pytest.raises(exits.ConfigError, match=f'{setting.upper()} is .*update'):
            start()
    assert not (tmp_path / 'run').exists()
    words = ['jepa-text', 'plan', '--config=toy:mlm']
    assert main.main(words) == exits.USAGE
    assert setting.upper() in capsys.readouterr().err


def test_a_change_of_what_changes_rounding_is_said():
    before = numerics.current({'XLA_FLAGS': '--xla_allow_excess_precision=false'})
    assert not list(numerics.changes({}))  # a checkpoint of an older version
    with jax.default_matmul_precision('highest'):
        (sentence,) = numerics.changes({'numerics': before})
    assert 'JAX_DEFAULT_MATMUL_PRECISION' in sentence and 'XLA_FLAGS' in sentence
