"""Where a path may lead: into the file system of this machine, and nowhere else."""

import os
import re

# pathlib makes gs:/b of gs://b, and hands forget the rest. One letter is a drive.
SCHEME = re.compile(r'[A-Za-z][A-Za-z0-9+.-]+:/|(gs|gcs|s3|s3a):')
MODEL = 'hf:'


def local(what, path, model=False):
    """The path as text. With `model`, the name of a model, 'hf:NAME_OR_FOLDER', too.

    Raises ValueError for an address such as gs://bucket/run, of which pathlib and Orbax
    would make the folder ./gs:, and for what is no path or an empty one, which would be
    the current folder. `what` names it.
    """
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f'{what}={path!r} must be a path.')
    text = os.fspath(path)
    named = model and text.startswith(MODEL) and not text.startswith(f'{MODEL}//')
    place = text.removeprefix(MODEL) if named else text
    if not place:
        raise ValueError(
            f'{what}={text!r} names no file or folder; the current one would be . alone.'
        )
    if SCHEME.match(place) or place.startswith(MODEL):
        wanted = "a path, or 'hf:' and a name or folder" if model else 'a path'
        raise ValueError(
            f'{what}={text!r} is an address; what is wanted is {wanted}. Only what lies '
            'in the file system of this machine is read and written: mount the bucket '
            '(gcsfuse, mountpoint-s3), or copy it here, and give that path.'
        )
    return text
