"""'hub:NAME[/CONFIG][@REVISION]': a data set on Hugging Face's hub -> files here.

    hub:nyu-mll/glue/sst2                    a config of a set
    hub:rajpurkar/squad@7b6d24c440a36b68     as it was at a commit, branch or tag

Files are downloaded once, into the cache that HF_HOME names; without a network, what is
in the cache is taken. Which file belongs to which config and split, the card of the set
says, or else the names of folders and files. Sets without files that can be read here,
as those made by a script, are taken from what the hub made of them: its branch
refs/convert/parquet. Nothing is executed from what was downloaded.
"""

import contextlib
import dataclasses
import pathlib
import re

from jepa_text.config import resolve

PREFIX = 'hub:'
CONVERTED = 'refs/convert/parquet'
CARD = 'README.md'
SUFFIXES = ('.parquet', '.jsonl', '.jsonl.gz', '.csv', '.csv.gz', '.tsv', '.tsv.gz')
SUFFIXES += ('.conll', '.iob2', '.json')
_ABOUT = ('dataset_info.json', 'dataset_infos.json', 'state.json')  # no data
_NAME = re.compile(
    r'(?P<name>[^/@]+(/[^/@]+)?)(/(?P<config>[^/@][^@]*))?(@(?P<revision>.+))?'
)
_SPLITS = 'train(?:ing)?|valid(?:ation)?|val|dev|test(?:ing)?|eval(?:uation)?'
_SPLIT = re.compile(rf'({_SPLITS})(_\w+)?')
_WITHIN = re.compile(rf'(?:^|[^a-zA-Z])({_SPLITS})(?:[^a-zA-Z]|$)')
# The same split by its usual name.
_CALLED = {'val': 'validation', 'valid': 'validation', 'training': 'train'}
_CALLED |= dict.fromkeys(('testing', 'eval', 'evaluation'), 'test')


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
    """The Found of 'hub:NAME[/CONFIG][@REVISION]', downloaded where it is not here.

    Raises ValueError for what is no such name and a config that does not exist,
    FileNotFoundError for a set or revision that does not, PermissionError for one whose
    terms must be accepted, ModuleNotFoundError without huggingface_hub.
    """
    parts = _NAME.fullmatch(str(path).removeprefix(PREFIX))
    if not is_name(path) or parts is None:
        raise ValueError(
            f"{path!r} is no name of a set: write '{PREFIX}NAME[/CONFIG][@REVISION]', "
            f"such as '{PREFIX}nyu-mll/glue/sst2'."
        )
    name, config, revision = (parts[key] for key in ('name', 'config', 'revision'))
    found = None
    if revision != CONVERTED:
        folder = _download(name, revision, [CARD])
        wanted = _wanted(f'{PREFIX}{name}', config, folder / CARD)
        found = _fetched(name, folder.name, wanted)
    if revision == CONVERTED or (revision is None and not found.splits):
        found = _converted(name, config)
    if not found.splits:
        raise FileNotFoundError(
            f'{path} has no files that can be read here ({", ".join(SUFFIXES)}). Give '
            'another revision or config, or download the set yourself and give its path.'
        )
    return found


def _chosen(config, known, where):
    """The name of the config that is asked for, or of the only one, or the default."""
    if config in known:
        return config
    if config is not None:
        near = resolve.nearest(config, list(known))
        raise ValueError(f'{where} has no config {config!r}.{near}')
    if len(known) == 1 or 'default' in known:
        return 'default' if 'default' in known else next(iter(known))
    raise ValueError(
        f'{where} has several configs: {", ".join(sorted(known))}. Say which, as '
        f"'{where}/{sorted(known)[0]}'."
    )


def _wanted(where, config, card):
    """{split, or None where names tell it: [pattern, ...]} of a config; all files of a
    kind where the card names none."""
    configs = []
    if card.is_file():
        from huggingface_hub import repocard

        configs = (repocard.metadata_load(card) or {}).get('configs') or []
    known = {}
    for one in configs:
        known[one['config_name']] = one
        if one.get('default'):
            known.setdefault('default', one)
    if not known:
        return {None: [_inside(where, config or '', '**/*')]}
    one = known[_chosen(config, known, where)]
    files, top = one.get('data_files', '**/*'), one.get('data_dir', '')
    if isinstance(files, dict):
        files = [{'split': split, 'path': path} for split, path in files.items()]
    if not isinstance(files, list) or not isinstance(files[0], dict):
        files = [{'split': None, 'path': files}]
    return {
        file['split']: [_inside(where, top, x) for x in _listed(file['path'])]
        for file in files
    }


def _listed(given):
    return given if isinstance(given, list) else [given]


def _inside(where, top, pattern):
    """The pattern from the top of the repository; ValueError if it leads out of it."""
    path = pathlib.PurePosixPath(top, pattern)
    if path.is_absolute() or '..' in path.parts or ':' in str(path):
        raise ValueError(
            f'{where}: {str(path)!r} lies elsewhere; only files of '
            'the set itself are read. Download it yourself and give its path.'
        )
    return str(path)


def _converted(name, config):
    """Found of the parquet files that the hub has made of a set, if it has."""
    where = f'{PREFIX}{name}'
    if config is None:
        config = _chosen(None, _configs_converted(name), where)
    found = _fetched(name, CONVERTED, {None: [f'{config}/**/*.parquet']})
    if not found.splits:
        _chosen(config, _configs_converted(name), where)
    partial = [split for split in found.splits if split.startswith('partial-')]
    if partial:
        raise FileNotFoundError(
            f'{where}: the hub has made parquet files of a part of it only '
            f'({", ".join(partial)}). Download the set yourself and give its path.'
        )
    return found


def _configs_converted(name):
    import huggingface_hub

    with _explained(name, CONVERTED):
        files = huggingface_hub.HfApi().list_repo_files(
            name, repo_type='dataset', revision=CONVERTED
        )
    return sorted({file.split('/')[0] for file in files if file.endswith('.parquet')})


def _fetched(name, revision, wanted):
    """Found of the files that patterns mean: {split, or None: [pattern, ...]}."""
    patterns = [one for some in wanted.values() for one in some]
    # A * of huggingface_hub may be a /, that of pathlib is none.
    loose = [one.replace('**/', '*') for one in patterns]
    ended = [f'{x}{end}' for x in loose if x.endswith('*') for end in SUFFIXES]
    loose = [x for x in loose if not x.endswith('*')]
    folder, splits = _download(name, revision, [*loose, *ended]), {}
    for split, some in wanted.items():
        files = sorted({file for pattern in some for file in folder.glob(pattern)})
        for file in _of_one_kind(files) if split is None else files:
            if file.is_file() and file.name.endswith(SUFFIXES):
                called = _CALLED.get(split, split)
                called = called or split_of(file.relative_to(folder))
                splits.setdefault(called, []).append(file)
    return Found(folder, folder.name, splits)


def _of_one_kind(files):
    """Those of the first ending that any has, as the same rows may be there in two."""
    files = [file for file in files if file.name not in _ABOUT]
    kinds = ([f for f in files if f.name.endswith(suffix)] for suffix in SUFFIXES)
    return next(filter(None, kinds), [])


def split_of(path):
    """The split that the names of a file and its folders tell, 'train' if none does.

    >>> split_of(pathlib.Path('sst2/test-00000-of-00001.parquet'))
    'test'
    >>> split_of(pathlib.Path('mnli/dev_matched/0000.parquet'))
    'dev_matched'
    >>> split_of(pathlib.Path('news_eval2.csv'))
    'test'
    """
    parts = (path.name, *reversed(path.parts[:-1]))
    partial = [part for part in parts if part.startswith('partial-')]
    words = (re.split(r'[.-]', part)[0] for part in parts)
    begun = [word for word in words if _SPLIT.fullmatch(word)]
    within = [found[1] for part in parts if (found := _WITHIN.search(part))]
    word = next(iter((*partial, *begun, *within)), 'train')
    return _CALLED.get(word, word)


def _download(name, revision, patterns):
    """The folder of a commit, with those files in it."""
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'To ask the hub for {name}, huggingface_hub is needed: pip install '
            "'jepa-text[hf]'. Or download the set and give its path."
        ) from error
    with _explained(name, revision):
        folder = huggingface_hub.snapshot_download(
            name, repo_type='dataset', revision=revision, allow_patterns=patterns
        )
    return pathlib.Path(folder)


@contextlib.contextmanager
def _explained(name, revision):
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
