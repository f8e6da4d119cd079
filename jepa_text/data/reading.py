"""Files of text to lines, strictly; and which documents are held out.

What several sources share: gzip, UTF-8 with the place of a bad byte, and
one rule for the held-out split:

    a document is held out  <=>  sha256(its text) mod heldout_every == 0

It looks at nothing but the text. So a corpus that grows or is sorted anew keeps its
split, and two copies of a document never end up on both sides.
"""

import gzip
import hashlib
import json
import zlib

SPLITS = ('train', 'heldout')
CHUNK = 2**20  # characters: a long text is not copied as a whole


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
    digest = hashlib.sha256()
    for start in range(0, len(text), CHUNK):
        digest.update(text[start : start + CHUNK].encode('utf-8'))
    is_heldout = int.from_bytes(digest.digest()[:8], 'little') % heldout_every == 0
    return is_heldout == (split == 'heldout')


def lines(path):
    """The lines of a UTF-8 file (.gz or plain) as (number from 1, text without its end).

    A byte order mark at the beginning is dropped, \\r\\n counts as \\n. Raises ValueError
    with the byte offset of what is not UTF-8, and for a damaged gzip file.
    """
    opener = gzip.open if _is_packed(path) else open
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


def _is_packed(path):
    return path.name.lower().endswith('.gz')


def _raw_lines(file, path):
    try:
        yield from file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f'{path} is a damaged or cut gzip file ({error}). Copy or download it again; '
            '`gzip -t` tests it.'
        ) from error


def _not_utf8(path, number, offset, byte):
    unpacked = ' of the unpacked text' if _is_packed(path) else ''
    return (
        f'{path} is not UTF-8: byte 0x{byte:02x} at byte offset {offset}{unpacked}, line '
        f'{number}. Convert it first, for example `iconv -f WINDOWS-1252 -t UTF-8 '
        f'{path.name} > utf8.txt`.'
    )


def objects(path):
    """('FILE, line N', dict) of every line of JSON that is not blank.

    Raises ValueError for a line that holds anything but an object.
    """
    for number, line in lines(path):
        if line.strip():
            where = f'{path}, line {number}'
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

    Raises ValueError, with the file, for what is not Parquet, is damaged (seen where
    pages are compressed or have checksums), or has no such column.
    """
    import pyarrow
    from pyarrow import parquet

    number = 0
    try:
        opened = parquet.ParquetFile(path, page_checksum_verification=True)
        known = opened.schema_arrow.names
        for name in wanted or ():
            if name not in known:
                raise ValueError(_no_column(path, name, known))
        for batch in opened.iter_batches(CHUNK // 1024, columns=wanted):
            for row in batch.to_pylist():
                number += 1
                yield row
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        # The system's own errors have a number; Arrow says OSError of bad bytes, too.
        if getattr(error, 'errno', None) is not None:
            raise
        raise ValueError(
            f'{path} is not a Parquet file, or damaged after row {number:,}: '
            f'{str(error).rstrip(".")}. '
            'Copy or download it again.'
        ) from error


def _no_column(path, name, known):
    return (
        f'{path} has no column {name!r}; it has: {", ".join(known)}. Name the one that '
        'holds the text, such as --config.prepare.source.field=...'
    )
