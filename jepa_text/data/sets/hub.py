"""Hugging Face Hub datasets by name, `hub:NAME[/CONFIG][@REVISION]`.

    hub:nyu-mll/glue/sst2                    a config of a dataset
    hub:rajpurkar/squad@7b6d24c440a36b68     at a commit, branch or tag

The library `datasets` says which files a config and its splits have; without such a
config, it is the name of a folder or file. A dataset made by a script is read from the
hub's conversion, the revision refs/convert/parquet. Rows are read from the files by this
package, as `datasets` reads cells of a CSV such as None, NA and 007 as missing values and
numbers. Downloaded code is never executed.

`find` downloads the files once, into the cache of HF_HOME; without a network, the cache
is used, with the list of files that is in JEPA_TEXT_CACHE. A corpus is streamed instead
(data/sources/hub.py).
"""

import contextlib
import functools
import json
import pathlib
from typing import NamedTuple

from jepa_text.data.corpora import reading
from jepa_text.files import addresses, atomic, checksums, copies, extras

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
    name, *_ = parse(path)
    hub = package('huggingface_hub', name)
    snapshot = functools.partial(hub.snapshot_download, name, repo_type='dataset')
    # What was listed, as the cache of HF_HOME does not say which files a config has.
    record = copies.root() / 'hub' / f'{checksums.checksum(str(path))}.json'
    try:
        files = listed(path, SUFFIXES)
    except addresses.AddressError as unreachable:
        with contextlib.suppress(FileNotFoundError):
            files = Listed(**checksums.read_json(record, dict))
            found = _located(files, functools.partial(snapshot, local_files_only=True))
            if all(file.is_file() for some in found.values() for file in some):
                return found, files.commit
        raise FileNotFoundError(
            f'{path} is not complete in the local cache, and the hub cannot be reached: '
            'go online once, unset HF_HUB_OFFLINE, or give the path of the files.'
        ) from unreachable
    with _clear_errors(path):
        found = _located(files, snapshot)
    record.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(record, json.dumps(files._asdict()))
    return found, files.commit


def _located(files, snapshot):
    """Returns {split: [local path]} of a Listed by the function that downloads."""
    names = [name for some in files.splits.values() for name in some]
    top = pathlib.Path(snapshot(revision=files.commit, allow_patterns=names))
    return {split: [top / one for one in some] for split, some in files.splits.items()}


def listed(path, suffixes):
    """Returns the Listed of a name on the hub, of files that end in one of `suffixes`.

    Raises addresses.AddressError if the hub cannot be reached.
    """
    name, config, revision = parse(path)
    package('datasets', name)
    client = package('huggingface_hub', name).HfApi()
    with _clear_errors(path):
        info = client.dataset_info(
            name, revision=revision, expand=['sha', 'gated'], timeout=TIMEOUT
        )
        if info.gated:  # It can be listed without permission to read it.
            client.auth_check(name, repo_type='dataset')
        splits = _splits(name, config, info.sha, suffixes)
    names = [file for some in splits.values() for file in some]
    is_converted = revision == CONVERTED  # as CONFIG/SPLIT/0000.parquet
    configs = sorted({file.partition('/')[0] for file in names})
    if is_converted and len(configs) > 1:
        raise ValueError(
            f'{path} has several configs: {", ".join(configs)}. Say which, as '
            f"'{PREFIX}{name}/{configs[0]}@{CONVERTED}'."
        )
    if not names or is_converted and any('/partial-' in file for file in names):
        which = 'only a part of its files' if names else 'no files'
        shown = path.partition('@')[0]
        raise FileNotFoundError(
            f'{path} has {which} that can be read here ({", ".join(suffixes)}). If a '
            f"script makes it, the hub's conversion may be complete: '{shown}@{CONVERTED}"
            "'. Or give another revision or config, or download it and give its path."
        )
    return Listed(name, revision, info.sha, splits)


def _splits(name, config, commit, suffixes):
    """{split: [path in the repository that ends in one of the suffixes]} of a dataset at
    a commit; {} without files."""
    import datasets

    options, unknown = [{'name': config}], None
    if config:
        options += [{'data_dir': config}, {'data_files': f'{config}.*'}]
    for option in options:
        try:
            made = datasets.load_dataset_builder(name, revision=commit, **option)
        except ValueError as error:
            unknown = unknown or error
        except (FileNotFoundError, RuntimeError):  # no files, or a script
            continue
        else:
            top = f'hf://datasets/{name}@{commit}/'
            splits = {}
            for split, files in (made.config.data_files or {}).items():
                names = (x.removeprefix(top) for x in files if x.endswith(suffixes))
                if names := list(names):
                    splits[str(split)] = names
            return splits
    if unknown:
        raise ValueError(f'{PREFIX}{name}: {unknown}')
    return {}


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
    except errors.HFValidationError as error:
        raise ValueError(f'{path} is not a valid name on the hub: {error}.') from error
    except Exception as error:
        # Without a network, those of httpx or its successors.
        is_away = isinstance(error, errors.LocalEntryNotFoundError | ConnectionError)
        if is_away or type(error).__module__.startswith('httpx'):
            raise addresses.AddressError(
                f'{path}: the hub cannot be reached, or HF_HUB_OFFLINE is set ({error}): '
                'unset it, or download the files and give their path.'
            ) from error
        # An error of the system, as of a cache that cannot be written, has a number.
        is_system = getattr(error, 'errno', None) is not None
        if not is_system and (final := addresses.final_error(path, error)):
            raise final from error
        raise
