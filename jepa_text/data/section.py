"""The config section `data`: the rows of a run, and the changes of a phase.

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

    folder: str = schema.field(doc='folder of prepared rows')
    weight: float = schema.field(1.0, 'relative share of the rows', above=0)
    name: str = schema.field('', "in metrics; '' for the name of the folder")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `data`."""

    folder: str = schema.field(
        '', 'folder of prepared rows, created if `prepare` is given; or use `mixture`'
    )
    mixture: tuple[Part, ...] = schema.field((), 'several folders, by weight')
    row_length: int = schema.field(doc='tokens per row', minimum=1, maximum=2**24)
    batch_size: int = schema.field(
        0,
        'rows per step on all devices; or use `batch_per_device`',
        minimum=0,
        maximum=2**24,
    )
    batch_per_device: int = schema.field(
        0, 'rows per step on each device', minimum=0, maximum=2**24
    )
    repeat: bool = schema.field(False, 'allow more than one epoch')
    threads: int = schema.field(
        1,
        'reader threads; one is fastest if rows are in memory',
        minimum=1,
        maximum=4096,
    )

    def __post_init__(self):
        if self.folder and self.mixture:
            raise ValueError(
                f'data.folder={self.folder!r} and data.mixture with {len(self.mixture)} '
                "parts are both given. Give only one, for example with data.folder=''."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Changes:
    """The fields of `data` that a phase may change."""

    folder: str | None = schema.field(None, 'folder of prepared rows; or use `mixture`')
    mixture: tuple[Part, ...] | None = schema.field(None, 'several folders, by weight')
    row_length: int | None = schema.field(
        None, 'tokens per row', minimum=1, maximum=2**24
    )
    batch_size: int | None = schema.field(
        None,
        'rows per step on all devices; or use `batch_per_device`',
        minimum=1,
        maximum=2**24,
    )
    batch_per_device: int | None = schema.field(
        None, 'rows per step on each device', minimum=1, maximum=2**24
    )


# The field that each field of a phase's data replaces, and the value that resets it.
REPLACES = {
    'folder': ('mixture', []),
    'mixture': ('folder', ''),
    'batch_size': ('batch_per_device', 0),
    'batch_per_device': ('batch_size', 0),
}


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
