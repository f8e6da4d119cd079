"""Compiled programs are kept between runs, in a folder that nobody else may write.

They are native code that jax loads and runs without asking where it comes from.
"""

import os
import stat
from pathlib import Path

import jax

from jepa_text.config import schema
from jepa_text.files import paths

PRIVATE = 'private'
_SHORTEST = 'jax_persistent_cache_min_compile_time_secs'


def choice():
    """The field `compilation_cache` of a config."""
    return schema.field(PRIVATE, "a folder; 'private': of the user; '': none")


def use_cache(choice, environ=os.environ):
    """Keeps compiled programs in a folder; returns its path, None without a cache.

    `choice`: 'private', the folder jepa_text/compiled of the user's cache; '' for no
    cache; else a path. JAX_COMPILATION_CACHE_DIR in the environment goes before all.
    All programs are kept, those too that compile in less than the second of jax's own
    bound, of which a start has many; unless the environment gives a bound.
    Raises ValueError for a folder that others may write to, or that belongs to another.
    """
    if _SHORTEST.upper() not in environ:
        jax.config.update(_SHORTEST, 0)
    if environ.get('JAX_COMPILATION_CACHE_DIR') or not choice:
        return jax.config.jax_compilation_cache_dir
    folder = private_folder(choice, 'compiled', 'compilation_cache', environ)
    jax.config.update('jax_compilation_cache_dir', str(folder))
    return str(folder)


def peak(compiled):
    """Bytes that the compiler plans for a device at most."""
    needed = compiled.memory_analysis()
    inputs = needed.argument_size_in_bytes - needed.alias_size_in_bytes
    return needed.peak_memory_in_bytes or (
        inputs + needed.output_size_in_bytes + needed.temp_size_in_bytes
    )


def private_folder(choice, name, key, environ=os.environ):
    """A folder that is made if need be, and that nobody else may write to.

    `choice` 'private' is jepa_text/<name> of the user's cache, else a path; `key` is the
    setting that errors name. Raises ValueError for a folder of another user, or one that
    others may write to.
    """
    home = Path(environ.get('XDG_CACHE_HOME') or '~/.cache').expanduser()
    given = home / 'jepa_text' / name if choice == PRIVATE else choice
    folder = Path(paths.local(key, given))
    folder = folder.expanduser().absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise ValueError(
            f'{key}={choice!r}: {folder} cannot be made ({error.strerror}). '
            "Name a folder of your own, or set it to '' to do without."
        ) from error
    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(
            f'{key}={choice!r}: {folder} belongs to another user or can be '
            'written by others, and what lies in it is trusted. chmod 700 it, or name '
            "another folder, or '' for none."
        )
    return folder
