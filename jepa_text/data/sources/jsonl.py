"""JSON lines: .jsonl files, also .gz and .zst, one or a folder of them, in UTF-8.

    config.prepare.source = dict(name='jsonl', path='corpus.jsonl.gz', field='text')

One line is one document; what it says besides the text (author, year, label) is kept.
"""

import functools

from jepa_text.data.corpora import corpus, reading

SUFFIXES = tuple(f'.{kind}{end}' for kind in ('jsonl', 'ndjson') for end in reading.ENDS)


def make(split, path, field='text', heldout_every=100):
    """The documents of a split: the objects of the lines, `text` taken from `field`.

    About one in `heldout_every` is held out, by its text (corpora/reading.py); blank
    lines are passed over. Raises FileNotFoundError for a missing path, and ValueError
    with file and line for what is not JSON, not an object, or has no text in `field`.
    """
    read = functools.partial(documents, field=field)
    cut = corpus.cut_lines
    return corpus.of_files(path, SUFFIXES, read, split, heldout_every, cut)


def documents(piece, field):
    """The documents of a corpus.Piece; raises as `make` says."""
    for where, document in reading.objects(*piece.place):
        yield document | {'text': _text(document, field, where)}


def _text(document, field, where):
    if field not in document:
        raise ValueError(
            f'{where} has no field {field!r}; it has: {", ".join(document) or "none"}. '
            'Name the one that holds the text, such as --config.prepare.source.field=...'
        )
    text = document[field]
    if not isinstance(text, str):
        raise ValueError(
            f'{where}: the field {field!r} is {type(text).__name__}, not a string. '
            'Remove the line or turn its value into text.'
        )
    # JSON may spell half of a surrogate pair, which no UTF-8 text can hold.
    if not text.isascii():
        text = text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')
    return text
