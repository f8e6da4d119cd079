"""Exit codes: only exceptions of this package prevent a retry."""

import functools
import json
import types
from pathlib import Path
from unittest import mock

import pytest

from jepa_text.parallel import exits
from jepa_text.settings import ranges
from jepa_text.training import train


def refused(function):
    """Returns the exception of a call within `exits.config_errors`."""
    with pytest.raises(Exception) as caught, exits.config_errors():  # noqa: PT011
        function()
    return caught.value


def raising(error):
    def function():
        raise error

    return function


MAIN = {'__name__': '__main__', '__package__': 'jepa_text'}  # python -m jepa_text.main
as_main = functools.partial(exec, "raise ValueError('no command')", MAIN)


def missing_rows():
    from jepa_text.data.rows import row_folder

    row_folder.read_manifest('nowhere')


def missing_package():
    import nobody_has_this  # noqa: F401


@pytest.mark.parametrize(
    'function, kind, words',
    [
        (lambda: ranges.number('rate', -1, minimum=0), ValueError, 'rate'),
        (as_main, ValueError, 'no command'),
        (missing_rows, FileNotFoundError, 'nowhere'),
        (raising(ModuleNotFoundError("'jepa-text[gs]'")), ModuleNotFoundError, 'gs'),
        (raising(PermissionError('s3://b/x is denied')), PermissionError, 's3://b/x'),
    ],
)
def test_our_errors_become_config_errors_of_the_same_type(function, kind, words):
    error = refused(function)
    assert isinstance(error, exits.ConfigError) and isinstance(error, kind)
    assert words in str(error) and isinstance(error.__cause__, kind)
    assert exits.code_of(error) == exits.USAGE
    assert not exits.origin(error.__cause__)


@pytest.mark.parametrize(
    'function',
    [
        lambda: Path('/nowhere/at/all').read_text(),  # of the operating system
        raising(PermissionError(13, 'Permission denied', '/x')),
        raising(FileExistsError(17, 'File exists', 'x')),
        lambda: json.loads('{'),  # of a library
        missing_package,
    ],
)
def test_errors_of_the_system_or_a_library_are_not_converted(function):
    error = refused(function)
    assert not isinstance(error, exits.ConfigError)
    assert exits.code_of(error) == exits.FAILED


def test_errors_of_compiled_programs_are_not_converted():
    def gloo(*_, **__):
        raise ValueError('UNKNOWN: Gloo all-reduce failed: Connection closed by peer')

    # As raised by compiled code: the innermost frame is of this package.
    gloo = type(gloo)(gloo.__code__, vars(ranges) | {'ValueError': ValueError})
    assert not isinstance(refused(gloo), exits.ConfigError)


@pytest.mark.parametrize('where', ['recipe', 'step'])
def test_errors_of_steps_are_not_converted(tmp_path, monkeypatch, where):
    """Only code before the loop converts errors: a save may fail on any machine."""

    def failing(*_):
        ranges.number('saved', -1, minimum=0)

    recipe, state = mock.MagicMock(), types.SimpleNamespace(step=0)
    recipe.phases, recipe.evaluations = [types.SimpleNamespace(index=0, stop=2)], []
    tools = [mock.MagicMock() for _ in range(5)]
    tools[2].run = failing if where == 'step' else mock.MagicMock()
    made = failing if where == 'recipe' else lambda *_: (recipe, mock.MagicMock())
    monkeypatch.setattr(train.begin, 'recipe_of', made)
    restored = tools, state, {'phase': 0}
    monkeypatch.setattr(train.begin, 'restore_or_init', lambda *_: restored)
    monkeypatch.setattr(train.steps, 'compiled', mock.MagicMock())
    monkeypatch.setattr(train, 'batches_of', lambda *_: (batch for batch in [{}, {}]))
    monkeypatch.setattr(train.sharding, 'put_batch', lambda batch, _: batch)
    with pytest.raises(ValueError, match='saved') as caught:
        train.train({}, tmp_path)
    wanted = exits.USAGE if where == 'recipe' else exits.FAILED
    assert exits.code_of(caught.value) == wanted
