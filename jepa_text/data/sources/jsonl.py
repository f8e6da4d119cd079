"""JSON corpora: a .jsonl or .json file, also compressed, or a folder of them, in UTF-8.

    config.prepare.source = dict(name='jsonl', path='corpus.jsonl.gz', field='text')

One line is one document; its other fields (author, year, label) are kept. A .json file
may also be a list of such objects. In a folder, .json files are read if there is no
.jsonl.
"""

import contextlib
import functools
import json

from jepa_text.data.corpora import corpus, invalid_text, reading
from jepa_text.files import streams

SUFFIXES = tuple(f'.{kind}{end}' for kind in ('jsonl', 'ndjson') for end in reading.ENDS)
JSON = tuple(f'.json{end}' for end in reading.ENDS)


def make(split, path, field='text', heldout_every=100):
    """Returns the documents of a split: objects as dicts, with `text` from `field`.

    About one in `heldout_every` is held out, by its text (corpora/reading.py); blank
    lines are skipped. A line that is not UTF-8, or a null text, is an invalid_text.Bad.
    Raises FileNotFoundError for a missing path, and ValueError with file and line for
    invalid JSON, anything but an object, a list of more than reading.LONGEST bytes,
    and a `field` that is missing or not a string.
    """
    read = functools.partial(documents, field=field)
    given = read, split, heldout_every
    try:
        return corpus.of_files(path, SUFFIXES, *given, cut=cut)
    except FileNotFoundError as error:
        with contextlib.suppress(FileNotFoundError):
            return corpus.of_files(path, JSON, *given, cut=cut)
        raise error


def cut(file, size):
    """Returns [(corpus.Piece, bytes), ...] of a file, cut between lines, unless it is a
    list."""
    return (corpus.whole if _is_list(file) else corpus.cut_lines)(file, size)


def documents(piece, field, _columns=()):
    """Yields the documents of a corpus.Piece; raises what `make` raises."""
    read = reading.objects(*piece.extent, strict=False)
    if piece.is_whole and _is_list(piece.file):
        read = _elements(piece)
    for where, row in read:
        yield invalid_text.document(row, field, where)


def _is_list(file):
    """Whether a .json file begins with [."""
    if not file.path.lower().endswith(JSON):
        return False
    with streams.open_bytes(file) as stream:
        return stream.peek().removeprefix(reading.BOM).lstrip()[:1] == b'['


def _elements(piece):
    """Yields ('FILE, element N', dict) of a list."""
    with streams.open_bytes(piece.file) as stream:
        data = stream.read(reading.LONGEST + 1)
    if len(data) > reading.LONGEST:
        raise ValueError(
            f'{piece.path} is a JSON list of more than {reading.LONGEST:,} bytes, too '
            "long to read at once. Make it lines: jq -c '.[]' IN > OUT.jsonl"
        )
    try:
        elements = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f'{piece.path} is not valid JSON: {error}.') from error
    for number, element in enumerate(elements, 1):
        where = f'{piece.path}, element {number:,}'
        if not isinstance(element, dict):
            raise ValueError(
                f'{where} is a JSON {type(element).__name__}, but each must be an object '
                'like {"text": "..."}.'
            )
        yield where, element
