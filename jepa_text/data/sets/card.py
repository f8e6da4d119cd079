"""Which files of a repository a config and a split mean, by its card or their names.

Names are those in the repository, with / between folders; nothing is read but the card.
"""

import pathlib
import re

from fsspec import utils

from jepa_text.config import resolve

# No data: label.json says what numbers of classes mean.
_ABOUT = ('dataset_info.json', 'dataset_infos.json', 'state.json', 'label.json')
_SPLITS = 'train(?:ing)?|valid(?:ation)?|val|dev|test(?:ing)?|eval(?:uation)?'
_SPLIT = re.compile(rf'({_SPLITS})(_\w+)?')
_WITHIN = re.compile(rf'(?:^|[^a-zA-Z])({_SPLITS})(?:[^a-zA-Z]|$)')
# The same split by its usual name.
_CALLED = {'val': 'validation', 'valid': 'validation', 'training': 'train'}
_CALLED |= dict.fromkeys(('testing', 'eval', 'evaluation'), 'test')


def config_of(config, known, where):
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


def wanted(where, config, card):
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
        # Of a config its folder, or as in BEIR's sets, the file of its name.
        named = [] if config is None else [_inside(where, '', f'{config}.*')]
        return {None: [_inside(where, config or '', '**/*'), *named]}
    one = known[config_of(config, known, where)]
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


def top_of(pattern):
    """The folder that all files of a pattern are in, '' for that of the repository."""
    folders = pattern.split('/')[:-1]
    magic = [n for n, folder in enumerate(folders) if set(folder) & set('*?[')]
    return '/'.join(folders[: magic[0]] if magic else folders)


def sort(names, patterns, suffixes):
    """({split: [name, ...]}, the names that are meant and not taken) of those that
    `patterns`, {split or None: [pattern, ...]}, mean; taken are those of `suffixes`.

    Files of which the patterns do not tell the split are of one ending, the first of
    `suffixes` that any has, as the same rows may be there in two.
    """
    splits, left = {}, set()
    for split, some in patterns.items():
        fits = re.compile('|'.join(utils.glob_translate(one) for one in some)).fullmatch
        meant = sorted(filter(fits, names))
        taken = [name for name in meant if name.endswith(tuple(suffixes))]
        if split is None:
            taken = _of_one_kind(taken, suffixes)
        for name in taken:
            called = _CALLED.get(split, split) or split_of(pathlib.PurePosixPath(name))
            splits.setdefault(called, []).append(name)
        left.update(set(meant).difference(taken))
    taken = {name for some in splits.values() for name in some}
    return splits, sorted(left - taken)


def _of_one_kind(names, suffixes):
    names = [name for name in names if name.rpartition('/')[2] not in _ABOUT]
    kinds = ([one for one in names if one.endswith(suffix)] for suffix in suffixes)
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
