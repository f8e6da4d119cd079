"""sentence-transformers files: reads and writes the pooling of a model folder."""

import dataclasses
from pathlib import Path

from jepa_text.hf import files
from jepa_text.settings import ranges

_MODULES = 'sentence_transformers.models'
_PARTS = ['Transformer', 'Pooling', 'Normalize']

# The first that has an entry counts, as in the library.
_OWN = ('bert', 'roberta', 'distilbert', 'camembert', 'albert', 'xlm-roberta', 'xlnet')
OWN = tuple(f'sentence_{name}_config.json' for name in _OWN)
# Older files set one of several flags, pooling_mode_..., newer ones name the pooling.
FLAG = 'pooling_mode_'
POOLINGS = {
    'mean_tokens': 'mean',
    'cls_token': 'cls',
    'max_tokens': 'max',
    'weightedmean_tokens': 'position',
    'lasttoken': 'last',
}
NAMED = {theirs.removesuffix('s').removesuffix('_token'): theirs for theirs in POOLINGS}


@dataclasses.dataclass(frozen=True)
class Pooling:
    """`pool` over all tokens, including special ones; scaled to length 1 if `normalize`.

    Texts are truncated to `length` tokens, unless it is None.
    """

    pool: str
    normalize: bool
    length: int | None


def read(folder):
    """The Pooling of a folder of sentence-transformers; None for CrossEncoder and others.

    Raises ValueError for an unsupported module or pooling, and if the folder configures
    changes to texts or vectors.
    """
    folder = Path(folder)
    if not files.is_file(folder / 'modules.json'):
        return None
    modules = files.read_json(folder / 'modules.json', list)
    kinds = dict(_module(module, folder) for module in modules)
    if [*kinds] == _PARTS[:1]:
        return None
    if len(kinds) < len(modules) or [*kinds] not in (_PARTS, _PARTS[:2]):
        raise ValueError(
            f'{folder / "modules.json"} has the modules {", ".join(kinds)}; only '
            'Transformer, Pooling and maybe Normalize, in this order, can be read.'
        )
    section = files.read_json(folder / kinds['Pooling'] / 'config.json')
    file = next((name for name in OWN if _optional(folder / name)), OWN[0])
    own = _optional(folder / file)
    whole = _optional(folder / 'config_sentence_transformers.json')
    name, given = whole.get('default_prompt_name'), whole.get('prompts')
    kept = whole.get('truncate_dim')
    side = _optional(folder / 'tokenizer_config.json').get('truncation_side')
    is_empty = isinstance(given, dict) and given.get(str(name)) == ''
    has_prompt = name is not None and not is_empty
    for is_used, what in (
        (own.get('do_lower_case'), 'lowercases texts (do_lower_case)'),
        (has_prompt, f'puts a prompt before texts (default_prompt_name={name!r})'),
        (kept is not None, f'shortens vectors (truncate_dim={kept!r})'),
        (side == 'left', "cuts the beginnings of long texts (truncation_side='left')"),
    ):
        if is_used:
            raise ValueError(
                f'{folder} {what}, which is not supported: switch it off in its JSON '
                'files, and do it yourself.'
            )
    return Pooling(
        pool=_pool(section, folder),
        normalize='Normalize' in kinds,
        length=_length(folder, file, own),
    )


def _module(module, folder):
    """(class name, folder) of an entry in modules.json."""
    kind, path = (
        (module if isinstance(module, dict) else {}).get(k) for k in ('type', 'path')
    )
    if not isinstance(kind, str) or not (path == '' or files.is_plain(path)):
        raise ValueError(
            f'{folder / "modules.json"} has {module!r}: each module must be an object '
            'with its "type" and, as "path", the name of a folder in this one or "".'
        )
    return kind.rsplit('.', 1)[-1], path


def _length(folder, file, own):
    """The maximum length: of its own file, else of the tokenizer, for which a huge number
    means unspecified."""
    if own.get('max_seq_length') is not None:
        key, length = f'{file}: max_seq_length', own['max_seq_length']
    else:
        key = 'tokenizer_config.json: model_max_length'
        length = _optional(folder / 'tokenizer_config.json').get('model_max_length')
    return None if length is None else ranges.whole(f'{folder}/{key}', length, minimum=1)


def _optional(path):
    return files.read_json(path) if files.is_file(path) else {}


def _pool(section, folder):
    modes = [key.removeprefix(FLAG) for key, on in section.items() if on and FLAG in key]
    named = section.get('pooling_mode')
    if named is not None:
        named = named if isinstance(named, list) else [named]
        modes = [NAMED.get(str(mode), str(mode)) for mode in named]
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise ValueError(
            f'{folder} pools by {", ".join(modes) or "nothing"}; exactly one of '
            f'{", ".join(POOLINGS)} is supported.'
        )
    return POOLINGS[modes[0]]


def write(folder, pooling, width):
    """Writes the files that `read` reads, for vectors of `width`.

    Raises ValueError for a pooling that sentence-transformers does not have.
    """
    if pooling.pool not in POOLINGS.values():
        raise ValueError(
            f'pool={pooling.pool!r} is not supported by sentence-transformers, which '
            f'counts every token; use one of {", ".join(POOLINGS.values())}, for example '
            "with dataclasses.replace(model, pool='mean')."
        )
    modes = {f'{FLAG}{mode}': pool == pooling.pool for mode, pool in POOLINGS.items()}
    parts = {'Transformer': '', 'Pooling': '1_Pooling'}
    parts |= {'Normalize': '2_Normalize'} if pooling.normalize else {}
    modules = [
        {'idx': i, 'name': str(i), 'path': path, 'type': f'{_MODULES}.{name}'}
        for i, (name, path) in enumerate(parts.items())
    ]
    own = {
        'max_seq_length': pooling.length,
        'do_lower_case': False,
        # Special tokens spelled out in a text stay text, as in `encode`.
        'tokenizer_args': {'split_special_tokens': True},
    }
    for path in filter(None, parts.values()):
        Path(folder, path).mkdir()
    for file, content in (
        ('modules.json', modules),
        ('1_Pooling/config.json', {'word_embedding_dimension': width, **modes}),
        (OWN[0], own),
    ):
        files.write_json(Path(folder, file), content)
