"""Hugging Face Hub datasets by name, `hub:NAME[/CONFIG][@REVISION]`.

    hub:nyu-mll/glue/sst2                    a config of a dataset
    hub:rajpurkar/squad@7b6d24c440a36b68     at a commit, branch or tag

The library `datasets` says which files a config and its splits have; without such a
config, it is the name of a folder or file. A dataset without supported files, such as one
made by a script, is read from the hub's conversion, the branch refs/convert/parquet.
Rows are read from the files by this package, as `datasets` reads cells of a CSV such as
None, NA and 007 as missing values and numbers. Downloaded code is never executed.

`find` downloads the files once, into the cache of HF_HOME; without a network, the cache
is used. A corpus is streamed instead (data/sources/hub.py).
"""

import contextlib
import functools
import pathlib
from typing import NamedTuple

from jepa_text.config import resolve
from jepa_text.data.corpora import reading
from jepa_text.files import addresses, extras

PREFIX = 'hub:'
CONVERTED = 'refs/convert/parquet'
_TABLES = ('.jsonl', '.ndjson', '.json', '.csv', '.tsv')
SUFFIXES = ('.parquet', '.arrow', '.conll', '.conllu')
SUFFIXES += tuple(f'{suffix}{end}' for suffix in _TABLES for end in reading.ENDS)
TIMEOUT = 20.0  # seconds until the hub responds


class Listed(NamedTuple):
    """The files of a dataset: paths in its repository at a commit, {split: [path]}."""

    name: str
    revision: str
    commit: str
    splits: dict


def is_name(path):
    """Whether this is a name on the hub, not a path."""
    return str(path).startswith(PREFIX)


def parse(path):
    """Returns (name, config or None, revision or None) of
    `hub:NAME[/CONFIG][@REVISION]`. Raises ValueError for any other form."""
    text, at, revision = str(path).removeprefix(PREFIX).partition('@')
    *name, config = (*text.split('/', 2), '')[:3]
    if not is_name(path) or not all(name) or at and not revision:
        raise ValueError(
            f"{path!r} is not a name on the hub: write '{PREFIX}NAME[/CONFIG]"
            f"[@REVISION]', such as '{PREFIX}nyu-mll/glue/sst2'."
        )
    return '/'.join(filter(None, name)), config or None, revision or None


def find(path):
    """Returns ({split: [local path]}, commit) of a name, downloaded if necessary.

    Raises what `listed` raises.
    """
    name, config, revision = parse(path)
    hub = package('huggingface_hub', name)
    snapshot = functools.partial(hub.snapshot_download, name, repo_type='dataset')
    try:
        files = listed(path, SUFFIXES)
    except addresses.AddressError as unreachable:
        files = _cached(path, snapshot, unreachable)
    names = [name for names in files.splits.values() for name in names]
    with _clear_errors(path):
        folder = snapshot(revision=files.revision, allow_patterns=names)
    top = pathlib.Path(folder)
    splits = {split: [top / one for one in some] for split, some in files.splits.items()}
    return splits, files.commit


def _cached(path, snapshot, unreachable):
    """The Listed of what is in the cache."""
    name, config, revision = parse(path)
    cached = dict(local_files_only=True, allow_patterns=['README.md'])
    for branch in [revision] if revision else [None, CONVERTED]:
        # Not downloaded, or not the files of this config, which is unknown then.
        with contextlib.suppress(FileNotFoundError, ValueError):
            folder = snapshot(revision=branch, **cached)
            if branch == CONVERTED:
                top = pathlib.Path(folder)
                names = (f.relative_to(top).as_posix() for f in top.rglob('*.parquet'))
                splits = _converted(path, names)
            else:
                splits = _splits(folder, config, None)
            if splits := _supported(splits, SUFFIXES):
                return Listed(name, branch, pathlib.Path(folder).name, splits)
    raise FileNotFoundError(
        f'{path} is not complete in the local cache, and the hub cannot be reached: go '
        'online once, unset HF_HUB_OFFLINE, or give the path of the files.'
    ) from unreachable


def listed(path, suffixes):
    """Returns the Listed of a name on the hub, of files that end in one of `suffixes`.

    Raises ValueError for an invalid name or an unknown config, FileNotFoundError for an
    unknown dataset or revision or without files, PermissionError if terms must be
    accepted first, addresses.AddressError if the hub cannot be reached, and
    ModuleNotFoundError without the extra `hf`.
    """
    name, config, revision = parse(path)
    package('datasets', name)
    client = package('huggingface_hub', name).HfApi()
    with _clear_errors(path):
        info = client.dataset_info(
            name,
            revision=revision,
            expand=['sha', 'gated'],
            timeout=TIMEOUT,
        )
        if info.gated:  # It can be listed without permission to read it.
            client.auth_check(name, repo_type='dataset')
        splits = {}
        if revision != CONVERTED:
            splits = _supported(_splits(name, config, info.sha), suffixes)
        if not splits and revision in (None, CONVERTED):
            refs = client.list_repo_refs(name, repo_type='dataset').converts
            if CONVERTED in [ref.ref for ref in refs]:
                revision = CONVERTED
                info = client.dataset_info(name, revision=revision)
                names = [file.rfilename for file in info.siblings]
                splits = _supported(_converted(path, names), suffixes)
    if not splits:
        raise FileNotFoundError(
            f'{path} has no files that can be read here ({", ".join(suffixes)}), '
            'nor has the hub converted it to parquet. Give another revision or config, '
            'or download the set yourself and give its path.'
        )
    return Listed(name, revision, info.sha, splits)


def _splits(place, config, commit):
    """{split: [path in the repository]} of a dataset or local copy; {} without files.

    Raises ValueError for an unknown config, and if one must be chosen.
    """
    import datasets

    options, unknown = [{'name': config}], None
    if config:
        options += [{'data_dir': config}, {'data_files': f'{config}.*'}]
    for option in options:
        try:
            made = datasets.load_dataset_builder(str(place), revision=commit, **option)
        except ValueError as error:
            unknown = unknown or error
        except (FileNotFoundError, RuntimeError):  # no files, or a script
            continue
        else:
            top = f'hf://datasets/{place}@{commit}/' if commit else f'{place}/'
            files = made.config.data_files or {}
            return {
                str(split): [file.removeprefix(top) for file in some]
                for split, some in files.items()
            }
    if unknown:
        raise ValueError(f'{PREFIX}{place}: {unknown}')
    return {}


def _converted(path, names):
    """The splits of a config of the hub's conversion: CONFIG/SPLIT/0000.parquet."""
    _, config, _ = parse(path)
    files = [name.split('/') for name in names if name.endswith('.parquet')]
    known = sorted({parts[0] for parts in files})
    if config is None and (len(known) == 1 or 'default' in known):
        config = 'default' if 'default' in known else known[0]
    if config is None and known:
        raise ValueError(
            f'{path} has several configs: {", ".join(known)}. Say which, as '
            f"'{path}/{known[0]}'."
        )
    if config not in known:
        raise ValueError(f'{path}: no config {config!r}.{resolve.nearest(config, known)}')
    splits = {}
    for parts in sorted(files):
        if parts[0] == config:
            splits.setdefault(parts[1], []).append('/'.join(parts))
    if partial := [split for split in splits if split.startswith('partial-')]:
        raise FileNotFoundError(
            f'{path}: the hub has converted only a part of it to parquet '
            f'({", ".join(partial)}). Download the dataset yourself and give its path.'
        )
    return splits


def _supported(splits, suffixes):
    """The splits with only files that end in one of the suffixes."""
    kept = {k: [one for one in v if one.endswith(suffixes)] for k, v in splits.items()}
    return {split: names for split, names in kept.items() if names}


def package(module, what):
    """Returns a module of the extra `hf`, to read `what`."""
    otherwise = ', or download the dataset and give its path'
    return extras.package(module, 'hf', f'Reading {what} from the hub', otherwise)


@contextlib.contextmanager
def _clear_errors(path):
    """Raises errors of the hub as built-in ones with a clear message."""
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError as error:
        raise PermissionError(
            f'{path} asks you to accept its terms first: do so on its page, then log in '
            'with `hf auth login` or set HF_TOKEN.'
        ) from error
    except errors.RevisionNotFoundError as error:
        raise FileNotFoundError(f'{path}: no such revision on the hub.') from error
    except errors.RepositoryNotFoundError as error:
        raise FileNotFoundError(
            f'{path} is not a dataset on the hub; private ones need HF_TOKEN.'
        ) from error
    except errors.HFValidationError as error:
        raise ValueError(f'{path} is not a valid name on the hub: {error}.') from error
    except errors.HfHubHTTPError as error:
        if error.response.status_code in (401, 403):
            raise PermissionError(
                f'{path}: access is refused ({error}). Log in with `hf auth login`, or '
                'set HF_TOKEN. Otherwise ask its owner for access.'
            ) from error
        raise
    except Exception as error:
        # Without a network, those of httpx or its successors.
        is_missing = isinstance(error, errors.LocalEntryNotFoundError | ConnectionError)
        if not is_missing and not type(error).__module__.startswith('httpx'):
            raise
        raise addresses.AddressError(
            f'{path}: the hub cannot be reached, or HF_HUB_OFFLINE is set ({error}): '
            'unset it, or download the files and give their path.'
        ) from error
