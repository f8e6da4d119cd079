"""Listing of the files that a path stands for: a file, a folder or a glob pattern.

Works on this machine and in object stores; of a web server, it is a file.
"""

import collections
import dataclasses
import glob
import os
import re

from jepa_text.files import addresses, streams

SHOWN = 5
OTHER, AGAIN, HIDDEN = 'other suffix', 'duplicate by a link', 'hidden'
UNREADABLE = 'broken link, not a regular file, or no permission'
PACKED = 'compressed, also there uncompressed'


@dataclasses.dataclass(frozen=True)
class Listing:
    """The result of `expand`.

    top        the path that was expanded
    files      the addresses.File to read, sorted
    skipped    {reason: [paths below `top` that are not read]}
    commit     of the repository that contains the files, or ''
    """

    top: str
    files: tuple
    skipped: dict
    commit: str = ''

    def __str__(self):
        """Returns, for example, '3 files read; skipped: 1 (other suffix: a.md)'."""
        text = f'{len(self.files):,} {"file" if len(self.files) == 1 else "files"} read'
        text += f' of commit {self.commit}' if self.commit else ''
        return f'{text}; skipped: {self.skipped_summary}' if self.skipped else text

    @property
    def skipped_summary(self):
        """The number of skipped files per reason, with the names of the first few."""
        reasons = []
        for reason, paths in self.skipped.items():
            names = sorted(path.removeprefix(self.top).lstrip('/') for path in paths)
            more = ', ...' if len(names) > SHOWN else ''
            reasons.append(f'{len(names):,} ({reason}: {", ".join(names[:SHOWN])}{more})')
        return ', '.join(reasons)


def expand(path, suffixes):
    """Returns the Listing of a path.

    The path is a file, whatever its suffix; a folder, which is searched recursively; or a
    pattern with * (and ** for folders). From folders and patterns, the files that end in
    one of `suffixes` are taken, ignoring case, except hidden ones: those whose name, or
    that of a folder below `path`, begins with a dot. `path` itself may.

    Links are followed, and no file is taken twice, nor its compressed copy in the same
    folder: of a.txt and a.txt.gz, a.txt is taken. Raises FileNotFoundError if there is
    no file to read, ValueError if a file with such a suffix is unreadable, and as
    `addresses.stat` does.
    """
    text = os.fspath(path)
    list_files = _list_remote if addresses.is_address(text) else _list_local
    top, files, others = list_files(text)
    if top is None:
        return Listing(text, tuple(files), {})
    endings = tuple(suffixes)
    skipped, wanted = collections.defaultdict(list, others), []
    paths = {file.path for file in files}
    for file in sorted(files, key=lambda file: file.path.split('/')):
        plain, end = os.path.splitext(file.path)
        if hidden := re.match(r'(.*?/|)\.[^/]+', file.path.removeprefix(top)):
            place = os.path.join(top, hidden[0].lstrip('/'))
            if place not in skipped[HIDDEN]:
                skipped[HIDDEN].append(place)
        elif end.lower() in streams.PACKED and plain in paths:
            skipped[PACKED].append(file.path)
        elif file.path.lower().endswith(endings):
            wanted.append(file)
        else:
            skipped[OTHER].append(file.path)
    unread = [
        name for name in others.get(UNREADABLE, ()) if name.lower().endswith(endings)
    ]
    if unread:
        raise ValueError(
            f'{unread[0]} cannot be read ({UNREADABLE}). Repair or remove it, or give a '
            'pattern of the files to read.'
        )
    listing = Listing(text, tuple(wanted), dict(skipped))
    if not wanted:
        existing = f' It contains: {listing.skipped_summary}.' if skipped else ''
        raise FileNotFoundError(
            f'{text} has no file that ends in {", ".join(suffixes)}.{existing} Give '
            'another folder or pattern, or rename the files.'
        )
    return listing


def _list_remote(address):
    """Returns (the fixed part of the address, Files, {}); (None, [File], {}) of a single
    file."""
    system, path = addresses.filesystem(address)
    is_pattern = any(sign in path for sign in '*?[')
    try:
        if file := addresses.stat(address):
            return None, [file], {}
        is_pattern = False  # a folder whose name contains *, ? or [
    except FileNotFoundError:
        if not is_pattern:
            raise

    def request():
        system.invalidate_cache()
        return (system.glob if is_pattern else system.find)(path, detail=True)

    # Names in a file system lack the start of the address.
    start = address.rstrip('/').removesuffix(path.rstrip('/'))
    infos = addresses.with_retries(address, request)
    files = [
        addresses.file_of(start + name, info)
        for name, info in infos.items()
        if info['type'] == 'file'
    ]
    return _fixed(address) if is_pattern else address, files, {}


def _list_local(text):
    """Returns (the fixed part of the path, Files, {reason: skipped paths});
    (None, [File], {}) of a single file."""
    if os.path.isfile(text):
        return None, [addresses.File(text, os.path.getsize(text))], {}
    is_folder = os.path.isdir(text)
    places = [text] if is_folder else sorted(glob.glob(text, recursive=True))[::-1]
    # glob also returns broken links.
    if not places or (places == [text] and not is_folder):
        raise FileNotFoundError(
            f'There is no file or folder at {text}, relative to {os.getcwd()}. Give a '
            "file, a folder, or a pattern such as 'texts/**/*.txt'."
        )
    files, skipped, seen = [], collections.defaultdict(list), set()
    # Links are visited last, so that files in the folder itself keep their own names.
    links = []
    while places or links:
        place = (places or links).pop()
        if (real := os.path.realpath(place)) in seen:
            skipped[AGAIN].append(place)
            continue
        seen.add(real)
        if os.path.isdir(place) and os.access(place, os.R_OK | os.X_OK):
            for name in sorted(os.listdir(place), reverse=True):
                entry = os.path.join(place, name)
                (links if os.path.islink(entry) else places).append(entry)
        elif os.path.isfile(place) and os.access(place, os.R_OK):
            files.append(addresses.File(place, os.path.getsize(place)))
        else:
            skipped[UNREADABLE].append(place)
    return text if is_folder else _fixed(text), files, skipped


def _fixed(pattern):
    """The folder of a pattern before its first *, ? or [."""
    return re.match(r'([^*?[]*/)?', pattern)[0]
