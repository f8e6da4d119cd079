"""Which files a corpus has: of a folder, all below it, and by name what is left out."""

import collections
import dataclasses
import os
import pathlib
import stat

from jepa_text.files import paths

SHOWN = 5
OTHER, AGAIN, BROKEN = 'of another ending', 'reached again by a link', 'a broken link'
STRANGE, UNREADABLE = 'no plain file', 'not to be read'


@dataclasses.dataclass(frozen=True)
class Found:
    """Files to read, sorted; and {why: [what below `top` is left out, ...]}."""

    top: pathlib.Path
    files: list
    skipped: dict

    def __str__(self):
        """Such as '3 files read; left out: 2 of another ending (a.md, b/c.csv)'."""
        text = f'{len(self.files):,} {"file" if len(self.files) == 1 else "files"} read'
        return f'{text}; left out: {self.left_out}' if self.skipped else text

    @property
    def left_out(self):
        """What is left out, counted, and the first of each kind by name."""
        kinds = []
        for why, places in self.skipped.items():
            names = sorted(os.path.relpath(place, self.top) for place in places)
            more = ', ...' if len(names) > SHOWN else ''
            kinds.append(f'{len(names):,} {why} ({", ".join(names[:SHOWN])}{more})')
        return ', '.join(kinds)


def find(path, suffixes):
    """The file itself, or the files of a folder and below it that end in `suffixes`,
    in small letters or large.

    Links are followed, and nothing is read twice. Raises FileNotFoundError when there
    is nothing to read, ValueError when more cannot be read than can.
    """
    top = pathlib.Path(paths.local('The path of the corpus', path))
    if top.is_file():
        return Found(top, [top], {})
    if not top.is_dir():
        raise FileNotFoundError(
            f'There is no corpus at {top}. Give an existing file ({", ".join(suffixes)})'
            ' or a folder of such files.'
        )
    files, skipped, seen = [], collections.defaultdict(list), set()
    # Links last: what lies in the folder itself keeps its own name.
    places, links = [top], []
    while places or links:
        place = (places or links).pop()
        inside, why = _inspect(place, suffixes, seen)
        for entry in inside:
            (links if entry.is_symlink() else places).append(pathlib.Path(entry.path))
        if why == '':
            files.append(place)
        elif why:
            skipped[why].append(place)
    found = Found(top, sorted(files), dict(skipped))
    _check(found, suffixes)
    return found


def _inspect(place, suffixes, seen):
    """(entries of a folder, why the place is not read): '' for a file that is, None for a
    folder."""
    real, wanted = os.path.realpath(place), place.name.lower().endswith(suffixes)
    try:
        mode = os.stat(place).st_mode
        if real in seen:
            return [], AGAIN
        seen.add(real)
        if stat.S_ISDIR(mode):
            with os.scandir(place) as entries:
                return list(entries), None
    except OSError:
        if place.suffix and not wanted:
            return [], OTHER
        return [], BROKEN if place.is_symlink() else UNREADABLE
    if not wanted:
        return [], OTHER
    if not stat.S_ISREG(mode):
        return [], STRANGE
    return [], '' if os.access(place, os.R_OK) else UNREADABLE


def _check(found, suffixes):
    unread = [len(found.skipped.get(why, ())) for why in (BROKEN, UNREADABLE)]
    if sum(unread) > len(found.files):
        raise ValueError(
            f'Most of {found.top} cannot be read: {found}. Mend the links and the '
            'permissions, or give a folder of what is to be read.'
        )
    if not found.files:
        there = f' It has: {found.left_out}.' if found.skipped else ''
        raise FileNotFoundError(
            f'The folder {found.top} has no files that end in {", ".join(suffixes)}.'
            f'{there} Give another folder, or rename the files.'
        )
