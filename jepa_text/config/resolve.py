"""A name is a file, or a dotted module: `build('objectives', {'name': 'mlm'})`."""

import difflib
import functools
import importlib
import inspect
from pathlib import Path

from jepa_text.config import ranges


def nearest(name, known):
    """A phrase that names the closest known spelling, and all that exist."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f' Did you mean {close[0]!r}?' if close else ''
    return f'{hint} There are: {", ".join(sorted(known))}.'


def check_choice(what, value, known):
    """Raises ValueError, with the nearest, for a value that is none of the `known`."""
    if value not in known:
        raise ValueError(f'{what}={value!r}.{nearest(str(value), known)}')


def names(folder):
    """Names of the files with a `make` in a folder of the package, as 'objectives'."""
    return [*_names(folder)]


@functools.cache  # each config is checked many times, and each section of it
def _names(folder):
    package = importlib.import_module(f'jepa_text.{folder.replace("/", ".")}')
    files = Path(package.__path__[0]).glob('*.py')
    return sorted(f.stem for f in files if '\ndef make(' in f.read_text(encoding='utf-8'))


def build(folder, section, **given):
    """Calls the `make` that section['name'] stands for with the other keywords: that of
    jepa_text/<folder>/<name>.py, or of a module of the user's own, 'my_lab.objective'.

    `given` are keywords that the program supplies rather than the user. Raises
    ValueError for a name that stands for nothing and for a keyword that `make` does not
    take.
    """
    make, keywords = _found(folder, section)
    return call(f'{folder}/{section["name"]}', make, keywords, **given)


def check(folder, section, given):
    """Raises ValueError for what `build` refuses before it calls; `given` are the names
    of the keywords that the program supplies."""
    make, keywords = _found(folder, section)
    _check(f'{folder}/{section["name"]}', make, keywords, given)


def defaults(folder, name, given):
    """{keyword: default} of the `make` that a name stands for, but for the `given`."""
    make, _ = _found(folder, {'name': name})
    parameters = inspect.signature(make).parameters.values()
    return {
        one.name: one.default
        for one in parameters
        if one.name not in given and one.default is not one.empty
    }


def _found(folder, section):
    """(`make` that section['name'] stands for, the other keywords)."""
    ranges.section(folder, section)
    keywords = dict(section)
    name = keywords.pop('name', None)
    if not isinstance(name, str):
        raise ValueError(
            f'A section for {folder} needs a name, not {name!r}.'
            f'{nearest("", names(folder))}'
        )
    if '.' in name:
        return own(folder, name), keywords
    if name not in names(folder):
        raise ValueError(
            f'{folder} has no {name!r}.{nearest(name, names(folder))} Of a module of '
            "your own give the dotted name, as 'my_lab.mine'."
        )
    module = importlib.import_module(f'jepa_text.{folder.replace("/", ".")}.{name}')
    return module.make, keywords


def own(what, name):
    """`make` of a module of the user's own, of this dotted name; `what` it is for.

    Raises ValueError where there is no such module, or no `make` in it.
    """
    try:
        module = importlib.import_module(name)
    except (ImportError, TypeError) as error:
        raise ValueError(
            f'{what}: the module {name!r} cannot be imported: {error}. Install it, or '
            'put the folder that it is in on PYTHONPATH.'
        ) from error
    if not callable(getattr(module, 'make', None)):
        raise ValueError(f'{what}: the module {name!r} has no function `make`.')
    return module.make


def call(what, function, section, **given):
    """`function(**section, **given)`; ValueError for a keyword that it does not take, or
    needs and is not given, and for a value of another kind than its default or annotation
    has (`ranges.keyword`). `what` names it in the message."""
    _check(what, function, section, given)
    return function(**section, **given)


def _check(what, function, section, given):
    ranges.section(what, section)
    parameters = inspect.signature(function).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    known = [name for name in parameters if name not in given]
    for key in section:
        if key in given or (key not in parameters and not takes_any):
            raise ValueError(f'{what} does not take {key!r}.{nearest(key, known)}')
    for name, parameter in parameters.items():
        optional = parameter.kind is parameter.VAR_KEYWORD
        optional |= parameter.default is not parameter.empty
        if not optional and name not in section and name not in given:
            raise ValueError(f'{what} needs {name!r}; it takes: {", ".join(known)}.')
        if name in section:
            ranges.keyword(what, parameter, section[name])
