"""What a run leaves behind: only our own words say never again."""

import ast
import json
from pathlib import Path

import pytest

from jepa_text.config import ranges
from jepa_text.parallel import exits

PACKAGE = Path(exits.__file__).parents[1]


def refused(function, *arguments):
    """The exception that a call ends with in a block of refusals."""
    with pytest.raises(Exception) as caught, exits.refusals():  # noqa: PT011
        function(*arguments)
    return caught.value


def missing(text):
    raise FileNotFoundError(text)


def test_our_own_refusal_is_a_config_error_and_stays_what_it_was():
    error = refused(lambda: ranges.number('rate', -1, minimum=0))
    assert isinstance(error, exits.ConfigError) and 'rate' in str(error)
    assert isinstance(error.__cause__, ValueError)
    assert exits.code_of(error) == exits.USAGE
    with pytest.raises(FileNotFoundError), exits.refusals():
        exits_of_this_package(missing_rows)


def missing_rows():
    from jepa_text.data.rows import row_folder

    row_folder.read_manifest('nowhere')


def test_a_package_that_is_missing_is_a_refusal_in_our_words_alone():
    def ask():
        raise ModuleNotFoundError("pip install 'jepa-text[gs]'")

    def load():
        import nobody_has_this  # noqa: F401

    assert exits.code_of(refused(ask)) == exits.USAGE
    assert isinstance(refused(ask), ModuleNotFoundError)
    assert exits.code_of(refused(load)) == exits.FAILED


def test_keys_that_do_not_open_are_a_refusal_but_not_a_file_of_this_machine():
    def barred():
        raise PermissionError('s3://b/x does not open to the keys of this machine')

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
        lambda: Path('/nowhere/at/all').read_text(),  # the system's
        lambda: json.loads('{'),  # a library's
        lambda: missing_with_number(),
    ],
)
def test_an_error_of_the_machine_or_of_a_library_is_none(function):
    error = refused(function)
    assert not isinstance(error, exits.ConfigError)
    assert exits.code_of(error) == exits.FAILED


def missing_with_number():
    raise FileExistsError(17, 'File exists', 'x')


def test_what_a_compiled_program_raises_through_our_code_is_none(monkeypatch):
    def gloo(*_, **__):
        raise ValueError('UNKNOWN: Gloo all-reduce failed: Connection closed by peer')

    # As if compiled code had raised it: the innermost frame is one of the package.
    monkeypatch.setattr(ranges, '__name__', 'jepa_text.config.ranges')
    gloo = type(gloo)(gloo.__code__, vars(ranges) | {'ValueError': ValueError})
    assert not isinstance(refused(gloo), exits.ConfigError)


def test_nothing_after_the_first_step_is_refused_by_accident():
    """Only what is before the loop stands in refusals: a save may fail on any machine."""
    tree = ast.parse((PACKAGE / 'training' / 'train.py').read_text())
    (loop,) = [n for n in tree.body if isinstance(n, ast.ClassDef)]
    said = ast.unparse(loop)
    assert 'refusals' not in said and 'together' not in said
