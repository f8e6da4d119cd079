"""A folder or hub name -> config, tokenizer, and tensors that are read slice by slice.

Weights come from safetensors only: a pickle can run whatever its author wrote, so it is
never opened. Nothing is executed from what was downloaded.
"""

import json
import os
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np

from jepa_text.files import addresses, checksums, copies

JSON = ('*.json',)
WANTED = ('*.safetensors', *JSON)
UNWANTED = ('onnx/*', 'openvino/*', 'original/*')
PICKLES = ('*.bin', '*.pt', '*.pth', '*.ckpt')
INDEX = 'model.safetensors.index.json'
FLOATS = ('F64', 'F32', 'F16', 'BF16')


def folder_of(name, revision=None, wanted=WANTED):
    """The folder of a name: itself if there is one, a copy of that at an address, else
    the hub's, downloaded.

    Only json files and safetensors are fetched, of these the `wanted`. Raises
    FileNotFoundError for what is neither, ModuleNotFoundError without huggingface_hub,
    and PermissionError for a model whose terms must be accepted first.
    """
    place = addresses.place('The model', name)
    away = addresses.is_address(place)
    if (away or Path(place).is_dir()) and revision is not None:
        raise ValueError(
            f'{name} is a folder, so revision={revision!r} means nothing: leave it '
            'out, or give a name on the hub.'
        )
    if away:
        return copies.folder(place, wanted, UNWANTED)
    if Path(place).is_dir():
        return Path(name)
    return Path(_download(name, revision, wanted))


def commit_of(folder):
    """The commit that a folder of the hub's cache holds; None for another folder."""
    return folder.name if folder.parent.name == 'snapshots' else None


def stamp(name):
    """A checksum of the json files and safetensors of a folder; of a name on the hub the
    commit, so that no weights are fetched."""
    folder = folder_of(name, wanted=JSON)
    if commit := commit_of(folder):
        return commit
    paths = {path for form in WANTED for path in folder.rglob(form)}
    named = {path.relative_to(folder).as_posix(): path for path in paths}
    return checksums.checksum({n: checksums.sha256(path) for n, path in named.items()})


def _download(name, revision, wanted):
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{name} is no folder here, and to ask the hub for it huggingface_hub is '
            "needed: pip install 'jepa-text[hf]'."
        ) from error
    where = name if revision is None else f'{name} at revision {revision}'
    try:
        return huggingface_hub.snapshot_download(
            name,
            revision=revision,
            allow_patterns=list(wanted),
            ignore_patterns=list(UNWANTED),
        )
    except errors.GatedRepoError as error:
        raise PermissionError(
            f'{where} asks you to accept its terms first: do so on its page, then log in '
            'with `hf auth login` or set HF_TOKEN.'
        ) from error
    except errors.RevisionNotFoundError as error:
        raise FileNotFoundError(
            f'{where} is not on the hub: no such revision.'
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise FileNotFoundError(
            f'{where} is neither a folder here nor a model on the hub; private models '
            'need HF_TOKEN.'
        ) from error
    except errors.HFValidationError as error:
        raise FileNotFoundError(
            f'{where} is no folder here, and no name on the hub either: {error}.'
        ) from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise FileNotFoundError(
            f'{where} is not in the local cache, and the hub cannot be reached: go '
            'online once, unset HF_HUB_OFFLINE, or give a folder.'
        ) from error
    except errors.HfHubHTTPError as error:
        if refused := addresses.barred(f'hf:{where}', error):
            raise refused from error
        raise


def write_json(path, content):
    """Writes a JSON file for others to read."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    Path(path).write_text(text + '\n', encoding='utf-8')


def is_file(path):
    """Is there a file? ValueError for what is there and is none: a pipe would be waited
    for, and a link that leads nowhere would pass for a file that was left out."""
    path = Path(path)
    if not path.is_file() and os.path.lexists(path):
        raise ValueError(
            f'{path} is there, but is no file that can be read: a folder, a pipe, a '
            'device, or a link that leads nowhere. Put the file itself there.'
        )
    return path.is_file()


def is_plain(name):
    """Does a name from a file lie in the folder itself? Not so '../x', '/x' and 'a/b'."""
    return (
        isinstance(name, str)
        and name not in ('', '.', '..')
        and '\0' not in name
        and name == PurePosixPath(name).name == PureWindowsPath(name).name
    )


def read_json(path, kind=dict):
    """The object, or with `kind` the list, in a JSON file; ValueError if it has none."""
    is_file(path)
    try:
        found = json.loads(Path(path).read_text(encoding='utf-8'))
    except FileNotFoundError:
        raise FileNotFoundError(
            f'{path} is missing: give a folder as `save_pretrained` writes it.'
        ) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f'{path} is not JSON: {error}.') from error
    if not isinstance(found, kind):
        wanted = 'list' if kind is list else 'object'
        raise ValueError(
            f'{path} holds no JSON {wanted}, but a {type(found).__name__}: give a folder '
            'as `save_pretrained` writes it.'
        )
    return found


class Tensors:
    """The tensors of a folder by name, of which only what is asked for is read.

    Raises FileNotFoundError for a folder without safetensors or with a shard missing,
    and ValueError for a file that is cut short or that lacks what its index promises.
    """

    def __init__(self, folder):
        self._files = {}
        for path, promised in _shards(Path(folder)).items():
            opened = _open(path)
            lacking = sorted(set(promised or ()) - set(opened.keys()))
            if lacking:
                raise ValueError(
                    f'{path} lacks {", ".join(lacking)}, which {INDEX} places there: '
                    'download it again.'
                )
            self._files |= dict.fromkeys(promised or opened.keys(), (path, opened))

    @property
    def names(self):
        """All names, sorted."""
        return sorted(self._files)

    def shape(self, name):
        """The shape of a tensor, as a tuple."""
        _, opened = self._files[name]
        return tuple(opened.get_slice(name).get_shape())

    def alike(self, one, two, block=8192):
        """Do two matrices hold the same? Some rows of them are read at a time."""
        shape = self.shape(one)
        if self.shape(two) != shape or len(shape) != 2:
            return False
        rows, width = shape
        starts = range(0, rows, block)
        parts = ((slice(i, min(i + block, rows)), slice(0, width)) for i in starts)
        return all(
            np.array_equal(self.read(one, *part), self.read(two, *part)) for part in parts
        )

    def read(self, name, *index):
        """float32 of a part of a tensor, stored as any of FLOATS; `index` has slices.

        Raises ValueError for whole numbers and floats of 8 bits, which are quantized
        weights without their scales, and for NaN and infinity.
        """
        path, opened = self._files[name]
        part = opened.get_slice(name)
        if part.get_dtype() not in FLOATS:
            raise ValueError(
                f'{path}: {name} is stored as {part.get_dtype()}, so it is quantized; '
                f'only {", ".join(FLOATS)} can be read. Take the folder of the whole '
                'weights.'
            )
        with np.errstate(over='ignore'):
            found = np.asarray(part[index], np.float32)
        if not np.isfinite(found).all():
            raise ValueError(
                f'{path}: {name} holds NaN, infinity, or what float32 has no number for: '
                'download it again, or take another revision.'
            )
        return found


def _shards(folder):
    """{file: names that an index places in it, or None for all}."""
    if is_file(folder / INDEX):
        return _indexed(folder, folder / INDEX)
    files = sorted(folder.glob('*.safetensors'))
    whole = [path for path in files if path.name == 'model.safetensors'] or files
    if len(whole) == 1:
        return {whole[0]: None}
    if files:
        raise FileNotFoundError(
            f'{folder} holds {", ".join(path.name for path in files)} without {INDEX} to '
            'say which belong together: add the index, or name one model.safetensors.'
        )
    pickles = sorted(path.name for kind in PICKLES for path in folder.glob(kind))
    found = f'only {", ".join(pickles)}, which would run code' if pickles else 'none'
    raise FileNotFoundError(
        f'{folder} must hold safetensors, but there is {found}. Write them with '
        '`model.save_pretrained(folder)` in transformers, or take a revision that has '
        'them.'
    )


def _indexed(folder, index):
    """{file: names that `index` places in it}; each file is there, and in the folder."""
    weight_map = read_json(index).get('weight_map')
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(
            f'{index} has no "weight_map", which says in what file each tensor lies: '
            'download it again.'
        )
    shards = {}
    for name, file in weight_map.items():
        if not is_plain(file) or not file.endswith('.safetensors'):
            raise ValueError(
                f'{index} places {name} in {file!r}: only the name of a .safetensors '
                'file of this folder is read, never another place.'
            )
        shards.setdefault(folder / file, []).append(name)
    missing = sorted(path.name for path in shards if not is_file(path))
    if missing:
        raise FileNotFoundError(
            f'{index} names {", ".join(missing)}, missing from the folder: download what '
            'is missing.'
        )
    return shards


def _open(path):
    from safetensors import SafetensorError, safe_open

    is_file(path)
    try:
        return safe_open(path, 'np')
    except SafetensorError as error:
        raise ValueError(f'{path} is not whole ({error}): download it again.') from error
