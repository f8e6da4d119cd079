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
STRANGE = 'no plain file'


@dataclasses.dataclass(frozen=True)
class Found:
    """Files to read, sorted by path; and {why: [path of what is left out, ...]}."""

    top: str
    files: tuple
    skipped: dict

    def __str__(self):
        """Such as '3 files; left out: 2 of another ending (a.md, b/c.csv)'."""
        text = f'{len(self.files):,} file{"s" * (len(self.files) != 1)}'
        kinds = [_kind(why, paths) for why, paths in self.skipped.items()]
        return f'{text}; left out: {", ".join(kinds)}' if kinds else text


def _kind(why, paths):
    more = ', ...' if len(paths) > SHOWN else ''
    return f'{len(paths):,} {why} ({", ".join(sorted(paths)[:SHOWN])}{more})'


def expand(path, suffixes):
    """The Found of a path: a file, whatever its ending; a folder, with all below it; or a
    pattern with * (and ** for folders), of which, as of a folder, files count that end in
    `suffixes`, in small letters or large.

    Links are followed, and nothing is taken twice. Raises FileNotFoundError when there is
    no file to read, and as `addresses.stated` does.
    """
    text = os.fspath(path)
    away = addresses.is_address(text)
    files, others = _away(text) if away else _here(text)
    if others is None:
        return Found(text, tuple(files), {})
    skipped = collections.defaultdict(list, others)
    wanted = []
    for file in sorted(files):
        if file.path.lower().endswith(tuple(suffixes)):
            wanted.append(file)
        else:
            skipped[OTHER].append(file.path)
    found = Found(text, tuple(wanted), dict(skipped))
    if not wanted:
        raise FileNotFoundError(
            f'{text} has no file that ends in {", ".join(suffixes)} ({found}). Give '
            'another folder or pattern, or rename the files.'
        )
    return found


def _away(address):
    """(Files, {} or None for a single file) at an address."""
    system, path = addresses.filesystem(address)
    path = path.rstrip('/')
    web = address.startswith(('http://', 'https://'))

    pattern = any(sign in path for sign in ('*' if web else '*?['))
    if not (web and (pattern or address.endswith('/'))):
        try:
            file = addresses.stated(address)
        except FileNotFoundError:
            if not pattern:
                raise
        else:
            pattern = False
            if file:
                return [file], None

    top = f'{path}/' if web and not pattern else path

    def ask():
        system.invalidate_cache()
        return (system.glob if pattern else system.find)(top, detail=True)

    infos = addresses.patiently(address, ask)
    names = [name for name, info in infos.items() if info['type'] == 'file']
    # Names in a file system lack what comes before them in the address.
    named = {name: address.rstrip('/').removesuffix(path) + name for name in names}
    if not web:
        return [addresses.described(named[n], infos[n]) for n in names], {}
    # The page that lists a folder does not tell sizes.
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(addresses.stated, named.values())), {}


def _here(text):
    """(Files, {why: paths of what is none}, or None for a single file) of a path here."""
    if os.path.isfile(text):
        return [_file(text)], None
    tops = [text] if os.path.isdir(text) else sorted(glob.glob(text, recursive=True))
    if not tops:
        raise FileNotFoundError(f'There is no file or folder at {text}.')
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
    if real in seen:
        return [], AGAIN
    seen.add(real)
    if not os.path.exists(place):
        return [], BROKEN
    if os.path.isdir(place):
        return [os.path.join(place, name) for name in sorted(os.listdir(place))], None
    return [], '' if stat.S_ISREG(os.stat(place).st_mode) else STRANGE


def _file(path):
    return addresses.File(path, os.path.getsize(path))
