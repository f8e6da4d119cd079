"""What the config section `clean` does to one document.

    text -> normalize -> length? -> contaminated?

Cleaning a clean text again changes nothing. Duplicates are found when all documents are
known (duplicates.py). By default, nothing is cleaned or dropped.

Contamination is that of Brown et al. 2020 (arXiv 2005.14165), appendix C: a document
shares 13 consecutive words with a text of a test set, ignoring case and punctuation; a
text of fewer words must occur as a whole, and one of fewer than 8 words is ignored. (In
the end they removed 200 characters on each side instead of the document, and ignored
phrases that occur in more than ten documents; neither is done here.)
"""

import dataclasses
import itertools
import unicodedata

from jepa_text.data.cleaning.words import Phrases, folded
from jepa_text.data.sets import tables
from jepa_text.files import checksums

SHORTEST, LONGEST = 8, 13  # words of a shared phrase


@dataclasses.dataclass(frozen=True)
class SetSummary:
    """What was read of an evaluation set: its name, its file names, how many texts it
    has, and how many of them are too short to be searched for."""

    name: str
    files: tuple[str, ...]
    texts: int
    short: int


class Cleaner:
    """Cleans documents as a section.Clean says.

    `sets` is a tuple with the SetSummary of each set to decontaminate from. Creating a
    Cleaner reads these sets.
    """

    def __init__(self, config):
        """Raises ValueError for a set without a text that is long enough to be searched
        for, and what tables.read raises."""
        self.config = config
        read = list(map(_read, config.decontaminate))
        # As the documents, or no phrase of theirs would be found.
        sets = [list(map(self._normalized, texts)) for texts, _ in read]
        self._phrases = Phrases(sets, SHORTEST, LONGEST)
        self.sets = ()
        for one, (texts, files), short in zip(
            config.decontaminate, read, self._phrases.short, strict=True
        ):
            if len(texts) == short:
                raise ValueError(
                    f'clean.decontaminate: none of the {short:,} texts of {one.path} '
                    f'({", ".join(files) or "no file"}) has {SHORTEST} words or more. '
                    'Name the `fields` that contain text.'
                )
            name = one.name or tables.stem(one.path)
            self.sets += (SetSummary(name, files, len(texts), short),)

    def clean(self, text):
        """Returns (the cleaned text, ''), or (None, the reason why it is dropped)."""
        text = self._normalized(text)
        if len(text) < self.config.min_chars:
            return None, 'too short'
        number = self._phrases.find(text)
        if number is not None:
            return None, f'contaminated: {self.sets[number].name}'
        return text, ''

    def _normalized(self, text):
        form = self.config.normalize
        return unicodedata.normalize(form, text) if form else text


def checksums_of(config):
    """Returns the sha256 of each file that a Cleaner of the section.Clean reads, a list
    per set. Raises what tables.files raises."""
    return [[*map(checksums.sha256, _files(one))] for one in config.decontaminate]


def _files(evaluation_set):
    """Returns the tables of a set: of one with several splits, all but those of
    training."""
    by_split, _ = tables.files(evaluation_set.path)
    known = [(split, file) for split, files in by_split.items() for file in files]
    # A text beside tables is about them.
    known = [
        one for one in known if one[1].name.lower().endswith(tables.SUFFIXES)
    ] or known
    tested = [file for split, file in known if split not in tables.TRAIN]
    return tested or [file for _, file in known]


def _read(evaluation_set):
    """Returns the texts of a set and the names of its files."""
    files = _files(evaluation_set)
    values = (value for file in files for value in _values(file, evaluation_set.fields))
    texts = [text for value in values for text in _strings(value)]
    return texts, tuple(file.name for file in files)


def _values(file, fields):
    rows = tables.read(file)
    columns = tables.columns(rows, fields, file) if fields else map(dict.values, rows)
    return itertools.chain.from_iterable(columns)


def _strings(value):
    """Yields all strings in nested lists and dicts. Strings of a list that all have fewer
    than SHORTEST words, such as the words of a sentence, are joined."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        is_text = all(isinstance(inner, str) for inner in value)
        if is_text and all(len([*folded(inner)]) < SHORTEST for inner in value):
            value = [' '.join(value)] if value else []
        for inner in value:
            yield from _strings(inner)
