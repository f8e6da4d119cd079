"""Text files to lines, JSON objects and cells, and the rule for the held-out split.

Shared by several sources: compressed files, UTF-8 with the position of an invalid byte,
pieces of a large file, and one rule for the held-out split:

    a document is held out  <=>  sha256(its text) mod heldout_every == 0

The split depends only on the text. So it stays the same if a corpus grows or is sorted
differently, and copies of a document are always in the same split.
"""

import csv
import hashlib
import json

from jepa_text.data.corpora import invalid_text
from jepa_text.files import addresses, streams
from jepa_text.settings import ranges, resolve

SPLITS = ('train', 'heldout')
LONGEST = 2**28  # maximum bytes of a line
CELL = 2**24  # maximum characters of a cell of a CSV
PACKED = streams.PACKED
ENDS = ('', *PACKED)
BOM = b'\xef\xbb\xbf'
_LINES = (
    'Each line must look like {"text": "..."}: fix or remove the line. Of a file that is '
    'one list, `jq -c ".[]"` makes such lines.'
)


def check_split(split, heldout_every):
    """Raises ValueError for an unknown split or an invalid `heldout_every`."""
    resolve.check_choice('split', split, SPLITS)
    ranges.number('heldout_every', heldout_every, whole=True, minimum=2)


def split_of(text, heldout_every):
    """Returns 'heldout' for about one text in that many, else 'train'."""
    digest = hashlib.sha256(text.encode('utf-8')).digest()
    number = int.from_bytes(digest[:8], 'little')
    # 100.0 is valid, but a remainder by it would be rounded.
    is_heldout = number % int(heldout_every) == 0
    return 'heldout' if is_heldout else 'train'


def lines(path, start=0, stop=None, strict=True):
    """Yields (number from 1, line without its end) of a UTF-8 file (compressed or plain);
    of a plain file only from byte `start` to `stop`, where lines must begin.

    `path` is a local path, an address, or an addresses.File. A byte order mark at the
    beginning is dropped; \\n, \\r\\n and \\r end a line. Raises ValueError with the byte
    offset for invalid UTF-8; without `strict`, yields an invalid_text.Bad instead.
    """
    for number, at, data in _raw_lines(path, start, stop):
        try:
            yield number, data.decode('utf-8').rstrip('\r\n')
        except UnicodeDecodeError as error:
            if not strict:
                yield number, invalid_text.Bad(invalid_text.NOT_UTF8)
                continue
            byte = data[error.start]
            raise ValueError(
                f'{path} is not UTF-8: byte 0x{byte:02x} at byte {at + error.start}, '
                f'line {number}{after(start)}. Convert it first, for example `iconv -f '
                'WINDOWS-1252 -t UTF-8`, or -f UTF-16; if it is compressed, its name '
                f'must end in {", ".join(streams.PACKED)}.'
            ) from error


def line_starts(file, size, blank=False):
    """Yields offsets, about `size` bytes apart, at which lines of a plain addresses.File
    begin; with `blank`, only offsets after a blank line."""
    with streams.open_bytes(file) as stream:
        at = size
        while at < file.size:
            # Skip the rest of the line that contains the previous byte.
            stream.seek(at - 1)
            stream.readline(LONGEST)
            while blank and stream.readline(LONGEST).strip():
                pass
            if (at := stream.tell()) < file.size:
                yield at
            at += size


def is_compressed(path):
    """Whether a file is compressed, so that it can only be read from the beginning."""
    return addresses.ends_in(path, PACKED)


def after(start):
    """Returns the suffix of a message that says from which byte lines are counted."""
    return f' after byte {start:,}' if start else ''


def _raw_lines(path, start=0, stop=None):
    r"""Yields (number from 1, offset, bytes of a line with its end: \n, \r\n or \r)."""
    number, at = 0, start
    with streams.open_bytes(path) as file:
        if start:
            file.seek(start)
        elif file.peek(len(BOM)).startswith(BOM):
            at = len(file.read(len(BOM)))
        while (stop is None or at < stop) and (data := file.readline(LONGEST + 1)):
            if len(data) > LONGEST:
                raise ValueError(
                    f'{path} has a line of more than {LONGEST:,} bytes, which begins '
                    f'with {data[:60]!r}. Split it into documents.'
                )
            for line in data.splitlines(keepends=True):
                number += 1
                yield number, at, line
                at += len(line)


def records(path, is_tsv, strict=True, delimiter=','):
    """Yields (number of its last line, cells) of each record of a table, without blank
    lines.

    Cells of a CSV may be quoted as in RFC 4180 and span lines, and are separated by the
    `delimiter`; those of a TSV are taken literally. Raises ValueError, with the line, for
    any other CSV, and what `lines` raises; but without `strict`, each byte that is not
    UTF-8 is escaped as a lone surrogate (PEP 383).
    """
    if strict:
        read = lines(path)
    else:
        read = (
            (number, data.decode('utf-8', 'surrogateescape').rstrip('\r\n'))
            for number, _, data in _raw_lines(path)
        )
    if is_tsv:
        yield from ((n, line.split('\t')) for n, line in read if line.strip())
        return
    # By default 131,072, and for the whole process.
    csv.field_size_limit(max(CELL, csv.field_size_limit()))
    table = csv.reader(
        (f'{line}\n' for _, line in read), delimiter=delimiter, strict=True
    )
    try:
        for cells in table:
            if cells:
                yield table.line_num, cells
    except csv.Error as error:
        raise ValueError(
            f'{path}, line {table.line_num} is not CSV: {error}. A cell with a comma or '
            'a quote must be quoted, and a quote in it doubled.'
        ) from error


def objects(path, start=0, stop=None, strict=True, parse=json.loads):
    """Yields ('FILE, line N', dict) for every non-blank line of JSON, read by `lines`.

    Without `strict`, yields an invalid_text.Bad for a line that is not UTF-8 or has a
    NUL, as in UTF-16. Raises ValueError for a line that is not a JSON object.
    """
    for number, line in lines(path, start, stop, strict):
        where = f'{path}, line {number}{after(start)}'
        if isinstance(line, invalid_text.Bad):
            yield where, line
        elif '\0' in line and not strict:
            yield where, invalid_text.Bad(invalid_text.NUL)
        elif line.strip():
            yield where, _object(line, where, parse)


def _object(line, where, parse):
    try:
        value = parse(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f'{where} is not valid JSON: {error}. {_LINES}') from error
    if not isinstance(value, dict):
        raise ValueError(
            f'{where} is a JSON {type(value).__name__}, not an object. {_LINES}'
        )
    return value
