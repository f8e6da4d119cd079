"""`hub:NAME[/CONFIG][@REVISION]`: a data set on Hugging Face's hub -> files here.

    hub:nyu-mll/glue/sst2                    a config of a set
    hub:rajpurkar/squad@7b6d24c440a36b68     as it was at a commit, branch or tag

Files are downloaded once, into the cache that HF_HOME names; without a network, what is
in the cache is taken. Which file belongs to which config and split, the card of the set
says, or else the names of folders and files. Sets without files that can be read here,
as those made by a script, are taken from what the hub made of them: its branch
refs/convert/parquet. Nothing is executed from what was downloaded.

A corpus is read under the same name without being downloaded (data/sources/hub.py).
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
SUFFIXES += ('.conll', '.iob2', '.json')
_NAME = re.compile(
    r'(?P<name>[^/@]+(/[^/@]+)?)(/(?P<config>[^/@][^@]*))?(@(?P<revision>.+))?'
)


@dataclasses.dataclass(frozen=True)
class Found:
    """The files of a set on this machine.

    folder      where they lie, as in the repository
    commit      of the repository, 40 hexadecimal digits
    splits      {'train': [path, ...], ...}; files that no split is said of are 'train'
    """

    folder: pathlib.Path
    commit: str
    splits: dict


def is_name(path):
    """Is it a name on the hub, not a path?"""
    return str(path).startswith(PREFIX)


def find(path):
    """The Found of `hub:NAME[/CONFIG][@REVISION]`, downloaded where it is not here.

    Raises ValueError for what is no such name and a config that does not exist,
    FileNotFoundError for a set or revision that does not, PermissionError for one whose
    terms must be accepted, ModuleNotFoundError without huggingface_hub.
    """
    return locate(path, _fetched, SUFFIXES)


def parse(path):
    """(name, config or None, revision or None) of `hub:NAME[/CONFIG][@REVISION]`;
    ValueError for what is none."""
    parts = _NAME.fullmatch(str(path).removeprefix(PREFIX))
    if not is_name(path) or parts is None:
        raise ValueError(
            f"{path!r} is no name of a set: write '{PREFIX}NAME[/CONFIG][@REVISION]', "
            f"such as '{PREFIX}nyu-mll/glue/sst2'."
        )
    return parts['name'], parts['config'], parts['revision']


def locate(path, files_of, suffixes):
    """What `files_of(name, revision, patterns)` gives of the files of a path, whose
    `splits` are not empty; of the set itself or, without a revision, as converted.

    Patterns are {split, or None where names tell it: [pattern, ...]}. The card alone is
    downloaded. Raises as `find` does.
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
    """As `locate`, of the parquet files that the hub has made of a set, if it has."""
    where = f'{PREFIX}{name}'
    if config is None:
        config = card.config_of(None, _configs_converted(name), where)
    found = files_of(name, CONVERTED, {None: [f'{config}/**/*.parquet']})
    if not found.splits:
        card.config_of(config, _configs_converted(name), where)
    partial = [split for split in found.splits if split.startswith('partial-')]
    if partial:
        raise FileNotFoundError(
            f'{where}: the hub has made parquet files of a part of it only '
            f'({", ".join(partial)}). Download the set yourself and give its path.'
        )
    return found


def _configs_converted(name):
    import huggingface_hub

    with explained(name, CONVERTED):
        files = huggingface_hub.HfApi().list_repo_files(
            name, repo_type='dataset', revision=CONVERTED
        )
    return sorted({file.split('/')[0] for file in files if file.endswith('.parquet')})


def _fetched(name, revision, wanted):
    """Found of the files that patterns mean: {split, or None: [pattern, ...]}."""
    patterns = [one for some in wanted.values() for one in some]
    # A * of huggingface_hub may be a /, that of pathlib is none.
    loose = [one.replace('**/', '*') for one in patterns]
    begun = [x.removesuffix('.*') for x in loose if x.endswith('*')]
    ended = [f'{x}{end}' for x in begun for end in SUFFIXES]
    loose = [x for x in loose if not x.endswith('*')]
    folder = _download(name, revision, [*loose, *ended])
    files = (file for file in folder.rglob('*') if file.is_file())
    names = [file.relative_to(folder).as_posix() for file in files]
    splits, _ = card.sort(names, wanted, SUFFIXES)
    splits = {split: [folder / one for one in some] for split, some in splits.items()}
    return Found(folder, folder.name, splits)


def _download(name, revision, patterns):
    """The folder of a commit, with those files in it."""
    huggingface_hub = client(name)
    with explained(name, revision):
        folder = huggingface_hub.snapshot_download(
            name, repo_type='dataset', revision=revision, allow_patterns=patterns
        )
    return pathlib.Path(folder)


def client(name):
    """The module huggingface_hub; ModuleNotFoundError with the remedy without it."""
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'To ask the hub for {name}, huggingface_hub is needed: pip install '
            "'jepa-text[hf]'. Or download the set and give its path."
        ) from error
    return huggingface_hub


@contextlib.contextmanager
def explained(name, revision):
    """What the hub refuses, in words."""
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
        made = ' The hub has made no parquet files of it, either: download the set '
        remedy = f'{made}and give its path.' if revision == CONVERTED else ''
        raise FileNotFoundError(
            f'{where}: no such revision on the hub.{remedy}'
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise FileNotFoundError(
            f'{where} is no data set on the hub; private ones need HF_TOKEN.'
        ) from error
    except errors.HFValidationError as error:
        raise ValueError(f'{where} can be no name on the hub: {error}.') from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise FileNotFoundError(
            f'{where} is not whole in the local cache, and the hub cannot be reached: go '
            'online once, unset HF_HUB_OFFLINE, or give the path of the files.'
        ) from error
    except errors.HfHubHTTPError as error:
        if refused := addresses.barred(where, error):
            raise refused from error
        raise
