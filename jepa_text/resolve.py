"""A name is a file: `build('objectives', {'name': 'mlm', 'rate': 0.3})`."""

import difflib
import importlib
import inspect
import pkgutil


def nearest(name, known):
    """A phrase that names the closest known spelling, and all that exist."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f' Did you mean {close[0]!r}?' if close else ''
    return f'{hint} There are: {", ".join(sorted(known))}.'


def names(folder):
    """The names that exist in a folder of the package, such as 'objectives'."""
    package = importlib.import_module(f'jepa_text.{folder.replace("/", ".")}')
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__))


def build(folder, section, **given):
    """Calls `make` of jepa_text/<folder>/<section['name']>.py with the other keywords.

    `given` are keywords that the program supplies rather than the user. Raises
    ValueError for a name without a file and for a keyword that `make` does not take.
    """
    keywords = dict(section)
    name = keywords.pop('name', None)
    if name is None:
        raise ValueError(
            f'A section for {folder} needs a name.{nearest("", names(folder))}'
        )
    if name not in names(folder):
        raise ValueError(f'{folder} has no {name!r}.{nearest(name, names(folder))}')
    make = importlib.import_module(f'jepa_text.{folder.replace("/", ".")}.{name}').make
    parameters = inspect.signature(make).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for key in () if takes_any else keywords:
        if key not in parameters or key in given:
            known = [p for p in parameters if p not in given]
            raise ValueError(
                f'{folder}/{name} does not take {key!r}.{nearest(key, known)}'
            )
    return make(**keywords, **given)
