"""Packages that not everybody needs: the extras of setup.py, imported where used."""

import importlib


def package(module, extra, purpose, otherwise=''):
    """Returns a module of an extra.

    Raises ModuleNotFoundError with the pip command if it is not installed: `purpose` is
    what needs it, `otherwise` ends the message with what else can be done.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"{purpose} needs {module}: pip install 'jepa-text[{extra}]'{otherwise}."
        ) from error
