"""Listing of the files that a path stands for: a file, a folder or a glob pattern.

Works on this machine and in object stores; of a web server, it is a file.
"""

import dataclasses
import functools
import glob
import os
import re

from jepa_text.files import addresses

WEB = ('http://', 'https://')


@dataclasses.dataclass(frozen=True)
class Listing:
    """The result of `expand`: the addresses.File to read, sorted; the number of other
    files; the commit of the repository that contains the files, or ''."""

    files: tuple
    skipped: int = 0
    commit: str = ''

    def __str__(self):
        text = f'{len(self.files):,} {"file" if len(self.files) == 1 else "files"} read'
        text += f' of commit {self.commit}' if self.commit else ''
        return f'{text}; {self.skipped:,} skipped' if self.skipped else text


def expand(path, suffixes):
    """Returns the Listing of a path.

    The path is a file, whatever its suffix; a folder, which is searched recursively; or a
    pattern with * (and ** for folders). From folders and patterns, the files that end in
    one of `suffixes` are taken, ignoring case, except hidden ones: those whose name, or
    that of a folder below `path`, begins with a dot. `path` itself may. Links are
    followed. Raises FileNotFoundError if there is no file to read, also for a web
    server's folder or pattern, OSError for a folder that cannot be read, and as
    `addresses.stat` does.
    """
    text, endings = os.fspath(path), tuple(suffixes)
    is_remote = addresses.is_address(text)
    if text.startswith(WEB):
        _check_file(text, endings)
    top, files = (_list_remote if is_remote else _list_local)(text)
    if top is None:
        return Listing(tuple(files))
    wanted = [
        file
        for file in files
        if addresses.ends_in(file.path, endings) and not _is_hidden(file.path, top)
    ]
    if not wanted:
        raise FileNotFoundError(
            f'{text} has no file that ends in {", ".join(endings)}, but {len(files):,} '
            'others. Give another folder or pattern (** matches what is in folders), '
            'or rename the files.'
        )
    skipped = len(files) - len(wanted)
    wanted = wanted if is_remote else _once(wanted)
    return Listing(tuple(sorted(wanted, key=lambda f: f.path.split('/'))), skipped)


def _check_file(address, endings):
    """Raises FileNotFoundError unless an address of a web server is that of a file: of
    a folder, the server sends a page in HTML."""
    name = address.partition('?')[0]
    if {*'*['} & {*name} or not addresses.ends_in(name, endings):
        raise FileNotFoundError(
            f'{address} is not the address of one file that ends in '
            f'{", ".join(endings)}. Folders and patterns of web servers cannot be read: '
            'give such a file, or download the files (wget --recursive) and give their '
            'folder.'
        )


def _list_remote(address):
    """Returns (the fixed part of the address, Files); (None, [File]) of a single file."""
    is_pattern = any(sign in address for sign in '*?[')
    try:
        if file := addresses.stat(address):
            return None, [file]
        is_pattern = False  # a folder whose name contains *, ? or [
    except FileNotFoundError:
        if not is_pattern:
            raise
    files = addresses.find(address, is_pattern)
    return _fixed(address) if is_pattern else address, files


def _list_local(text):
    """Returns (the fixed part of the path, Files without sizes); (None, [File]) of a
    single file."""
    if os.path.isfile(text):
        return None, [addresses.File(text, os.path.getsize(text))]
    is_folder = os.path.isdir(text)
    names = _below(text) if is_folder else glob.glob(text, recursive=True)
    names = list(dict.fromkeys(names))  # of two **, some are there twice
    if not names and not is_folder:
        raise FileNotFoundError(
            f'There is no file or folder at {text}, relative to {os.getcwd()}. Give a '
            "file, a folder, or a pattern such as 'texts/**/*.txt'."
        )
    files = [addresses.File(name) for name in names if not os.path.isdir(name)]
    return text if is_folder else _fixed(text), files


def _below(top):
    """Yields all files below a folder, whatever links there are: of each folder once, or
    also by a hidden path."""

    def fail(error):
        raise error

    seen = set()
    for parent, folders, names in os.walk(top, onerror=fail, followlinks=True):
        if (place := (os.path.realpath(parent), _is_hidden(parent, top))) in seen:
            folders.clear()
            continue
        seen.add(place)
        folders.sort()  # so that of two links, the same is followed anywhere
        yield from (os.path.join(parent, name) for name in names)


def _once(files):
    """Files with their sizes; one that a pattern finds in several ways, through links to
    folders, by the shortest."""
    once, real = {}, functools.cache(os.path.realpath)
    for path in sorted((f.path for f in files), key=lambda path: (path.count('/'), path)):
        once.setdefault((real(os.path.dirname(path)), os.path.basename(path)), path)
    return [addresses.File(path, os.path.getsize(path)) for path in once.values()]


def _is_hidden(path, top):
    return bool(re.search(r'/\.(?!\.?/)', f'/{path.removeprefix(top)}'))


def _fixed(pattern):
    """The folder of a pattern before its first *, ? or [."""
    return re.match(r'([^*?[]*/)?', pattern)[0]
