"""Model folders, local or from the hub: JSON files and safetensors, read slice by slice.

Only safetensors are read. Pickles are never opened, because they can run arbitrary code.
No downloaded code is executed.
"""

import json
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np

from jepa_text.files import addresses, checksums, copies, extras, paths

JSON = ('*.json',)
WANTED = ('*.safetensors', *JSON)
# Of the card, its license.
LOADED = (*WANTED, 'README.md')
# The last are Mistral's own names of weights that are there in other files, too.
UNWANTED = ('onnx/*', 'openvino/*', 'original/*', 'consolidated*')
WEIGHTS = ('*.safetensors', '*.bin', '*.pt', '*.pth', '*.ckpt')
SINGLE = 'model.safetensors'
INDEX = 'model.safetensors.index.json'
SHIPPED = Path(__file__).parents[1] / 'shipped'
FLOATS = ('F64', 'F32', 'F16', 'BF16')


def shipped():
    """The names of the models in the package, sorted."""
    return sorted(path.parent.name for path in SHIPPED.glob('*/config.json'))


def named(name):
    """'hf:NAME' of a model in the package, unless a folder has this name; others
    unchanged."""
    is_shipped = name in shipped() and not Path(name).exists()
    return f'{paths.MODEL}{name}' if is_shipped else name


def folder_of(name, revision=None, wanted=LOADED):
    """The local folder of a model: `name` itself, that of a model in the package, or a
    copy from an address or the hub.

    Only files that match `wanted` are downloaded. Raises FileNotFoundError if neither a
    folder nor a model of this name exists, ModuleNotFoundError without huggingface_hub,
    and PermissionError for a gated model whose terms were not accepted.
    """
    place = addresses.location('The model', name)
    is_address, is_folder = addresses.is_address(place), Path(place).is_dir()
    if not (is_address or is_folder or place in shipped()):
        return Path(_download(name, revision, wanted))
    if revision is not None:
        raise ValueError(
            f'{name} is a folder, so revision={revision!r} has no meaning: leave it '
            'out, or give a name on the hub.'
        )
    if is_address:
        return copies.copy_folder(place, wanted, UNWANTED)
    return Path(place) if is_folder else SHIPPED / place


def commit_of(folder):
    """The commit of a folder in the hub's cache; None for another folder."""
    return folder.name if folder.parent.name == 'snapshots' else None


def fingerprint(name):
    """A checksum of the JSON files and safetensors of a folder.

    For a name on the hub it is the commit, so that no weights are downloaded.
    """
    # Only the hub has a commit; of an address, the weights have to be read.
    folder = folder_of(name, wanted=LOADED if addresses.is_address(name) else JSON)
    if commit := commit_of(folder):
        return commit
    paths = {path for form in WANTED for path in folder.rglob(form)}
    named = {path.relative_to(folder).as_posix(): path for path in paths}
    return checksums.checksum({n: checksums.sha256(path) for n, path in named.items()})


def _download(name, revision, wanted):
    purpose = f'{name} is no local folder, and downloading it from the hub'
    huggingface_hub = extras.package('huggingface_hub', 'hf', purpose)
    from huggingface_hub import errors

    where = name if revision is None else f'{name} at revision {revision}'
    try:
        return huggingface_hub.snapshot_download(
            name,
            revision=revision,
            allow_patterns=list(wanted),
            ignore_patterns=list(UNWANTED),
        )
    except errors.HFValidationError as error:
        raise FileNotFoundError(
            f'{where} is no local folder, and not a valid name on the hub: {error}.'
        ) from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise FileNotFoundError(
            f'{where} is neither a local folder nor in the local cache, and the hub '
            'cannot be reached: go online once, unset HF_HUB_OFFLINE, or give a folder.'
        ) from error
    except errors.HfHubHTTPError as error:
        if barred := addresses.final_error(f'hf:{where}', error):
            raise barred from error
        raise


def write_json(path, content):
    """Writes an indented JSON file."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    Path(path).write_text(text + '\n', encoding='utf-8')


def is_file(path):
    """Whether there is a file; raises ValueError for a link that leads nowhere, which
    would look like an absent optional file."""
    path = Path(path)
    if path.is_symlink() and not path.exists():
        raise ValueError(f'{path} is a link that leads nowhere: replace it by the file.')
    return path.is_file()


def is_plain(name):
    """Whether a name from a file is a plain file name, unlike '../x', '/x' and 'a/b'."""
    return (
        isinstance(name, str)
        and name not in ('', '..')
        and name == PurePosixPath(name).name == PureWindowsPath(name).name
    )


def read_json(path, kind=dict):
    """The object (`kind` dict) or list in a JSON file; raises ValueError if invalid."""
    if not is_file(path):
        raise FileNotFoundError(
            f'{path} is missing: use a folder of `save_pretrained`, or of `jepa-text '
            "export`. One of model.save or finetune loads without 'hf:'; export it first."
        )
    return checksums.read_json(path, kind)


class Tensors:
    """The tensors of a folder by name, read on demand.

    Raises FileNotFoundError for a folder without safetensors or with a missing shard,
    and ValueError for a truncated file or one that lacks tensors of its index.
    """

    def __init__(self, folder):
        self._files = {}
        for path, indexed in _shards(Path(folder)).items():
            opened = _open(path)
            lacking = sorted(set(indexed or ()) - set(opened.keys()))
            if lacking:
                raise ValueError(
                    f'{path} lacks {", ".join(lacking)}, which {INDEX} places there: '
                    'download it again.'
                )
            self._files |= dict.fromkeys(indexed or opened.keys(), (path, opened))

    @property
    def names(self):
        return sorted(self._files)

    def shape(self, name):
        _, opened = self._files[name]
        return tuple(opened.get_slice(name).get_shape())

    def equal(self, first, second, block=8192):
        """Whether two matrices are equal, compared one block of rows at a time."""
        shape = self.shape(first)
        if self.shape(second) != shape or len(shape) != 2:
            return False
        rows, width = shape
        starts = range(0, rows, block)
        parts = ((slice(i, min(i + block, rows)), slice(0, width)) for i in starts)
        return all(
            np.array_equal(self.read(first, *part), self.read(second, *part))
            for part in parts
        )

    def read(self, name, *index):
        """A part of a tensor as float32; `index` are slices.

        Raises ValueError if it is not stored as one of FLOATS (integers and 8-bit floats
        are quantized weights without their scales), and for NaN and infinity.
        """
        path, opened = self._files[name]
        part = opened.get_slice(name)
        if part.get_dtype() not in FLOATS:
            raise ValueError(
                f'{path}: {name} is stored as {part.get_dtype()}, so it is quantized; '
                f'only {", ".join(FLOATS)} can be read. Use the folder with the '
                'unquantized weights.'
            )
        with np.errstate(over='ignore'):
            values = np.asarray(part[index], np.float32)
        if not np.isfinite(values).all():
            raise ValueError(
                f'{path}: {name} contains NaN, infinity, or a value that float32 cannot '
                'represent: download it again, or use another revision.'
            )
        return values


def _shards(folder):
    """{file: names of its tensors according to the index, or None for all}.

    As in transformers, model.safetensors takes precedence over an index.
    """
    if is_file(folder / SINGLE):
        return {folder / SINGLE: None}
    if is_file(folder / INDEX):
        return _indexed(folder, folder / INDEX)
    others = [path.name for kind in WEIGHTS for path in sorted(folder.glob(kind))]
    raise FileNotFoundError(
        f'{folder} must contain {SINGLE}, or shards with {INDEX}, but has '
        f'{", ".join(others) or "no weights"}. Only safetensors are read, as pickles can '
        'run code: write them with `model.save_pretrained(folder)` in transformers, or '
        'use a revision that has them.'
    )


def _indexed(folder, index):
    """{file: names of tensors} from an index; checks that all files are in the folder."""
    weight_map = read_json(index).get('weight_map')
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(
            f'{index} has no "weight_map", which lists the file of each tensor: '
            'download it again.'
        )
    shards = {}
    for name, file in weight_map.items():
        if not is_plain(file) or not file.endswith('.safetensors'):
            raise ValueError(
                f'{index} places {name} in {file!r}: only the name of a .safetensors '
                'file in this folder is allowed, never another place.'
            )
        shards.setdefault(folder / file, []).append(name)
    missing = sorted(path.name for path in shards if not is_file(path))
    if missing:
        raise FileNotFoundError(
            f'{index} names {", ".join(missing)}, missing from the folder: download the '
            'missing files.'
        )
    return shards


def _open(path):
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(path, 'np')
    except SafetensorError as error:
        raise ValueError(f'{path} is damaged ({error}): download it again.') from error
