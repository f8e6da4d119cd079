"""Files of text to lines, strictly; and which documents are held out.

What several sources share: finding files, gzip, UTF-8 with the place of a bad byte, and
one rule for the held-out split:

    a document is held out  <=>  sha256(its text) mod heldout_every == 0

It looks at nothing but the text. So a corpus that grows or is sorted anew keeps its
split, and two copies of a document never end up on both sides.
"""

import gzip
import hashlib
import pathlib
import zlib

from jepa_text import paths

SPLITS = ('train', 'heldout')


def check_split(split, heldout_every):
    """Raises ValueError for an unknown split or a rule that makes no sense."""
    if split not in SPLITS:
        raise ValueError(f'There is no split {split!r}; take one of {SPLITS}.')
    is_whole = isinstance(heldout_every, int) and not isinstance(heldout_every, bool)
    if not is_whole or heldout_every < 2:
        raise ValueError(
            f'heldout_every={heldout_every!r} must be a whole number from 2 on: about '
            'one document in that many is held out.'
        )


def in_split(text, split, heldout_every):
    """Does a document of this text belong to the split?"""
    digest = hashlib.sha256(text.encode('utf-8')).digest()
    is_heldout = int.from_bytes(digest[:8], 'little') % heldout_every == 0
    return is_heldout == (split == 'heldout')


def find_files(path, suffixes):
    """The file itself, or the files of a folder (and below) with such endings, sorted.

    Raises FileNotFoundError when there is nothing.
    """
    path = pathlib.Path(paths.local('The path of the corpus', path))
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(
            f'There is no corpus at {path}. Give an existing file ({", ".join(suffixes)})'
            ' or a folder of such files.'
        )
    files = [f for f in path.rglob('*') if f.is_file() and f.name.endswith(suffixes)]
    if not files:
        raise FileNotFoundError(
            f'The folder {path} has no files that end in {", ".join(suffixes)}. Give '
            'another folder, or rename the files.'
        )
    return sorted(files)


def lines(path):
    """The lines of a UTF-8 file (.gz or plain) as (number from 1, text without its end).

    A byte order mark at the beginning is dropped, \\r\\n counts as \\n. Raises ValueError
    with the byte offset of what is not UTF-8, and for a damaged gzip file.
    """
    opener = gzip.open if path.name.endswith('.gz') else open
    offset = 0
    with opener(path, 'rb') as file:
        for number, data in enumerate(_raw_lines(file, path), 1):
            line = data
            if number == 1:
                line = line.removeprefix(b'\xef\xbb\xbf')
            try:
                text = line.decode('utf-8')
            except UnicodeDecodeError as error:
                at = offset + len(data) - len(line) + error.start
                raise ValueError(
                    _not_utf8(path, number, at, line[error.start])
                ) from error
            offset += len(data)
            yield number, text.removesuffix('\n').removesuffix('\r')


def _raw_lines(file, path):
    try:
        yield from file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f'{path} is a damaged or cut gzip file ({error}). Copy or download it again; '
            '`gzip -t` tests it.'
        ) from error


def _not_utf8(path, number, offset, byte):
    unpacked = ' of the unpacked text' if path.name.endswith('.gz') else ''
    return (
        f'{path} is not UTF-8: byte 0x{byte:02x} at byte offset {offset}{unpacked}, line '
        f'{number}. Convert it first, for example `iconv -f WINDOWS-1252 -t UTF-8 '
        f'{path.name} > utf8.txt`.'
    )
