"""Files of text to lines, strictly; and which documents are held out.

What several sources share: gzip and zstandard, UTF-8 with the place of a bad byte, pieces
of a large file, and one rule for the held-out split:

    a document is held out  <=>  sha256(its text) mod heldout_every == 0

It looks at nothing but the text. So a corpus that grows or is sorted anew keeps its
split, and two copies of a document never end up on both sides.
"""

import contextlib
import hashlib
import json
import os
import types

from jepa_text.files import addresses, streams

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
    """'heldout' of about one text in that many, 'train' of the others."""
    digest = hashlib.sha256()
    for start in range(0, len(text), CHUNK):
        digest.update(text[start : start + CHUNK].encode('utf-8'))
    is_heldout = int.from_bytes(digest.digest()[:8], 'little') % heldout_every == 0
    return 'heldout' if is_heldout else 'train'


def lines(path, start=0, stop=None):
    """The lines of a UTF-8 file (.gz, .zst or plain) as (number from 1, text without its
    end); of a plain one those from byte `start` to `stop`, where lines begin.

    `path` is one of this machine, an address, or an addresses.File. A byte order mark at
    the beginning is dropped, \\r\\n counts as \\n. Raises ValueError with the byte offset
    of what is not UTF-8, for a damaged file, and for a line of more than LONGEST bytes;
    and as streams.open_bytes does.
    """
    offset = start
    with streams.open_bytes(path, start, stop) as file:
        for number, data in enumerate(_raw_lines(file, path), 1):
            line = data
            if offset == 0:
                line = line.removeprefix(b'\xef\xbb\xbf')
            try:
                text = line.decode('utf-8')
            except UnicodeDecodeError as error:
                at = offset + len(data) - len(line) + error.start
                where = f'{number}{_after(start)}'
                raise ValueError(_not_utf8(path, where, at, line[error.start])) from error
            offset += len(data)
            yield number, text.removesuffix('\n').removesuffix('\r')


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


def _after(start):
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


def objects(path, start=0, stop=None):
    """('FILE, line N', dict) of every line of JSON that is not blank, of `lines`.

    Raises ValueError for a line that holds anything but an object.
    """
    for number, line in lines(path, start, stop):
        if line.strip():
            where = f'{path}, line {number}{_after(start)}'
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


def parquet_rows(path, wanted=None):
    """The rows of a Parquet file as dicts, a few at a time; of `wanted` columns only.

    Raises as `numbered_rows` does.
    """
    return (row for _, row in numbered_rows(path, wanted))


def numbered_rows(path, wanted=None, start=0, stop=None):
    """(number from 1, row) of the row groups from `start` to `stop` of a Parquet file.

    Raises ValueError, with the file, for what is not Parquet, is damaged (seen where
    pages are compressed or have checksums), or has no such column.
    """
    from pyarrow import parquet

    with _damage_told(path) as read:
        opened = parquet.ParquetFile(_seekable(path), page_checksum_verification=True)
        known = opened.schema_arrow.names
        for name in wanted or ():
            if name not in known:
                raise ValueError(_no_column(path, name, known))
        groups = range(opened.num_row_groups)
        read.rows += sum(opened.metadata.row_group(i).num_rows for i in groups[:start])
        given = dict(columns=wanted, row_groups=list(groups[start:stop]))
        for batch in opened.iter_batches(CHUNK // 1024, **given):
            for row in batch.to_pylist():
                read.rows += 1
                yield read.rows, row


def group_sizes(path):
    """Bytes, unpacked, of each row group of a Parquet file."""
    from pyarrow import parquet

    with _damage_told(path):
        said = parquet.read_metadata(_seekable(path))
        return [said.row_group(i).total_byte_size for i in range(said.num_row_groups)]


def _seekable(path):
    """What pyarrow reads a part of; files here it finds itself."""
    away = addresses.is_address(str(path))
    return streams.open_bytes(path) if away else str(path)


@contextlib.contextmanager
def _damage_told(path):
    import pyarrow

    read = types.SimpleNamespace(rows=0)
    try:
        yield read
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        # The system's own errors have a number, those of an address a type; Arrow says
        # OSError of bad bytes, too.
        away = isinstance(error, addresses.AddressError)
        if away or getattr(error, 'errno', None) is not None:
            raise
        raise ValueError(
            f'{path} is not a Parquet file, or damaged after row {read.rows:,}: '
            f'{str(error).rstrip(".")}. Copy or download it again.'
        ) from error


def _no_column(path, name, known):
    return (
        f'{path} has no column {name!r}; it has: {", ".join(known)}. Name the one that '
        'holds the text, such as --config.prepare.source.field=...'
    )
