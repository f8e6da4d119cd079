"""The section `clean`: what is left out of a corpus. By default nothing."""

import dataclasses

from jepa_text.config import schema

NORMALIZATIONS = ('', 'NFC', 'NFKC')
QUALITY = ('c4', 'gopher')
DROP, COUNT = 'drop', 'count'


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSet:
    """A set that a model will be examined on."""

    path: str = schema.field(
        doc="a file, a folder, or 'hub:NAME', as a task to evaluate on has it"
    )
    fields: tuple[str, ...] = schema.field((), 'that hold text; () for all that do')
    name: str = schema.field('', "in the report; '' for that of its file")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `clean`."""

    normalize: str = schema.field(
        '', "Unicode normalization: '' for none, 'NFC' or 'NFKC'", choices=NORMALIZATIONS
    )
    min_chars: int = schema.field(0, 'of a document; 0 for any', minimum=0)
    max_chars: int = schema.field(0, 'of a document; 0 for any', minimum=0)
    quality: tuple[str, ...] = schema.field((), 'filters', choices=QUALITY)
    stop_words: bool = schema.field(
        True, "of 'gopher': two English stop words; False for other languages"
    )
    bad_words: str = schema.field(
        '', "of 'c4': a file of words and phrases, one a line; '' for none"
    )
    repeated_spans: bool = schema.field(
        False,
        "of 'c4': leave out three sentences that stand in a row earlier in the corpus, "
        'and copies',
    )
    exact_duplicates: bool = schema.field(False, 'leave out copies?')
    near_duplicates: float = schema.field(
        0.0,
        'leave out texts whose estimated Jaccard similarity is at least this, 0.8 being '
        'usual; 0 for none',
        minimum=0,
        maximum=1,
    )
    permutations: int = schema.field(128, 'of MinHash', minimum=16, maximum=1024)
    ngram: int = schema.field(5, 'words in a shingle of MinHash', minimum=1, maximum=64)
    decontaminate: tuple[EvaluationSet, ...] = schema.field(
        (), 'sets whose texts must not be trained on, as dict(path=...)'
    )
    contaminated: str = schema.field(
        DROP, 'what is done to documents with their text', choices=(DROP, COUNT)
    )
    overlap: int = schema.field(
        13, 'words in a row that a document shares with such a set', minimum=2, maximum=64
    )
    min_overlap: int = schema.field(
        8, 'words of a text of such a set that is shorter, but used', minimum=1
    )

    def __post_init__(self):
        """Raises ValueError for settings that contradict each other."""
        if self.max_chars and self.max_chars < self.min_chars:
            raise ValueError(
                f'clean.max_chars={self.max_chars} is less than clean.min_chars='
                f'{self.min_chars}: no document has such a length. 0 is no limit.'
            )
        for key in ('bad_words', 'repeated_spans'):
            if getattr(self, key) and 'c4' not in self.quality:
                raise ValueError(
                    f"clean.{key}={getattr(self, key)!r} is a rule of C4: add 'c4' to "
                    'clean.quality.'
                )
        if self.min_overlap > self.overlap:
            raise ValueError(
                f'clean.min_overlap={self.min_overlap} must be at most clean.overlap='
                f'{self.overlap}.'
            )

    @property
    def finds_duplicates(self):
        """Does it need `duplicates.decide`?"""
        near = self.near_duplicates > 0
        return self.exact_duplicates or near or self.repeated_spans
