"""Listing of the files that a path stands for: a file, a folder or a glob pattern.

Works on this machine and at addresses.
"""

import collections
import dataclasses
import glob
import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor

from jepa_text.files import addresses, streams

SHOWN = 5
OTHER, AGAIN, BROKEN = 'other suffix', 'duplicate by a link', 'broken link'
STRANGE, UNREADABLE, HIDDEN = 'not a regular file', 'unreadable', 'hidden'
PACKED = 'compressed, also there uncompressed'


@dataclasses.dataclass(frozen=True)
class Found:
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
    """Returns the Found of a path.

    The path is a file, whatever its suffix; a folder, which is searched recursively; or a
    pattern with * (and ** for folders). From folders and patterns, the files that end in
    one of `suffixes` are taken, ignoring case, except hidden ones: those whose name, or
    that of a folder below `path`, begins with a dot. `path` itself may.

    Links are followed, and no file is taken twice, nor its compressed copy in the same
    folder: of a.txt and a.txt.gz, a.txt is taken. Raises FileNotFoundError if there is
    no file to read, ValueError if more files are unreadable than readable, and as
    `addresses.stat` does.
    """
    text = os.fspath(path)
    is_remote = addresses.is_address(text)
    files, others = _list_remote(text) if is_remote else _list_local(text)
    if others is None:
        return Found(text, tuple(files), {})
    skipped = collections.defaultdict(list, others)
    wanted, paths = [], {file.path for file in files}
    for file in sorted(files, key=lambda file: file.path.split('/')):
        plain, end = os.path.splitext(file.path)
        if end.lower() in streams.PACKED and plain in paths:
            skipped[PACKED].append(file.path)
        elif file.path.lower().endswith(tuple(suffixes)):
            wanted.append(file)
        else:
            skipped[OTHER].append(file.path)
    for reason in (BROKEN, UNREADABLE):
        for place in skipped.pop(reason, ()):
            suffix = os.path.splitext(place)[1].lower()
            other = suffix and not place.lower().endswith(tuple(suffixes))
            skipped[OTHER if other else reason].append(place)
    found = Found(text, tuple(wanted), dict(skipped))
    unreadable = [len(found.skipped.get(reason, ())) for reason in (BROKEN, UNREADABLE)]
    if sum(unreadable) > len(wanted):
        raise ValueError(
            f'Most files of {text} cannot be read: {found}. Repair the links and the '
            'permissions, or give a folder that contains only the files to read.'
        )
    if not wanted:
        existing = f' It contains: {found.skipped_summary}.' if skipped else ''
        raise FileNotFoundError(
            f'{text} has no file that ends in {", ".join(suffixes)}.{existing} Give '
            'another folder or pattern, or rename the files.'
        )
    return found


def _list_remote(address):
    """Returns (Files, {}) at an address; (Files, None) if it is a single file."""
    system, path = addresses.filesystem(address)
    path, is_web = path.rstrip('/'), address.startswith(('http://', 'https://'))
    is_pattern = any(sign in path for sign in ('*' if is_web else '*?['))
    if not is_web or not (is_pattern or address.endswith('/')):
        try:
            if file := addresses.stat(address):
                return [file], None
            is_pattern = False  # a folder whose name contains *, ? or [
        except FileNotFoundError:
            if not is_pattern:
                raise
    top = f'{path}/' if is_web and not is_pattern else path

    def request():
        system.invalidate_cache()
        return (system.glob if is_pattern else system.find)(top, detail=True)

    infos = addresses.with_retries(address, request)
    fixed = len(re.match(r'([^*?[]*/)?', top)[0] if is_pattern else top)
    names, hidden = [], set()
    for name, info in infos.items():
        found = re.match(r'(.*?/|)\.[^/]+', name[fixed:])
        if found and info['type'] == 'file':
            hidden.add(address.rstrip('/').removesuffix(path) + name[:fixed] + found[0])
        elif info['type'] == 'file':
            names.append(name)
    skipped = {HIDDEN: sorted(hidden)} if hidden else {}
    # Names in a file system lack the start of the address.
    named = {name: address.rstrip('/').removesuffix(path) + name for name in names}
    if not is_web:
        return [addresses.file_from_info(named[n], infos[n]) for n in names], skipped
    # The index page of a web folder does not contain sizes.
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(addresses.stat, named.values())), skipped


def _list_local(text):
    """Returns (Files, {reason: skipped paths}); (Files, None) for a single file."""
    if os.path.isfile(text):
        return [_file(text)], None
    tops = [text] if os.path.isdir(text) else sorted(glob.glob(text, recursive=True))
    # glob also returns broken links.
    if not tops or (tops == [text] and not os.path.exists(text)):
        raise FileNotFoundError(
            f'There is no file or folder at {text}, relative to {os.getcwd()}. Give a '
            "file, a folder, or a pattern such as 'texts/**/*.txt'."
        )
    files, skipped, seen = [], collections.defaultdict(list), set()
    # Links are visited last, so that files in the folder itself keep their own names.
    places, links = tops[::-1], []
    while places or links:
        place = (places or links).pop()
        inside, reason = _inspect(place, seen)
        for entry in inside:
            if os.path.basename(entry).startswith('.'):
                skipped[HIDDEN].append(entry)
                continue
            (links if os.path.islink(entry) else places).append(entry)
        if reason == '':
            files.append(_file(place))
        elif reason:
            skipped[reason].append(place)
    return files, skipped


def _inspect(place, seen):
    """Returns (entries if it is a folder, reason to skip it).

    The reason is '' for a readable file and None for a folder.
    """
    real = os.path.realpath(place)
    try:
        mode = os.stat(place).st_mode
        if real in seen:
            return [], AGAIN
        seen.add(real)
        if stat.S_ISDIR(mode):
            with os.scandir(place) as entries:
                return sorted(entry.path for entry in entries), None
    except OSError:
        return [], BROKEN if os.path.islink(place) else UNREADABLE
    if not stat.S_ISREG(mode):
        return [], STRANGE
    return [], '' if os.access(place, os.R_OK) else UNREADABLE


def _file(path):
    return addresses.File(path, os.path.getsize(path))
