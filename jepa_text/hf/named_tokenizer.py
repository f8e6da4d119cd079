"""Opens a tokenizer by its name in a config.

bundled                               the tokenizer of this package
tokenizer.json, or a folder with one  used with its own special tokens
hf:NAME[@REVISION]                    of a model on the Hub, or of a folder
x.model                               SentencePiece (data/tokenizers/formats.py)
init_from                             of the model that the run starts from
bpe:8192                              trained on the texts first (training/prepare.py)

Special tokens that a tokenizer lacks are added (data/tokenizers/roles.py), except to a
tokenizer.json that is given as a file: it must already have them.
"""

import dataclasses
import re
from pathlib import Path

from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import declared, formats, roles
from jepa_text.files import addresses, paths
from jepa_text.hf import adapt, files
from jepa_text.settings import schema

FILE = 'tokenizer.json'
BUNDLED, START = 'bundled', 'init_from'
TRAINED = re.compile(r'bpe:(\d+)')  # the size of the vocabulary


@dataclasses.dataclass(frozen=True)
class Opened:
    """A tokenizer and where it comes from.

    name      its name in the config
    commit    the commit of the Hub that the name stands for now, or ''
    notes     lines on how the tokenizer was made
    """

    tokenizer: tokenizers.Tokenizer
    name: str
    commit: str = ''
    notes: tuple = ()

    def as_dict(self):
        """Returns everything except the tokenizer, as in a manifest."""
        entries = {'name': self.name, 'commit': self.commit, 'said': list(self.notes)}
        return {key: value for key, value in entries.items() if value}


def opened(name, source=None):
    """Returns the Opened of a name; `source` is the section `init_from`.

    Raises ValueError for an invalid tokenizer, and what `read` raises.
    """
    if name == START:
        return _of_start(source or {})
    content, notes, commit = read(name)
    is_file = not name.startswith(paths.MODEL) and not name.endswith(formats.SUFFIX)
    if name == BUNDLED or is_file:  # a tokenizer.json or a folder with one
        return Opened(tokenizers.parse(content, name), name)
    content, added = roles.completed(content, name)
    return Opened(tokenizers.parse(content, name), name, commit, (*notes, *added))


def exists(name):
    """Whether a name refers to a tokenizer, as far as is known without a download."""
    by_name = name in (BUNDLED, START) or name.startswith(paths.MODEL)
    by_name = by_name or addresses.is_address(name)
    return by_name or bool(name and Path(name).expanduser().exists())


def read(name):
    """Returns (content of a tokenizer.json, notes on its origin, commit or '').

    Accepts any name except 'init_from'. Raises FileNotFoundError if it does not exist,
    PermissionError for a model whose terms must be accepted, and as formats.read.
    """
    if name == BUNDLED:
        name = str(tokenizers.BUNDLED)
    if not name.startswith(paths.MODEL):
        return *formats.read(name), ''
    place = addresses.location('The tokenizer', name, model=True).removeprefix(
        paths.MODEL
    )
    revision = None
    if not addresses.is_address(place) and not Path(place).is_dir():
        place, _, revision = place.partition('@')
    folder = files.folder_of(place, revision or None, wanted=(FILE, *declared.FILES))
    if not Path(folder, FILE).is_file():
        raise FileNotFoundError(
            f'{name} has no {FILE}. In transformers, AutoTokenizer.from_pretrained('
            f"'{place}').save_pretrained('FOLDER') writes one with the ids of its model; "
            'use that folder.'
        )
    commit = files.commit_of(folder) or ''
    content, path = tokenizers.read(folder)
    origin = f'{name}, commit {commit}' if commit else path
    return content, [f'read from {origin}'], commit


def _of_start(source):
    path = files.named(source.get('path') or '')
    if not path:
        raise ValueError("prepare.tokenizer='init_from', but init_from.path is not set.")
    if not path.startswith(paths.MODEL):
        return Opened(tokenizers.load(f'{path}/{FILE}'), path)
    folder = files.folder_of(path.removeprefix(paths.MODEL), source.get('revision'))
    tokenizer = tokenizers.load(folder / FILE, optional=('mask',))
    schema.read(adapt.Choices, source.get('adapt') or {}, 'adapt')  # raises ValueError
    tokenizer, *_ = adapt.with_mask(tokenizer, folder)
    commit = files.commit_of(folder)
    return Opened(tokenizer, path, notes=(f'commit {commit}',) if commit else ())
