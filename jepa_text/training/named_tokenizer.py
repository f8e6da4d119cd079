"""A tokenizer by the name that a config has for it -> the tokenizer, and what it was.

bundled                               that of the package
tokenizer.json, or a folder with one  as it is
hf:NAME[@REVISION]                    that of a model on the hub, or of a folder
x.model, x.tiktoken, tiktoken:NAME    of another format (data/tokenizers/formats.py)
init_from                             that of what the run starts from

Those of others get the special tokens that they lack (data/tokenizers/roles.py); a
tokenizer.json that is given as a file is taken at its word, and must have them.
"""

import dataclasses
from pathlib import Path

from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import formats, roles
from jepa_text.files import addresses, paths
from jepa_text.hf import adapt, files

FILE = 'tokenizer.json'
BUNDLED, START = 'bundled', 'init_from'


@dataclasses.dataclass(frozen=True)
class Opened:
    """A tokenizers.Tokenizer; the name it has in the config, the commit of the hub that
    this name stands for now, or '', and lines of what it was made of."""

    tokenizer: tokenizers.Tokenizer
    name: str
    commit: str = ''
    said: tuple = ()

    def about(self):
        """All but the tokenizer itself, as a manifest has it."""
        told = {'name': self.name, 'commit': self.commit, 'said': list(self.said)}
        return {key: value for key, value in told.items() if value}


def opened(name, source=None):
    """The Opened of a name; `source` is the section `init_from`.

    Raises ValueError for what is no tokenizer, and as `read` does.
    """
    if name == START:
        return _of_start(source or {})
    content, said, commit = read(name)
    if name == BUNDLED or _is_plain(name):
        return Opened(tokenizers.parse(content, name), name)
    content, done = roles.completed(content, name)
    return Opened(tokenizers.parse(content, name), name, commit, (*said, *done))


def is_there(name):
    """Does a name mean a tokenizer, as far as can be told without asking for it?"""
    by_name = name in (BUNDLED, START) or name.startswith((paths.MODEL, formats.NAMED))
    by_name = by_name or addresses.is_address(name)
    return by_name or bool(name and Path(name).exists())


def read(name, pattern=''):
    """(content of a tokenizer.json, what it was read from: lines, the commit of the hub
    or '') of any name but 'init_from'.

    Raises FileNotFoundError for what is not there, PermissionError for a model whose
    terms must be accepted, and as formats.read does.
    """
    if name == BUNDLED:
        name = str(tokenizers.BUNDLED)
    if not name.startswith(paths.MODEL):
        return *formats.read(name, pattern), ''
    place = addresses.place('The tokenizer', name, model=True).removeprefix(paths.MODEL)
    revision = None
    if not addresses.is_address(place) and not Path(place).is_dir():
        place, _, revision = place.partition('@')
    folder = files.folder_of(place, revision or None, wanted=(FILE,))
    if not Path(folder, FILE).is_file():
        raise FileNotFoundError(
            f'{name} has no {FILE}. In transformers, AutoTokenizer.from_pretrained('
            f"'{place}').save_pretrained('FOLDER') writes one with the ids of its model: "
            'give that folder.'
        )
    commit = files.commit_of(folder) or ''
    content, path = tokenizers.read(folder)
    said = f'read from {f"{name}, commit {commit}" if commit else path}'
    return content, [said], commit


def _is_plain(name):
    """Is it the path of a tokenizer.json or of a folder with one?"""
    by_name = name.startswith((paths.MODEL, formats.NAMED))
    return not by_name and not name.endswith(formats.SUFFIXES)


def _of_start(source):
    path = source.get('path')
    if not path:
        raise ValueError(
            "prepare.tokenizer='init_from', but init_from.path is not given."
        )
    if not path.startswith(paths.MODEL):
        return Opened(tokenizers.load(f'{path}/{FILE}'), path)
    folder = files.folder_of(path.removeprefix(paths.MODEL), source.get('revision'))
    tokenizer = adapt.tokenizer_of(folder, source.get('adapt') or {})
    commit = files.commit_of(folder)
    return Opened(tokenizer, path, said=(f'commit {commit}',) if commit else ())
