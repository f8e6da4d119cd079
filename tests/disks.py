"""A disk that can be full."""

import contextlib
import shutil
import subprocess

import pytest


@contextlib.contextmanager
def small(path, size):
    """A real, full-able disk for those who may mount one (root)."""
    path.mkdir()
    command = ['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', str(path)]
    if (
        not shutil.which('mount')
        or subprocess.run(command, capture_output=True).returncode
    ):
        pytest.skip('this user may not mount a tmpfs')
    try:
        yield path
    finally:
        subprocess.run(['umount', '-l', str(path)], check=True)
