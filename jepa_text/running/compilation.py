"""Persistent compilation cache, in a folder that only its owner can write to.

jax loads and runs the native code in it without verification.
"""

import logging
import os
import stat
from pathlib import Path

import jax

from jepa_text.files import paths

_log = logging.getLogger(__name__)
_SHORTEST = 'jax_persistent_cache_min_compile_time_secs'


def use_cache(environ=os.environ):
    """Enables jax's persistent compilation cache; returns its path, or None without one.

    It is the folder jepa_text/compiled in the user's cache, unless the environment
    variable JAX_COMPILATION_CACHE_DIR names another, or is empty: no cache. All programs
    are cached, including the many that compile in less than one second, jax's default
    minimum, unless the environment sets a minimum. If the user's cache cannot be written
    to, warns and uses none. Raises ValueError for a folder that others can write to or
    that belongs to another user.
    """
    if _SHORTEST.upper() not in environ:
        jax.config.update(_SHORTEST, 0)
    if 'JAX_COMPILATION_CACHE_DIR' not in environ:
        home = Path(environ.get('XDG_CACHE_HOME') or '~/.cache')
        folder = home / 'jepa_text' / 'compiled'
        try:
            folder = private_folder(folder, 'the compilation cache')
        except OSError as error:
            text = 'No compilation cache: %s. JAX_COMPILATION_CACHE_DIR names another.'
            _log.warning(text, error)
            return None
        jax.config.update('jax_compilation_cache_dir', str(folder))
    return jax.config.jax_compilation_cache_dir


def peak(compiled):
    """Peak memory per device in bytes, according to the compiler."""
    needed = compiled.memory_analysis()
    inputs = needed.argument_size_in_bytes - needed.alias_size_in_bytes
    return needed.peak_memory_in_bytes or (
        inputs + needed.output_size_in_bytes + needed.temp_size_in_bytes
    )


def private_folder(folder, what):
    """A folder that only its owner can write to, created if missing.

    Raises ValueError for a folder that belongs to another user or that others can write
    to.
    """
    folder = Path(paths.local(what, folder)).absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(
            f'{what}: {folder} belongs to another user or is writable by others, and its '
            'content is trusted. chmod 700 it, or use another folder.'
        )
    return folder
