"""The phrases of evaluation sets, and of a list of bad words, to be looked for in texts.

Brown et al. 2020 (arXiv 2005.14165), appendix C: a document is contaminated if it shares
13 words in a row with a text of a test set, in lower case and without punctuation; a text
of fewer words is looked for as a whole, unless it has fewer than 8. (At last they cut out
200 characters on each side instead of the document, and let phrases of more than ten
documents pass; neither is done here.)
"""

import dataclasses
from pathlib import Path

import numpy as np

from jepa_text.data.cleaning import phrases, words
from jepa_text.data.sets import tables
from jepa_text.files import paths


@dataclasses.dataclass(frozen=True)
class Read:
    """What was read of an evaluation set: its name, the names of its files, its texts,
    and how many of these are too short to be looked for."""

    name: str
    files: tuple[str, ...]
    texts: int
    short: int


def read(sets, overlap, min_overlap):
    """(Phrases, tuple of Read) of settings.EvaluationSet.

    Of a set with several splits, those to validate and test on; of another, all. Raises
    ValueError for a set without text, or without a text that can be looked for, and what
    tables.read raises.
    """
    found = [_read(one, overlap, min_overlap) for one in sets]
    return phrases.Phrases([grams for grams, _ in found]), tuple(r for _, r in found)


def bad_words(path):
    """Phrases of a file of words and phrases, one a line. Raises FileNotFoundError if
    there is none, and ValueError for one that is not UTF-8 or holds no words."""
    path = Path(paths.local('The file of bad words', path))
    if not path.is_file():
        raise FileNotFoundError(
            f'clean.bad_words={str(path)!r}: there is no such file. Give one of words '
            'and phrases, one a line.'
        )
    try:
        lines = path.read_text(encoding='utf-8').splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f'clean.bad_words={str(path)!r} is not UTF-8: {error}.'
        ) from error
    grams, empty = grams_of(lines, 1, 2**31)
    if empty == len(lines):
        raise ValueError(f'clean.bad_words={str(path)!r} holds no words.')
    return phrases.Phrases([grams])


def grams_of(texts, shortest, longest):
    """({number of words: [uint64 hashes]}, how many texts have fewer than `shortest`):
    all n-grams of `longest` words, of a text of fewer words its whole."""
    grams, short = {}, 0
    for text in texts:
        hashes = np.concatenate([np.zeros(0, np.uint64), *words.folded(text)])
        n = min(len(hashes), longest)
        if n < max(shortest, 1):
            short += 1
        else:
            grams.setdefault(n, []).append(words.ngrams(hashes, n))
    return grams, short


def _read(one, overlap, min_overlap):
    found, _ = tables.files(one.path)
    known = [word for word in found if word in (*tables.VALIDATION, *tables.TEST)]
    files = [file for word in known or found for file in found[word]]
    texts = [text for file in files for text in _texts(file, one.fields)]
    name = one.name or tables.stem(one.path)
    grams, short = grams_of(texts, min_overlap, overlap)
    if not grams:
        raise ValueError(
            f'clean.decontaminate: of {one.path} there are {len(texts):,} texts in '
            f'{", ".join(file.name for file in files) or "no file"}, none of '
            f'{min_overlap} words or more. Name its `fields` that hold text, or lower '
            'clean.min_overlap.'
        )
    return grams, Read(name, tuple(file.name for file in files), len(texts), short)


def _texts(file, fields):
    """The texts of a file: those of the named fields, or all that are within."""
    rows = tables.read(file)
    if not fields:
        return [text for row in rows for text in _strings(list(row.values()))]
    columns = [tables.column(rows, field, file) for field in fields]
    return [text for column in columns for text in _strings(column)]


def _strings(value):
    """All texts within lists and dicts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
