"""JSON lines: .jsonl files, also .gz and .zst, one or a folder of them, in UTF-8.

    config.prepare.source = dict(name='jsonl', path='corpus.jsonl.gz', field='text')

One line is one document; what it says besides the text (author, year, label) is kept.
"""

import functools

from jepa_text.data.corpora import corpus, invalid_text, reading

SUFFIXES = tuple(f'.{kind}{end}' for kind in ('jsonl', 'ndjson') for end in reading.ENDS)


def make(split, path, field='text', heldout_every=100):
    """The documents of a split: the objects of the lines, `text` taken from `field`.

    About one in `heldout_every` is held out, by its text (corpora/reading.py); blank
    lines are passed over. What is not UTF-8, or null, is bad. Raises FileNotFoundError
    for a missing path, and ValueError with file and line for what is not JSON, not an
    object, or has no `field`, or a number in it.
    """
    read = functools.partial(documents, field=field)
    cut = corpus.cut_lines
    return corpus.of_files(path, SUFFIXES, read, split, heldout_every, cut)


def documents(piece, field):
    """The documents of a corpus.Piece; raises as `make` says."""
    for where, found in reading.objects(*piece.place, strict=False):
        yield invalid_text.document(found, field, where)
