"""Files of text to lines, strictly; and which documents are held out.

What several sources share: gzip and zstandard, UTF-8 with the place of a bad byte, pieces
of a large file, and one rule for the held-out split:

    a document is held out  <=>  sha256(its text) mod heldout_every == 0

It looks at nothing but the text. So a corpus that grows or is sorted anew keeps its
split, and two copies of a document never end up on both sides.
"""

import hashlib
import json
import os

from jepa_text.data.corpora import invalid_text
from jepa_text.files import streams

SPLITS = ('train', 'heldout')
CHUNK = 2**20  # characters: a long text is not copied as a whole
LONGEST = 2**28  # bytes of a line
PACKED = ('.gz', '.zst')
ENDS = ('', *PACKED)


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
    return split_of(text, heldout_every) == split


def split_of(text, heldout_every):
    """'heldout' of about one text in that many, 'train' of the others; of bytes that are
    no text, too."""
    digest = hashlib.sha256()
    for start in range(0, len(text), CHUNK):
        part = text[start : start + CHUNK]
        digest.update(part if isinstance(part, bytes) else part.encode('utf-8'))
    is_heldout = int.from_bytes(digest.digest()[:8], 'little') % heldout_every == 0
    return 'heldout' if is_heldout else 'train'


def lines(path, start=0, stop=None, strict=True):
    """The lines of a UTF-8 file (.gz, .zst or plain) as (number from 1, text without its
    end); of a plain one those from byte `start` to `stop`, where lines begin.

    `path` is one of this machine, an address, or an addresses.File. A byte order mark at
    the beginning is dropped, \\r\\n counts as \\n. Raises ValueError with the byte offset
    of what is not UTF-8 (without `strict`, an invalid_text.Bad in its place), for a
    damaged file, and for a line of more than LONGEST bytes; and as streams.open_bytes.
    """
    offset = start
    with streams.open_bytes(path, start, stop) as file:
        for number, data in enumerate(_raw_lines(file, path), 1):
            line = data
            if offset == 0:
                line = line.removeprefix(b'\xef\xbb\xbf')
            try:
                text = line.decode('utf-8').removesuffix('\n').removesuffix('\r')
            except UnicodeDecodeError as error:
                at = offset + len(data) - len(line) + error.start
                where = f'{number}{after(start)}'
                told = _not_utf8(path, where, at, line[error.start])
                if strict:
                    raise ValueError(told) from error
                text = invalid_text.Bad(invalid_text.NOT_UTF8, told)
            offset += len(data)
            yield number, text


def line_starts(file, size, blank=False):
    """Offsets, about `size` bytes apart, at which lines of a plain addresses.File begin;
    with `blank` only such as follow a blank line."""
    with streams.open_bytes(file) as stream:
        at = size
        while at < file.size:
            # The rest of the line that the byte before is in.
            stream.seek(at - 1)
            stream.readline(LONGEST)
            while blank and stream.readline(LONGEST).strip():
                pass
            if (at := stream.tell()) < file.size:
                yield at
            at += size


def is_packed(path):
    """Is it gzip or zstandard, which is read from the beginning alone?"""
    return str(path).lower().endswith(PACKED)


def after(start):
    """Where lines are counted from, of a piece."""
    return f' after byte {start:,}' if start else ''


def _raw_lines(file, path):
    while line := file.readline(LONGEST + 1):
        if len(line) > LONGEST:
            raise ValueError(
                f'{path} has a line of more than {LONGEST:,} bytes, that begins with '
                f'{line[:60]!r}. Split it into documents.'
            )
        yield line


def _not_utf8(path, number, offset, byte):
    unpacked = ' of the unpacked text' if is_packed(path) else ''
    return (
        f'{path} is not UTF-8: byte 0x{byte:02x} at byte offset {offset}{unpacked}, line '
        f'{number}. Convert it first, for example `iconv -f WINDOWS-1252 -t UTF-8 '
        f'{os.path.basename(str(path))} > utf8.txt`.'
    )


def objects(path, start=0, stop=None, strict=True):
    """('FILE, line N', dict) of every line of JSON that is not blank, of `lines`; without
    `strict` a invalid_text.Bad in the place of one that is not UTF-8.

    Raises ValueError for a line that holds anything but an object.
    """
    for number, line in lines(path, start, stop, strict):
        where = f'{path}, line {number}{after(start)}'
        if isinstance(line, invalid_text.Bad):
            yield where, line
        elif line.strip():
            yield where, _object(line, where)


def _object(line, where):
    try:
        found = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f'{where} is not JSON that can be read: {error}. Each line must be one JSON '
            'object; mend or remove the line.'
        ) from error
    if not isinstance(found, dict):
        raise ValueError(
            f'{where} is a JSON {type(found).__name__}, not an object. Each line must '
            'look like {"text": "..."}.'
        )
    return found
