"""Decontamination: finds phrases of evaluation sets, or of a list of bad words, in texts.

Brown et al. 2020 (arXiv 2005.14165), appendix C: a document is contaminated if it shares
13 consecutive words with a text of a test set, ignoring case and punctuation; a text of
fewer words must occur as a whole, and one of fewer than 8 words is ignored. (In the end
they removed 200 characters on each side instead of the document, and ignored phrases that
occur in more than ten documents; neither is done here.)
"""

import dataclasses
from pathlib import Path

import numpy as np

from jepa_text.data.cleaning import phrases, words
from jepa_text.data.sets import tables
from jepa_text.files import paths


@dataclasses.dataclass(frozen=True)
class SetSummary:
    """What was read of an evaluation set: its name, its file names, how many texts it
    has, and how many of them are too short to be searched for."""

    name: str
    files: tuple[str, ...]
    texts: int
    short: int


def read(sets, overlap, min_overlap):
    """Returns (phrases.Phrases, tuple of SetSummary) of some settings.EvaluationSet.

    Of a set with several splits, the validation and test splits are read, otherwise all.
    Raises ValueError for a set without a text that is long enough to be searched for, and
    what tables.read raises.
    """
    found = [_read(one, overlap, min_overlap) for one in sets]
    return phrases.Phrases([grams for grams, _ in found]), tuple(r for _, r in found)


def bad_words(path):
    """Returns the Phrases of a file with one word or phrase per line. Raises
    FileNotFoundError if it does not exist, ValueError if it is not UTF-8 or empty."""
    path = Path(paths.local('The file of bad words', path))
    if not path.is_file():
        raise FileNotFoundError(
            f'clean.bad_words={str(path)!r}: this file does not exist. Give a file with '
            'one word or phrase per line.'
        )
    try:
        lines = path.read_text(encoding='utf-8').splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f'clean.bad_words={str(path)!r} is not UTF-8: {error}.'
        ) from error
    grams, empty = grams_of(lines, 1, 2**31)
    if empty == len(lines):
        raise ValueError(f'clean.bad_words={str(path)!r} contains no words.')
    return phrases.Phrases([grams])


def grams_of(texts, shortest, longest):
    """Returns ({n: [uint64 hashes]}, how many texts have fewer than `shortest` words).

    A text gives all its n-grams of `longest` words, or itself if it has fewer words."""
    grams, short = {}, 0
    for text in texts:
        hashes = np.concatenate([np.zeros(0, np.uint64), *words.folded(text)])
        n = min(len(hashes), longest)
        if n < max(shortest, 1):
            short += 1
        else:
            grams.setdefault(n, []).append(words.ngrams(hashes, n))
    return grams, short


def _read(evaluation_set, overlap, min_overlap):
    path = evaluation_set.path
    found, _ = tables.files(path)
    known = [split for split in found if split in (*tables.VALIDATION, *tables.TEST)]
    files = [file for split in known or found for file in found[split]]
    texts = [text for file in files for text in _texts(file, evaluation_set.fields)]
    name = evaluation_set.name or tables.stem(path)
    grams, short = grams_of(texts, min_overlap, overlap)
    if not grams:
        raise ValueError(
            f'clean.decontaminate: none of the {len(texts):,} texts of {path} '
            f'({", ".join(file.name for file in files) or "no file"}) has '
            f'{min_overlap} words or more. Name the `fields` that contain text, or lower '
            'clean.min_overlap.'
        )
    names = tuple(file.name for file in files)
    return grams, SetSummary(name, names, len(texts), short)


def _texts(file, fields):
    """The texts of a file: those of the named fields, or of all if none are named."""
    rows = tables.read(file)
    if not fields:
        return [text for row in rows for text in _strings(list(row.values()))]
    columns = [tables.column(rows, field, file) for field in fields]
    return [text for column in columns for text in _strings(column)]


def _strings(value):
    """Yields all strings in nested lists and dicts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
