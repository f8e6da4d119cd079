"""Hugging Face Hub datasets by name, `hub:NAME[/CONFIG][@REVISION]`, as local files.

    hub:nyu-mll/glue/sst2                    a config of a dataset
    hub:rajpurkar/squad@7b6d24c440a36b68     at a commit, branch or tag

Files are downloaded once, into the cache of HF_HOME; without a network, the cache is
used. The config and split of a file are determined by the dataset's card, or else by the
names of folders and files. A dataset without supported files, such as one made by a
script, is read from the hub's conversion, the branch refs/convert/parquet. Downloaded
code is never executed.

A corpus with such a name is streamed instead (data/sources/hub.py).
"""

import contextlib
import dataclasses
import pathlib
import re

from jepa_text.data.sets import card
from jepa_text.files import addresses

PREFIX = 'hub:'
CONVERTED = 'refs/convert/parquet'
CARD = 'README.md'
SUFFIXES = ('.parquet', '.jsonl', '.jsonl.gz', '.csv', '.csv.gz', '.tsv', '.tsv.gz')
SUFFIXES += ('.conll', '.conllu', '.iob2', '.json')
_NAME = re.compile(
    r'(?P<name>[^/@]+(/[^/@]+)?)(/(?P<config>[^/@][^@]*))?(@(?P<revision>.+))?'
)


@dataclasses.dataclass(frozen=True)
class Found:
    """The local files of a dataset.

    folder      of the files, laid out as in the repository
    commit      of the repository, 40 hexadecimal digits
    splits      {'train': [path, ...], ...}; files without a known split are 'train'
    """

    folder: pathlib.Path
    commit: str
    splits: dict


def is_name(path):
    """Whether this is a name on the hub, not a path."""
    return str(path).startswith(PREFIX)


def find(path):
    """Returns the Found of `hub:NAME[/CONFIG][@REVISION]`, downloaded if necessary.

    Raises ValueError for an invalid name or an unknown config, FileNotFoundError for an
    unknown dataset or revision, PermissionError if terms must be accepted first, and
    ModuleNotFoundError without huggingface_hub.
    """
    return locate(path, _fetched, SUFFIXES)


def parse(path):
    """Returns (name, config or None, revision or None) of
    `hub:NAME[/CONFIG][@REVISION]`. Raises ValueError for any other form."""
    parts = _NAME.fullmatch(str(path).removeprefix(PREFIX))
    if not is_name(path) or parts is None:
        raise ValueError(
            f"{path!r} is not a name on the hub: write '{PREFIX}NAME[/CONFIG]"
            f"[@REVISION]', such as '{PREFIX}nyu-mll/glue/sst2'."
        )
    return parts['name'], parts['config'], parts['revision']


def locate(path, files_of, suffixes):
    """Returns `files_of(name, revision, patterns)`, whose `splits` must not be empty; if
    they are and no revision is given, that of the dataset as converted by the hub.

    Patterns are {split, or None if file names determine it: [pattern, ...]}. Only the
    card is downloaded. Raises what `find` raises.
    """
    name, config, revision = parse(path)
    found = None
    if revision != CONVERTED:
        folder = _download(name, revision, [CARD])
        patterns = card.wanted(f'{PREFIX}{name}', config, folder / CARD)
        found = files_of(name, folder.name, patterns)
    unread = f'{path} has no files that can be read here ({", ".join(suffixes)}).'
    if revision == CONVERTED or (revision is None and not found.splits):
        try:
            found = _converted(name, config, files_of)
        except FileNotFoundError as error:
            raise FileNotFoundError(f'{unread} {error}') from error
    if not found.splits:
        raise FileNotFoundError(
            f'{unread} Give another revision or config, or download the set yourself and '
            'give its path.'
        )
    return found


def _converted(name, config, files_of):
    """`locate` for the parquet files that the hub has converted a dataset to, if any."""
    where = f'{PREFIX}{name}'
    if config is None:
        config = card.config_of(None, _configs_converted(name), where)
    found = files_of(name, CONVERTED, {None: [f'{config}/**/*.parquet']})
    if not found.splits:
        card.config_of(config, _configs_converted(name), where)
    partial = [split for split in found.splits if split.startswith('partial-')]
    if partial:
        raise FileNotFoundError(
            f'{where}: the hub has converted only a part of it to parquet '
            f'({", ".join(partial)}). Download the dataset yourself and give its path.'
        )
    return found


def _configs_converted(name):
    import huggingface_hub

    with clear_errors(name, CONVERTED):
        files = huggingface_hub.HfApi().list_repo_files(
            name, repo_type='dataset', revision=CONVERTED
        )
    return sorted({file.split('/')[0] for file in files if file.endswith('.parquet')})


def _fetched(name, revision, wanted):
    """The Found of the files that match {split, or None: [pattern, ...]}."""
    patterns = [pattern for patterns in wanted.values() for pattern in patterns]
    # In patterns of huggingface_hub, unlike those of pathlib, * matches /.
    loose = [pattern.replace('**/', '*') for pattern in patterns]
    open_ended = [x.removesuffix('.*') for x in loose if x.endswith('*')]
    closed = [x for x in loose if not x.endswith('*')]
    closed += [f'{x}{suffix}' for x in open_ended for suffix in SUFFIXES]
    folder = _download(name, revision, closed)
    files = (file for file in folder.rglob('*') if file.is_file())
    names = [file.relative_to(folder).as_posix() for file in files]
    splits, _ = card.sort(names, wanted, SUFFIXES)
    paths = {split: [folder / name for name in names] for split, names in splits.items()}
    return Found(folder, folder.name, paths)


def _download(name, revision, patterns):
    """Downloads the matching files of a revision; returns the folder of its commit."""
    huggingface_hub = client(name)
    with clear_errors(name, revision):
        folder = huggingface_hub.snapshot_download(
            name, repo_type='dataset', revision=revision, allow_patterns=patterns
        )
    return pathlib.Path(folder)


def client(name):
    """Returns the module huggingface_hub; ModuleNotFoundError with a remedy without
    it."""
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'To read {name} from the hub, huggingface_hub is needed: pip install '
            "'jepa-text[hf]'. Or download the dataset and give its path."
        ) from error
    return huggingface_hub


@contextlib.contextmanager
def clear_errors(name, revision):
    """Raises errors of the hub as built-in ones with a clear message."""
    from huggingface_hub import errors

    where = f'{PREFIX}{name}' + (f'@{revision}' if revision else '')
    try:
        yield
    except errors.GatedRepoError as error:
        raise PermissionError(
            f'{where} asks you to accept its terms first: do so on its page, then log in '
            'with `hf auth login` or set HF_TOKEN.'
        ) from error
    except errors.RevisionNotFoundError as error:
        hint = ' Nor has the hub converted it to parquet: download the dataset and give '
        remedy = f'{hint}its path.' if revision == CONVERTED else ''
        raise FileNotFoundError(
            f'{where}: no such revision on the hub.{remedy}'
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise FileNotFoundError(
            f'{where} is not a dataset on the hub; private ones need HF_TOKEN.'
        ) from error
    except errors.HFValidationError as error:
        raise ValueError(f'{where} is not a valid name on the hub: {error}.') from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise FileNotFoundError(
            f'{where} is not complete in the local cache, and the hub cannot be reached: '
            'go online once, unset HF_HUB_OFFLINE, or give the path of the files.'
        ) from error
    except errors.HfHubHTTPError as error:
        if refused := addresses.permission_error(where, error):
            raise refused from error
        raise
