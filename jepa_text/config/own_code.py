"""Faults in modules of the user's own, as errors that name the module, file and line."""

import contextlib
import sys

from jepa_text.config import ranges

HELP = 'docs/adding.md describes what it must do; --traceback shows all calls.'


class OwnCodeError(ValueError):
    """A module of the user's own does not do what the program expects of it."""


def names(section):
    """Returns the dotted names of modules in a section of a config, at any depth.

    >>> names({'name': 'hybrid', 'balance': {'name': 'my_lab.late'}})
    ['my_lab.late']
    """
    if ranges.is_section(section):
        section = dict(section)
        own = [name] if '.' in str(name := section.get('name', '')) else []
        return own + names(list(section.values()))
    if isinstance(section, list | tuple):
        return [name for value in section for name in names(value)]
    return []


def reject(name, problem):
    """Raises OwnCodeError: what is wrong with the module of this dotted name."""
    raise OwnCodeError(f'{name} ({_file(name)}): {problem} {HELP}')


@contextlib.contextmanager
def faults(modules):
    """Converts whatever the modules of these dotted names raise to OwnCodeError.

    It names the last line in a file of theirs that led to the error. Without modules,
    errors are raised as they are, and so is an OSError, which may not occur again.
    """
    try:
        yield
    except (OwnCodeError, OSError):
        raise
    except Exception as error:
        if not modules:
            raise
        place = _place(error, {name.split('.')[0] for name in modules})
        place = place or ', '.join(map(_file, modules))
        text = f'{type(error).__name__}: {error}'.rstrip('.')
        raise OwnCodeError(
            f'{", ".join(modules)} failed ({place}): {text}. {HELP}'
        ) from error


def _place(error, packages):
    """The last line of a traceback that is in one of the packages; '' without one."""
    place, trace = '', error.__traceback__
    while trace:
        frame = trace.tb_frame
        if frame.f_globals.get('__name__', '').split('.')[0] in packages:
            code = frame.f_code
            place = f'{code.co_filename}, line {trace.tb_lineno}, in {code.co_name}'
        trace = trace.tb_next
    return place


def _file(name):
    return getattr(sys.modules.get(name), '__file__', name)
