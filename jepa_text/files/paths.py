"""Validation of local paths, which rejects addresses such as gs://bucket/run."""

import os
import re
from pathlib import Path

# pathlib turns gs://b into gs:/b, and people forget the slashes. A single letter is a
# Windows drive.
SCHEME = re.compile(r'[A-Za-z][A-Za-z0-9+.-]+:/|(gs|gcs|s3|s3a):')
MODEL = 'hf:'


def local(what, path):
    """Returns a local path as text, with ~ expanded.

    `what` names the value in errors. Raises ValueError if it is not a path; if it is
    empty, which would mean the current folder; and for an address such as gs://bucket/run,
    for which pathlib and Orbax would create a folder ./gs:.
    """
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f'{what}={path!r} must be a path.')
    text = os.fspath(path)
    if not text:
        raise ValueError(
            f'{what}={text!r} is empty: give a file or folder; the current folder is "."'
        )
    if SCHEME.match(text) or text.startswith(MODEL):
        raise ValueError(
            f'{what}={text!r} is an address; expected a local path. Only local files are '
            'supported here: mount the bucket (gcsfuse, mountpoint-s3) or copy it to '
            'this machine, and give that path.'
        )
    return os.path.expanduser(text)


def check_folder(what, path):
    """Raises ValueError if a file is where a local folder, or one above it, should be."""
    if SCHEME.match(path):
        return
    for part in (Path(path), *Path(path).parents):
        if part.is_file():
            raise ValueError(
                f'{what}={path}: {part} is a file, but must be a folder. Give another '
                'folder, or move the file.'
            )
