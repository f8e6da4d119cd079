r"""Conversion of tiktoken's ranks to a tokenizer.json with the same ids.

    IQ== 0          a line of a .tiktoken file: the bytes of a token in base64, its rank

The rank is both the id and the merge priority: pairs that form a token of a low rank are
merged first. A file has no regular expression and no special tokens; they belong to the
encoding, which the package `tiktoken` knows by name.
"""

import base64
import binascii
import re

from jepa_text.data.tokenizers import check, declared

# By the name of the file; equivalent to those of `tiktoken` 0.14.
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r'| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s'
)
_UPPER, _LOWER = r'\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}', r'\p{Ll}\p{Lm}\p{Lo}\p{M}'
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (
    rf'[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+{_ENDING}'
    rf'|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*{_ENDING}'
    r'|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+'
)
PATTERNS = {'gpt2': GPT2, 'r50k_base': GPT2, 'p50k_base': GPT2, 'p50k_edit': GPT2}
PATTERNS |= {'cl100k_base': CL100K, 'o200k_base': O200K}


def read(path, pattern=''):
    """Returns (content of a tokenizer.json, lines) of a .tiktoken file.

    `pattern` splits a text; '' stands for that of the encoding the file is named after.
    Raises ValueError for any other file, and if the pattern is unknown.
    """
    if not pattern and path.stem not in PATTERNS:
        raise ValueError(
            f'{path} does not say by which regular expression a text is split: give it '
            'as --config.pattern=... to `jepa-text tokenizer`, or name the file after '
            f'its encoding ({", ".join(PATTERNS)}).'
        )
    split_by = 'config.pattern says' if pattern else path.stem
    origin = f'{path}: tiktoken, cut as {split_by}'
    return _content(_ranks(path), {}, pattern or PATTERNS[path.stem], origin)


def named(name):
    """Returns (content of a tokenizer.json, lines) of a named tiktoken encoding.

    It is read from tiktoken's cache or downloaded. Raises ModuleNotFoundError without
    the package, ValueError for an unknown name, OSError if it is not in the cache and
    cannot be downloaded.
    """
    try:
        import tiktoken
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'The encoding {name!r} needs tiktoken: pip install tiktoken. A .tiktoken '
            'file is read without it.'
        ) from error
    if name not in tiktoken.list_encoding_names():
        known = ', '.join(sorted(tiktoken.list_encoding_names()))
        raise ValueError(f'tiktoken has no encoding {name!r}; there are: {known}.')
    try:
        found = tiktoken.get_encoding(name)
    except OSError as error:  # the base class of requests' errors
        raise OSError(
            f"{name!r} is not in tiktoken's cache (TIKTOKEN_CACHE_DIR), and could not be "
            f'downloaded ({type(error).__name__}): go online once, or give the path of '
            f'{name}.tiktoken.'
        ) from error
    origin = f'tiktoken {tiktoken.__version__}: {name}'
    special = found._special_tokens
    return _content(found._mergeable_ranks, special, found._pat_str, origin)


def _content(ranks, special, pattern, origin):
    letters = _letters()
    texts = {token: ''.join(letters[byte] for byte in token) for token in ranks}
    vocabulary = {texts[token]: rank for token, rank in ranks.items()}
    added = _added(special, set(ranks.values()))
    # Special ids below the highest rank must be entries of the vocabulary.
    vocabulary |= {name: i for i, name in added if i <= max(ranks.values())}
    merges = [
        (rank, at, texts[token[:at]], texts[token[at:]])
        for token, rank in ranks.items()
        for at in range(1, len(token))
        if token[:at] in ranks and token[at:] in ranks
    ]
    content = {
        'version': '1.0',
        'truncation': None,
        'padding': None,
        'added_tokens': [declared.special(i, name) for i, name in added],
        'normalizer': None,
        'pre_tokenizer': _pre_tokenizer(pattern),
        'post_processor': None,
        'decoder': _BYTES | {'trim_offsets': True},
        'model': {
            'type': 'BPE',
            'dropout': None,
            'unk_token': None,
            'continuing_subword_prefix': None,
            'end_of_word_suffix': None,
            'fuse_unk': False,
            'byte_fallback': False,
            # A word that is a token becomes that token, whatever its merges.
            'ignore_merges': True,
            'vocab': dict(sorted(vocabulary.items(), key=lambda one: one[1])),
            'merges': [[left, right] for *_, left, right in sorted(merges)],
        },
    }
    return content, [f'read from {origin}, {len(ranks):,} ranks']


def _added(special, taken):
    """[(id, name)] of the special tokens, with reserved ones for the gaps between ids."""
    names = {i: name for name, i in special.items()}
    free = (set(range(max([*taken, *names]))) - taken) - set(names)
    names |= {i: f'<|reserved_special_token_{n}|>' for n, i in enumerate(sorted(free))}
    return sorted(names.items())


_BYTES = {'type': 'ByteLevel', 'add_prefix_space': False, 'use_regex': False}


def _pre_tokenizer(pattern):
    cut = {
        'type': 'Split',
        'pattern': {'Regex': _in_oniguruma(pattern)},
        'behavior': 'Isolated',
        'invert': False,
    }
    steps = [cut, _BYTES | {'trim_offsets': True}]
    return {'type': 'Sequence', 'pretokenizers': steps}


def _in_oniguruma(pattern):
    r"""Converts a regular expression of Rust's fancy-regex to the library's Oniguruma.

    In Oniguruma, {1,3}+ repeats {1,3}, and $ is the end of a line.

    >>> _in_oniguruma(r'\p{N}{1,3}+|\s++$')
    '(?>\\p{N}{1,3})|\\s++\\z'
    """
    atom = r'(\\[pP]\{\^?\w+\}|\\.|\[(?:\\.|[^\]\\])*\]|[^\\()\[\]{}|+*?])'
    pattern = re.sub(atom + r'(\{\d+(?:,\d*)?\})\+', r'(?>\1\2)', pattern)
    return re.sub(r'(\\.|\[(?:\\.|[^\]\\])*\])|\$', lambda m: m[1] or r'\z', pattern)


def _letters():
    """{byte: letter} of byte-level BPE as in GPT-2: printable bytes stay themselves."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable}
    return letters | {byte: chr(256 + n) for n, byte in enumerate(others)}


def _ranks(path):
    """Reads {bytes: rank} from a file."""
    ranks = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line:
            continue
        try:
            token, rank = line.split()
            if not 0 <= int(rank) < check.MAX_ID:
                raise ValueError(f'{int(rank):,} is not from 0 to {check.MAX_ID - 1:,}')
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise ValueError(
                f'{path}, line {number} is not a rank: {error}. A line of a .tiktoken '
                'file is a token in base64, a space and its rank.'
            ) from error
    missing = {bytes([byte]) for byte in range(256)} - set(ranks)
    if missing or len(set(ranks.values())) < len(ranks):
        raise ValueError(
            f'{path} has no rank for {len(missing)} of the 256 bytes, and '
            f'{len(ranks) - len(set(ranks.values()))} duplicate ranks: it is not a '
            '.tiktoken file, or is truncated.'
        )
    return ranks
