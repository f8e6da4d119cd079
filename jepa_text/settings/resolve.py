"""Resolution of names in configs to functions: `build('objectives', {'name': 'mlm'})`.

A name stands for a file of a folder of the package, or for a dotted module of the user.
Whatever a module of the user raises becomes an error that names it, file and line.
"""

import contextlib
import difflib
import functools
import importlib
import inspect
import sys
import traceback
import typing
from pathlib import Path

from jepa_text.settings import ranges

HELP = 'docs/adding.md describes what it must do; --traceback shows all calls.'


def nearest(name, known):
    """Returns the end of an error message: the closest known name, and all of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f' Did you mean {close[0]!r}?' if close else ''
    names = ', '.join(name or "''" for name in sorted(known))
    return f'{hint} Available: {names or "none"}.'


def check_choice(what, value, known):
    """Raises ValueError, with the closest name, unless a value is one of `known`."""
    if value not in tuple(known):
        raise ValueError(f'{what}={value!r}.{nearest(str(value), known)}')


@functools.cache  # each config is checked many times, section by section
def names(folder):
    """Returns the names of the files with a `make` in a folder, such as 'objectives'."""
    package = importlib.import_module(f'jepa_text.{folder.replace("/", ".")}')
    files = Path(package.__path__[0]).glob('*.py')
    made = (f.stem for f in files if '\ndef make(' in f.read_text(encoding='utf-8'))
    return tuple(sorted(made))


def build(folder, section, **given):
    """Calls the `make` of section['name'] with the section's other keys as keywords.

    The name stands for jepa_text/<folder>/<name>.py or, if it is dotted, for a module of
    the user, as in 'my_lab.objective'. `given` are keywords that the program supplies
    instead of the user. Raises ValueError for an unknown name, and for a keyword that
    `make` does not take.
    """
    make, keywords = _find(folder, section)
    return call(f'{folder}/{section["name"]}', make, keywords, **given)


def check(folder, section, given):
    """Raises ValueError if `build` would reject a section; does not call `make`.

    `given` are the names of the keywords that the program supplies.
    """
    make, keywords = _find(folder, section)
    check_keywords(f'{folder}/{section["name"]}', make, keywords, given)


def _find(folder, section):
    """Returns (`make` of section['name'], the other keywords)."""
    ranges.section(folder, section)
    keywords = dict(section)
    name = keywords.pop('name', None)
    if not isinstance(name, str):
        raise ValueError(
            f'A section of {folder} needs a name, not {name!r}.'
            f'{nearest("", names(folder))}'
        )
    if '.' in name:
        return make_of(folder, name), keywords
    if name not in names(folder):
        raise ValueError(
            f'{folder} has no {name!r}.{nearest(name, names(folder))} To use a module of '
            "your own, give its dotted name, as in 'my_lab.mine'."
        )
    module = importlib.import_module(f'jepa_text.{folder.replace("/", ".")}.{name}')
    return module.make, keywords


def make_of(what, name):
    """Returns the function `make` of a user's module with this dotted name.

    `what` names its purpose in errors. Raises ValueError if the module does not exist or
    has no `make`.
    """
    try:
        module = importlib.import_module(name)
    except Exception as error:
        if isinstance(error, ImportError) or name.startswith('.'):
            raise ValueError(
                f'{what}: the module {name!r} cannot be imported: {error}. Install it, '
                'or add its folder to PYTHONPATH.'
            ) from error
        with user_faults([name]):
            raise
    if not callable(getattr(module, 'make', None)):
        raise ValueError(f'{what}: the module {name!r} has no function `make`.')
    return module.make


def call(what, function, section, **given):
    """Returns `function(**section, **given)` after checking the keywords.

    Raises ValueError for an unknown or missing keyword, and for a value of another type
    than the default or annotation (`ranges.keyword`). `what` names the function in
    errors. Whatever a function of the user's own raises becomes a UserCodeError.
    """
    check_keywords(what, function, section, given)
    module = getattr(function, '__module__', what)
    is_ours = module.split('.')[0] == __package__.split('.')[0]
    with user_faults([] if is_ours else [module]):
        return function(**section, **given)


def check_keywords(what, function, section, given=(), also=()):
    """Raises ValueError unless `function` takes the section's keys, with their types,
    together with the keywords `given`. `what` names the function in errors, which list
    the keys `also`."""
    ranges.section(what, section)
    parameters = inspect.signature(function).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    known = [*also, *(name for name in parameters if name not in given)]
    for key in section:
        if key in given or (key not in parameters and not takes_any):
            raise ValueError(f'{what} does not take {key!r}.{nearest(key, known)}')
    for key in () if takes_any else given:
        if key not in parameters:
            raise ValueError(
                f'{what}: `make` must take the keyword {key!r}, which the program '
                f'supplies; it takes: {", ".join(parameters) or "none"}.'
            )
    for name, parameter in parameters.items():
        optional = parameter.kind is parameter.VAR_KEYWORD
        optional |= parameter.default is not parameter.empty
        if not optional and name not in section and name not in given:
            raise ValueError(f'{what} requires {name!r}; it takes: {", ".join(known)}.')
        if name in section:
            if typing.get_origin(parameter.annotation) is typing.Literal:
                choices = typing.get_args(parameter.annotation)
                check_choice(f'{what}: {name}', section[name], choices)
            ranges.keyword(what, parameter, section[name])


class UserCodeError(ValueError):
    """A module of the user does not do what the program expects of it."""


def user_modules(section):
    """Returns the dotted names of modules in a section of a config, at any depth.

    >>> user_modules({'name': 'hybrid', 'balance': {'name': 'my_lab.late'}})
    ['my_lab.late']
    """
    if ranges.is_section(section):
        section = dict(section)
        dotted = [name] if '.' in str(name := section.get('name', '')) else []
        return dotted + user_modules(list(section.values()))
    if isinstance(section, list | tuple):
        return [name for value in section for name in user_modules(value)]
    return []


def reject_user_code(name, problem):
    """Raises UserCodeError: what is wrong with the module of this dotted name."""
    raise UserCodeError(f'{name} ({_file(name)}): {problem} {HELP}')


@contextlib.contextmanager
def user_faults(modules):
    """Converts whatever the modules of these dotted names raise to UserCodeError.

    It names the last line in a file of theirs that led to the error. Without modules,
    errors are raised as they are, and so is an OSError, which may not occur again.
    """
    try:
        yield
    except (UserCodeError, OSError):
        raise
    except Exception as error:
        if not modules:
            raise
        line = _line_in(error, {name.split('.')[0] for name in modules})
        line = line or ', '.join(map(_file, modules))
        text = f'{type(error).__name__}: {error}'.rstrip('.')
        raise UserCodeError(
            f'{", ".join(modules)} failed ({line}): {text}. {HELP}'
        ) from error


def _line_in(error, packages):
    """The last line of a traceback that is in one of the packages; '' without one."""
    for frame, number in reversed([*traceback.walk_tb(error.__traceback__)]):
        if frame.f_globals.get('__name__', '').split('.')[0] in packages:
            return f'{frame.f_code.co_filename}, line {number}, in {frame.f_code.co_name}'
    return ''


def _file(name):
    return getattr(sys.modules.get(name), '__file__', name)
