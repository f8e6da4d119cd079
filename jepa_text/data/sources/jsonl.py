"""JSON corpora: a .jsonl or .json file, also compressed, or a folder of them, in UTF-8.

    config.prepare.source = dict(name='jsonl', path='corpus.jsonl.gz', field='text')

One line is one document; its other fields (author, year, label) are kept. In a folder,
.json files are read if there is no .jsonl.
"""

import contextlib
import functools

from jepa_text.data.corpora import corpus, invalid_text, reading

SUFFIXES = tuple(f'.{kind}{end}' for kind in ('jsonl', 'ndjson') for end in reading.ENDS)
JSON = tuple(f'.json{end}' for end in reading.ENDS)


def make(split, path, field='text', heldout_every=100):
    """Returns the documents of a split: objects as dicts, with `text` from `field`.

    About one in `heldout_every` is held out, by its text (corpora/reading.py); blank
    lines are skipped. A line that is not UTF-8, or a null text, is an invalid_text.Bad.
    Raises FileNotFoundError for a missing path, and ValueError with file and line for
    invalid JSON, anything but an object, and a `field` that is missing or not a string.
    """
    read = functools.partial(documents, field=field)
    given = read, split, heldout_every
    try:
        return corpus.of_files(path, SUFFIXES, *given, cut=cut)
    except FileNotFoundError as error:
        if error.errno is not None:  # a broken link, not a folder without such files
            raise
        with contextlib.suppress(FileNotFoundError):
            return corpus.of_files(path, JSON, *given, cut=cut)
        raise error


cut = corpus.cut_lines


def documents(piece, field):
    """Yields the documents of a corpus.Piece; raises what `make` raises."""
    for where, row in reading.objects(*piece.extent, strict=False):
        yield invalid_text.document(row, field, where)
