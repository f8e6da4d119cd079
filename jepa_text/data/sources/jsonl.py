"""JSON corpora: a .jsonl or .json file, also compressed, or a folder of them, in UTF-8.

    config.prepare.source = dict(name='jsonl', path='corpus.jsonl.gz', field='text')

One line is one document; its other fields (author, year, label) are kept. A .json file
may also be a list of such objects. In a folder, .json files are read if there is no
.jsonl.
"""

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
    invalid JSON, anything but an object, a list of more than reading.LONGEST characters,
    and a `field` that is missing or not a string.
    """
    read = functools.partial(documents, field=field)
    make_of = functools.partial(
        corpus.of_files,
        path,
        read=read,
        split=split,
        heldout_every=heldout_every,
        cut=cut,
    )
    try:
        return make_of(SUFFIXES)
    except FileNotFoundError as error:
        try:
            return make_of(JSON)
        except FileNotFoundError:
            raise error from None


def cut(file, size):
    """Returns [(corpus.Piece, bytes), ...] of a file, cut between lines; a list is not
    cut."""
    return (corpus.whole if _is_list(file) else corpus.cut_lines)(file, size)


def documents(piece, field):
    """Yields the documents of a corpus.Piece; raises what `make` raises."""
    read = reading.objects(*piece.extent, strict=False)
    if piece.is_whole and _is_list(piece.file):
        read = _elements(piece)
    for where, found in read:
        yield invalid_text.document(found, field, where)


def _is_list(file):
    """Whether a .json file begins with [."""
    if not file.path.lower().endswith(JSON):
        return False
    with streams.open_bytes(file) as stream:
        return stream.peek().removeprefix(reading.BOM).lstrip()[:1] == b'['


def _elements(piece):
    """Yields ('FILE, element N', dict) of a list; an invalid_text.Bad for a file that is
    not UTF-8."""
    lines, size = [], 0
    for _, line in reading.lines(piece.file, strict=False):
        if isinstance(line, invalid_text.Bad):
            yield piece.path, line
            return
        lines.append(line)
        size += len(line)
        if size > reading.LONGEST:
            raise ValueError(
                f'{piece.path} is a JSON list of more than {reading.LONGEST:,} '
                "characters, too long to read at once. Make it lines: jq -c '.[]' IN > "
                'OUT.jsonl'
            )
    try:
        elements = json.loads('\n'.join(lines))
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
