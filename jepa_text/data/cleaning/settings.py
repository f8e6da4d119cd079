"""The config section `clean`; by default, nothing is cleaned or dropped."""

import dataclasses

from jepa_text.config import schema

NORMALIZATIONS = ('', 'NFC', 'NFKC')
QUALITY = ('c4', 'gopher')
DROP, COUNT = 'drop', 'count'


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSet:
    """A set that models are evaluated on."""

    path: str = schema.field(
        doc="a file, a folder, or 'hub:NAME', as the path of an evaluation task"
    )
    fields: tuple[str, ...] = schema.field((), 'that contain text; () for all that do')
    name: str = schema.field('', "in the report; '' for the name of its file")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `clean`."""

    normalize: str = schema.field(
        '', "Unicode normalization: '' for none, 'NFC' or 'NFKC'", choices=NORMALIZATIONS
    )
    min_chars: int = schema.field(0, 'minimum length of a document', minimum=0)
    max_chars: int = schema.field(
        0, 'maximum length of a document; 0 for no limit', minimum=0
    )
    quality: tuple[str, ...] = schema.field((), 'quality filters', choices=QUALITY)
    stop_words: bool = schema.field(
        True, "'gopher': require two English stop words; False for other languages"
    )
    bad_words: str = schema.field(
        '', "'c4': a file with one bad word or phrase per line; '' for none"
    )
    repeated_spans: bool = schema.field(
        False,
        "'c4': remove spans of three sentences that occur earlier in the corpus, and "
        'exact duplicates',
    )
    exact_duplicates: bool = schema.field(False, 'drop exact duplicates')
    near_duplicates: float = schema.field(
        0.0,
        'drop texts with at least this estimated Jaccard similarity to another, usually '
        '0.8; 0 to keep them',
        minimum=0,
        maximum=1,
    )
    permutations: int = schema.field(
        128, 'length of a MinHash signature', minimum=16, maximum=1024
    )
    ngram: int = schema.field(5, 'words per MinHash shingle', minimum=1, maximum=64)
    decontaminate: tuple[EvaluationSet, ...] = schema.field(
        (), 'sets whose texts must not be trained on, as dict(path=...)'
    )
    contaminated: str = schema.field(
        DROP, 'what to do with documents that contain their text', choices=(DROP, COUNT)
    )
    overlap: int = schema.field(
        13,
        'consecutive words shared with such a set that contaminate a document',
        minimum=2,
        maximum=64,
    )
    min_overlap: int = schema.field(
        8, 'minimum words of a shorter text of such a set to search for', minimum=1
    )

    def __post_init__(self):
        """Raises ValueError if settings contradict each other."""
        if self.max_chars and self.max_chars < self.min_chars:
            raise ValueError(
                f'clean.max_chars={self.max_chars} is less than clean.min_chars='
                f'{self.min_chars}: no document has such a length. 0 means no limit.'
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
        """Whether `duplicates.decide` is needed."""
        near = self.near_duplicates > 0
        return self.exact_duplicates or near or self.repeated_spans
