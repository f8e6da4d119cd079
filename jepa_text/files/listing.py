"""Which files a path means: itself, all of a folder and below it, or those that a pattern
fits; on this machine or at an address."""

import collections
import dataclasses
import glob
import os
import stat
from concurrent.futures import ThreadPoolExecutor

from jepa_text.files import addresses

SHOWN = 5
OTHER, AGAIN, BROKEN = 'of another ending', 'reached again by a link', 'a broken link'
STRANGE, UNREADABLE = 'no plain file', 'not to be read'


@dataclasses.dataclass(frozen=True)
class Found:
    """Files to read, sorted; and {why: [path of what below `top` is left out, ...]}.

    commit    of the repository that they are in, '' of no repository
    """

    top: str
    files: tuple
    skipped: dict
    commit: str = ''

    def __str__(self):
        """Such as '3 files read; left out: 2 of another ending (a.md, b/c.csv)'."""
        text = f'{len(self.files):,} {"file" if len(self.files) == 1 else "files"} read'
        text += f' of commit {self.commit}' if self.commit else ''
        return f'{text}; left out: {self.left_out}' if self.skipped else text

    @property
    def left_out(self):
        """What is left out, counted, and the first of each kind by name."""
        kinds = []
        for why, paths in self.skipped.items():
            names = sorted(path.removeprefix(self.top).lstrip('/') for path in paths)
            more = ', ...' if len(names) > SHOWN else ''
            kinds.append(f'{len(names):,} {why} ({", ".join(names[:SHOWN])}{more})')
        return ', '.join(kinds)


def expand(path, suffixes):
    """The Found of a path: a file, whatever its ending; a folder, with all below it; or a
    pattern with * (and ** for folders), of which, as of a folder, files count that end in
    `suffixes`, in small letters or large.

    Links are followed, and nothing is taken twice. Raises FileNotFoundError when there is
    no file to read, ValueError when more cannot be read than can, and as
    `addresses.stated` does.
    """
    text = os.fspath(path)
    away = addresses.is_address(text)
    files, others = _away(text) if away else _here(text)
    if others is None:
        return Found(text, tuple(files), {})
    skipped = collections.defaultdict(list, others)
    wanted = []
    for file in sorted(files, key=lambda file: file.path.split('/')):
        if file.path.lower().endswith(tuple(suffixes)):
            wanted.append(file)
        else:
            skipped[OTHER].append(file.path)
    for why in (BROKEN, UNREADABLE):
        for place in skipped.pop(why, ()):
            ending = os.path.splitext(place)[1].lower()
            other = ending and not place.lower().endswith(tuple(suffixes))
            skipped[OTHER if other else why].append(place)
    found = Found(text, tuple(wanted), dict(skipped))
    unread = [len(found.skipped.get(why, ())) for why in (BROKEN, UNREADABLE)]
    if sum(unread) > len(wanted):
        raise ValueError(
            f'Most of {text} cannot be read: {found}. Mend the links and the '
            'permissions, or give a folder of what is to be read.'
        )
    if not wanted:
        there = f' It has: {found.left_out}.' if skipped else ''
        raise FileNotFoundError(
            f'{text} has no file that ends in {", ".join(suffixes)}.{there} Give another '
            'folder or pattern, or rename the files.'
        )
    return found


def _away(address):
    """(Files, {} or None for a single file) at an address."""
    system, path = addresses.filesystem(address)
    path, is_web = path.rstrip('/'), address.startswith(('http://', 'https://'))
    is_pattern = any(sign in path for sign in ('*' if is_web else '*?['))
    if not is_web or not (is_pattern or address.endswith('/')):
        try:
            if file := addresses.stated(address):
                return [file], None
            is_pattern = False  # but the name of a folder
        except FileNotFoundError:
            if not is_pattern:
                raise
    top = f'{path}/' if is_web and not is_pattern else path

    def ask():
        system.invalidate_cache()
        return (system.glob if is_pattern else system.find)(top, detail=True)

    infos = addresses.patiently(address, ask)
    names = [name for name, info in infos.items() if info['type'] == 'file']
    # Names in a file system lack what comes before them in the address.
    named = {name: address.rstrip('/').removesuffix(path) + name for name in names}
    if not is_web:
        return [addresses.described(named[n], infos[n]) for n in names], {}
    # The page that lists a folder does not tell sizes.
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(addresses.stated, named.values())), {}


def _here(text):
    """(Files, {why: paths of what is none}, or None for a single file) of a path here."""
    if os.path.isfile(text):
        return [_file(text)], None
    tops = [text] if os.path.isdir(text) else sorted(glob.glob(text, recursive=True))
    # A broken link has a name, too.
    if not tops or (tops == [text] and not os.path.exists(text)):
        raise FileNotFoundError(
            f'There is no file or folder at {text}, seen from {os.getcwd()}. Give a '
            "file, a folder, or a pattern such as 'texts/**/*.txt'."
        )
    files, skipped, seen = [], collections.defaultdict(list), set()
    # Links last: what lies in the folder itself keeps its own name.
    places, links = tops[::-1], []
    while places or links:
        place = (places or links).pop()
        inside, why = _inspect(place, seen)
        for entry in inside:
            (links if os.path.islink(entry) else places).append(entry)
        if why == '':
            files.append(_file(place))
        elif why:
            skipped[why].append(place)
    return files, skipped


def _inspect(place, seen):
    """(entries of a folder, why it is no file to read): '' for one that is, None for a
    folder."""
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
