"""The config sections `data` and `prepare`: the rows of a run, and how they are made.

data = dict(folder='runs/rows', ...)                        one folder, or
data = dict(mixture=(dict(folder='runs/wiki', weight=0.7),
                     dict(folder='runs/code', weight=0.3)), ...)
"""

import dataclasses
import pathlib

from jepa_text.data.rows import packing as packings
from jepa_text.engine import Options
from jepa_text.settings import schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixtureFolder:
    """A folder of a mixture."""

    folder: str = schema.field(doc='folder of prepared rows')
    weight: float = schema.field(1.0, 'relative share of the rows', above=0)
    name: str = schema.field('', "in metrics; '' for the name of the folder")


_LENGTH = dict(doc='tokens per row', minimum=1, maximum=2**24)
_SIZE = dict(doc='rows per step, on all devices together', minimum=1, maximum=2**24)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `data`."""

    folder: str = schema.field(
        '', 'folder of prepared rows, created if `prepare` is given; or use `mixture`'
    )
    mixture: tuple[MixtureFolder, ...] = schema.field((), 'several folders, by weight')
    row_length: int = schema.field(**_LENGTH)
    batch_size: int = schema.field(**_SIZE)
    repeat: bool = schema.field(False, 'allow more than one epoch')

    def __post_init__(self):
        _check_one(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Changes:
    """The fields of `data` that a phase may change."""

    folder: str | None = schema.field(None, 'folder of prepared rows; or use `mixture`')
    mixture: tuple[MixtureFolder, ...] | None = schema.field(
        None, 'several folders, by weight'
    )
    row_length: int | None = schema.field(None, **_LENGTH)
    batch_size: int | None = schema.field(None, **_SIZE)

    def __post_init__(self):
        _check_one(self)


def _check_one(data):
    """Raises ValueError if a section has both a folder and a mixture."""
    if data.folder and data.mixture:
        raise ValueError(
            f'data.folder={data.folder!r} and data.mixture with {len(data.mixture)} '
            "parts are both given. Give only one, for example with data.folder=''."
        )


# The field that each field of a phase's data replaces, and the value that resets it.
REPLACES = {'folder': ('mixture', []), 'mixture': ('folder', '')}


def changed(data, changes):
    """Returns the section `data` with the `changes` of a phase or None; plain dicts."""
    given = {key: value for key, value in (changes or {}).items() if value is not None}
    replaced = dict(REPLACES[key] for key in given if key in REPLACES)
    return {**data, **replaced, **given}


def folders(data):
    """Returns [(folder, weight, name)] of the parts of a section `data`, a plain dict."""
    parts = data.get('mixture') or [{'folder': data['folder']}]
    return [
        (
            part['folder'],
            part.get('weight', 1),
            part.get('name') or pathlib.Path(part['folder']).name,
        )
        for part in parts
    ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSet:
    """A set that models are evaluated on."""

    path: str = schema.field(doc="a file or folder of tables, or 'hub:NAME'")
    fields: tuple[str, ...] = schema.field((), 'that contain text; () for all that do')
    name: str = schema.field('', "in the report; '' for the name of its file")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Clean:
    """The section `clean`."""

    normalize: str = schema.field(
        '', "Unicode normalization: 'NFC' or 'NFKC'", choices=('', 'NFC', 'NFKC')
    )
    min_chars: int = schema.field(0, 'minimum length of a document', minimum=0)
    exact_duplicates: bool = schema.field(False, 'drop exact duplicates')
    decontaminate: tuple[EvaluationSet, ...] = schema.field(
        (), 'sets whose texts must not be trained on, as dict(path=...)'
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare:
    """The section `prepare`."""

    source: dict = schema.field(
        doc='the source of the text, as dict(name=...)',
        folder='data/sources',
        given=('split',),
    )
    tokenizer: str = schema.field(
        doc="a tokenizer.json, 'bundled', 'hf:NAME[@REVISION]', a .model file, "
        "'init_from': the one of the initial checkpoint, or 'bpe:8192': one trained on "
        'the source first'
    )
    row_length: int = schema.field(doc='tokens per row', minimum=8, maximum=2**24)
    splits: tuple[str, ...] = schema.field(('train', 'heldout'), 'splits of the source')
    packing: str = schema.field(
        'best_fit',
        "how rows are packed: 'concat' cuts anywhere, 'paper' follows arXiv 2507.00994",
        choices=tuple(packings.PACKINGS),
    )
    shards: int = schema.field(
        4,
        'files per split, at least: each unit of a corpus makes its own',
        minimum=1,
        maximum=99_999,
    )
    seed: int = schema.field(0, 'seed of the order of rows', minimum=0)
    add_bos: bool = schema.field(True, 'add <bos> before each document')
    add_eos: bool = schema.field(True, 'add <eos> after each document')
    clean: Clean = schema.field({}, 'cleaning of the documents')
    engine: Options = schema.field({}, 'where units are prepared')

    def __post_init__(self):
        if not self.splits:
            raise ValueError(
                "prepare.splits is empty: name some, such as ('train', 'heldout')."
            )
        if self.packing == 'paper' and self.row_length < 2 * packings.SHORTEST:
            raise ValueError(
                f"prepare.packing='paper' makes pairs of sequences of at least "
                f'{packings.SHORTEST} tokens: prepare.row_length={self.row_length} must '
                f'be at least {2 * packings.SHORTEST}.'
            )
