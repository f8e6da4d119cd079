"""The section `data` of a config: what a run reads, and what a phase reads otherwise.

data = dict(folder='runs/rows', ...)                        one folder, or
data = dict(mixture=(dict(folder='runs/wiki', weight=0.7),
                     dict(folder='runs/code', weight=0.3)), ...)
"""

import dataclasses
import pathlib

from jepa_text.config import schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """A folder of a mixture."""

    folder: str = schema.field(doc='prepared rows')
    weight: float = schema.field(1.0, 'its share of the rows, beside the others', above=0)
    name: str = schema.field('', 'in metrics; that of the folder')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `data`."""

    folder: str = schema.field('', 'the prepared rows; made where `prepare` says how; or')
    mixture: tuple[Part, ...] = schema.field((), 'several, by weight')
    row_length: int = schema.field(doc='tokens in a row', minimum=1, maximum=2**24)
    batch_size: int = schema.field(
        0, 'rows of a step, of all devices together; or', minimum=0, maximum=2**24
    )
    batch_per_device: int = schema.field(
        0, 'rows of a step on each device', minimum=0, maximum=2**24
    )
    repeat: bool = schema.field(False, 'rows may be read again, epoch after epoch')
    threads: int = schema.field(
        1,
        'that read: where rows come from memory, one is fastest',
        minimum=1,
        maximum=4096,
    )

    def __post_init__(self):
        if self.folder and self.mixture:
            raise ValueError(
                f'data.folder={self.folder!r} and data.mixture of {len(self.mixture)}: '
                "give one of them, as data.folder=''."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Changes:
    """What a phase reads otherwise than `data` says."""

    folder: str | None = schema.field(None, 'the prepared rows; or')
    mixture: tuple[Part, ...] | None = schema.field(None, 'several, by weight')
    row_length: int | None = schema.field(
        None, 'tokens in a row', minimum=1, maximum=2**24
    )
    batch_size: int | None = schema.field(
        None, 'rows of a step; or', minimum=1, maximum=2**24
    )
    batch_per_device: int | None = schema.field(
        None, 'rows of a step on each device', minimum=1, maximum=2**24
    )


# What a key of a phase's data takes the place of, and what that is when it is not given.
INSTEAD = {
    'folder': ('mixture', []),
    'mixture': ('folder', ''),
    'batch_size': ('batch_per_device', 0),
    'batch_per_device': ('batch_size', 0),
}


def changed(data, changes):
    """The section `data` as a phase has it, with its `changes` or None; plain dicts."""
    given = {key: value for key, value in (changes or {}).items() if value is not None}
    instead = dict(INSTEAD[key] for key in given if key in INSTEAD)
    return {**data, **instead, **given}


def folders(data):
    """(folder, weight, name) of each part of a section `data`, as plain dicts."""
    if not data.get('mixture'):
        return [(data['folder'], 1, pathlib.Path(data['folder']).name)]
    return [
        (
            one['folder'],
            one.get('weight', 1),
            one.get('name') or pathlib.Path(one['folder']).name,
        )
        for one in data['mixture']
    ]
