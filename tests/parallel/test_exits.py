"""Exit codes: only exceptions of this package prevent a retry."""

import ast
import json
from pathlib import Path

import pytest

from jepa_text.config import ranges
from jepa_text.parallel import exits

PACKAGE = Path(exits.__file__).parents[1]


def refused(function, *arguments):
    """Returns the exception of a call within `exits.config_errors`."""
    with pytest.raises(Exception) as caught, exits.config_errors():  # noqa: PT011
        function(*arguments)
    return caught.value


def missing(text):
    raise FileNotFoundError(text)


def test_our_errors_become_config_errors_of_the_same_type():
    error = refused(lambda: ranges.number('rate', -1, minimum=0))
    assert isinstance(error, exits.ConfigError) and 'rate' in str(error)
    assert isinstance(error.__cause__, ValueError)
    assert exits.code_of(error) == exits.USAGE
    with pytest.raises(FileNotFoundError), exits.config_errors():
        exits_of_this_package(missing_rows)


def missing_rows():
    from jepa_text.data.rows import row_folder

    row_folder.read_manifest('nowhere')


def test_only_our_module_errors_become_config_errors():
    def ask():
        raise ModuleNotFoundError("pip install 'jepa-text[gs]'")

    def load():
        import nobody_has_this  # noqa: F401

    assert exits.code_of(refused(ask)) == exits.USAGE
    assert isinstance(refused(ask), ModuleNotFoundError)
    assert exits.code_of(refused(load)) == exits.FAILED


def test_only_our_permission_errors_become_config_errors():
    def barred():
        raise PermissionError('Access to s3://b/x is denied')

    def locked():
        raise PermissionError(13, 'Permission denied', '/x')

    error = refused(barred)
    assert isinstance(error, PermissionError) and 's3://b/x' in str(error)
    assert exits.code_of(error) == exits.USAGE
    assert exits.code_of(refused(locked)) == exits.FAILED


def exits_of_this_package(function):
    error = refused(function)
    assert isinstance(error, exits.ConfigError)
    raise error


@pytest.mark.parametrize(
    'function',
    [
        lambda: Path('/nowhere/at/all').read_text(),  # of the operating system
        lambda: json.loads('{'),  # of a library
        lambda: missing_with_number(),
    ],
)
def test_errors_of_the_system_or_a_library_are_not_converted(function):
    error = refused(function)
    assert not isinstance(error, exits.ConfigError)
    assert exits.code_of(error) == exits.FAILED


def missing_with_number():
    raise FileExistsError(17, 'File exists', 'x')


def test_errors_of_compiled_programs_are_not_converted(monkeypatch):
    def gloo(*_, **__):
        raise ValueError('UNKNOWN: Gloo all-reduce failed: Connection closed by peer')

    # As raised by compiled code: the innermost frame is of this package.
    monkeypatch.setattr(ranges, '__name__', 'jepa_text.config.ranges')
    gloo = type(gloo)(gloo.__code__, vars(ranges) | {'ValueError': ValueError})
    assert not isinstance(refused(gloo), exits.ConfigError)


def test_errors_after_the_first_step_are_not_converted():
    """Only code before the loop converts errors: a save may fail on any machine."""
    tree = ast.parse((PACKAGE / 'training' / 'train.py').read_text())
    (loop,) = [n for n in tree.body if isinstance(n, ast.ClassDef)]
    source = ast.unparse(loop)
    assert 'config_errors' not in source and 'together' not in source
