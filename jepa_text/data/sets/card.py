"""Files of a hub dataset by config and split, from its card or from file names.

Names are paths in the repository, separated by /; only the card is read.
"""

import pathlib
import re

from fsspec import utils

from jepa_text.config import resolve

# Not data files; label.json gives the names of classes.
_ABOUT = ('dataset_info.json', 'dataset_infos.json', 'state.json', 'label.json')
_SPLITS = 'train(?:ing)?|valid(?:ation)?|val|dev|test(?:ing)?|eval(?:uation)?'
_SPLIT = re.compile(rf'({_SPLITS})(_\w+)?')
_WITHIN = re.compile(rf'(?:^|[^a-zA-Z])({_SPLITS})(?:[^a-zA-Z]|$)')
# Alternative names of splits.
_CALLED = {'val': 'validation', 'valid': 'validation', 'training': 'train'}
_CALLED |= dict.fromkeys(('testing', 'eval', 'evaluation'), 'test')


def config_of(config, known, where):
    """Returns the requested config, if None the default or only one; else ValueError."""
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


def wanted(where, config, card):
    """Returns {split, or None if file names determine it: [pattern, ...]} of a config;
    all files if the card lists none."""
    configs = []
    if card.is_file():
        from huggingface_hub import repocard

        configs = (repocard.metadata_load(card) or {}).get('configs') or []
    known = {}
    for content in configs:
        known[content['config_name']] = content
        if content.get('default'):
            known.setdefault('default', content)
    if not known:
        # The config is a folder or, as in BEIR's datasets, the name of a file.
        named = [] if config is None else [_inside(where, '', f'{config}.*')]
        return {None: [_inside(where, config or '', '**/*'), *named]}
    content = known[config_of(config, known, where)]
    files, top = content.get('data_files', '**/*'), content.get('data_dir', '')
    if isinstance(files, dict):
        files = [{'split': split, 'path': path} for split, path in files.items()]
    if not isinstance(files, list) or not isinstance(files[0], dict):
        files = [{'split': None, 'path': files}]
    return {
        file['split']: [_inside(where, top, path) for path in _as_list(file['path'])]
        for file in files
    }


def _as_list(value):
    return value if isinstance(value, list) else [value]


def _inside(where, top, pattern):
    """Returns the pattern relative to the repository; ValueError if it leads outside."""
    path = pathlib.PurePosixPath(top, pattern)
    if path.is_absolute() or '..' in path.parts or ':' in str(path):
        raise ValueError(
            f'{where}: {str(path)!r} is outside of the dataset; only its own files are '
            'read. Download it yourself and give its path.'
        )
    return str(path)


def top_of(pattern):
    """Returns the folder that contains all files of a pattern, '' for the top one."""
    folders = pattern.split('/')[:-1]
    magic = [n for n, folder in enumerate(folders) if set(folder) & set('*?[')]
    return '/'.join(folders[: magic[0]] if magic else folders)


def sort(names, patterns, suffixes):
    """Returns ({split: [name, ...]}, skipped names) of the names that match `patterns`,
    {split or None: [pattern, ...]}; names are skipped unless they end in `suffixes`.

    If patterns do not give the split, only files with one suffix are taken, the first of
    `suffixes` that occurs, as the same rows may exist in several formats.
    """
    splits, skipped = {}, set()
    for split, globs in patterns.items():
        pattern = re.compile('|'.join(utils.glob_translate(glob) for glob in globs))
        matching = sorted(filter(pattern.fullmatch, names))
        taken = [name for name in matching if name.endswith(tuple(suffixes))]
        if split is None:
            taken = _of_one_kind(taken, suffixes)
        for name in taken:
            usual = _CALLED.get(split, split) or split_of(pathlib.PurePosixPath(name))
            splits.setdefault(usual, []).append(name)
        skipped.update(set(matching).difference(taken))
    taken = {name for names_of in splits.values() for name in names_of}
    return splits, sorted(skipped - taken)


def _of_one_kind(names, suffixes):
    names = [name for name in names if name.rpartition('/')[2] not in _ABOUT]
    kinds = ([one for one in names if one.endswith(suffix)] for suffix in suffixes)
    return next(filter(None, kinds), [])


def split_of(path):
    """Returns the split that the names of a file or its folders contain, else 'train'.

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
