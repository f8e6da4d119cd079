r"""Conversion of tokenizers in other formats to the content of a tokenizer.json.

tokenizer.json, or a folder with one    unchanged
x.model                                 SentencePiece
'tiktoken:cl100k_base'                  an encoding of the package tiktoken

The converters are those of transformers. As formats have options that a tokenizer.json
lacks, each conversion is compared with the library of its format: on texts in more than
ten languages, and on the entries of its own vocabulary.
"""

import json
import re

from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import declared, roles
from jepa_text.files import copies, extras

NAMED, SUFFIX = 'tiktoken:', '.model'
UNKNOWN, CONTROL = 2, 3  # types of pieces, in sentencepiece_model.proto
KINDS = {1: 'unigram', 2: 'bpe', 3: 'word', 4: 'char'}
PROBES = (
    "The whale's 1,851 teeth:  it'll DON'T\n\n  stop.\t(End) ",
    'Über den Fluß, naïve façade; ¿dónde está el niño?',
    'Θεός ἦν ὁ λόγος. Ёлки и море',
    'Tiếng Việt được viết bằng chữ Quốc ngữ',
    'בראשית ברא אלהים את השמים',
    'بسم الله الرحمن الرحيم',
    'नमस्ते दुनिया, क्षेत्र',
    'ภาษาไทยที่นี่',
    '城市在海边。東京タワーへ行きました！',
    '한국어는 한국에서 쓰인다',
    '😀 👩\u200d👦 ﬁ ① Å\u00a0½ <s></s> <mask> <|endoftext|>',
)


def read(name):
    """Returns (content of a tokenizer.json, lines that say what was read and how).

    `name` is a path, or 'tiktoken:NAME'.

    Raises FileNotFoundError, ModuleNotFoundError if a required package is missing, and
    ValueError for a file in another format, and if the conversion gives other ids.
    """
    if name.startswith(NAMED):
        return _named(name.removeprefix(NAMED))
    path = copies.local_file('The tokenizer', name, tokenizers.BUNDLED.name)
    if path.suffix != SUFFIX:
        content, path = tokenizers.read(path)
        return content, [f'read from {path}']
    if not path.is_file():
        raise FileNotFoundError(
            f'No tokenizer at {path}: this file does not exist. Give the path of one '
            f'that ends in {SUFFIX}, a tokenizer.json, or hf:NAME.'
        )
    return _sentencepiece(path)


def _package(name, of):
    """Returns a module of the extra `hf`, to convert `of`."""
    otherwise = ', or convert it elsewhere and give the tokenizer.json'
    return extras.package(name, 'hf', f'Converting {of}', otherwise)


def _converters(of):
    return _package('transformers.convert_slow_tokenizer', of)


def _sentencepiece(path):
    """Reads a SentencePiece .model file."""
    library, converters = _package('sentencepiece', path), _converters(path)
    proto = converters.import_protobuf().ModelProto()
    try:
        proto.ParseFromString(path.read_bytes())
        theirs = library.SentencePieceProcessor(model_proto=path.read_bytes())
        names = [piece.piece for piece in proto.pieces]
        theirs.encode(' '.join(names[:1]))
    except Exception as error:  # Each library has its own.
        raise ValueError(_not_a_model(path)) from error
    if not names:
        raise ValueError(_not_a_model(path))
    kind = KINDS[proto.trainer_spec.model_type]
    vocabulary = [(piece.piece, piece.score) for piece in proto.pieces]
    if kind == 'bpe':
        vocabulary = {name: i for i, name in enumerate(names)}
    make = converters.SpmConverter.build_tokenizer_from_spm_proto
    backend = make(proto, vocabulary)
    backend.add_special_tokens(
        [piece.piece for piece in proto.pieces if piece.type in (UNKNOWN, CONTROL)]
    )
    content, lines = roles.guarded(json.loads(backend.to_str()))
    others = [p.piece for p in proto.pieces if p.type not in (UNKNOWN, CONTROL)]
    _compare(content, theirs.encode, others, path)
    return content, [
        f'read from {path}: SentencePiece, {kind}, {len(names):,} pieces',
        *lines,
    ]


def _not_a_model(path):
    return (
        f'{path} is not a SentencePiece model, or is truncated: give the complete .model '
        'file that its trainer wrote.'
    )


def _compare(content, encode, own, where):
    """Raises ValueError if a content gives other ids than the original's `encode`, for
    PROBES or texts of its `own`."""
    ours = tokenizers.parse(content, str(where), roles.ROLES)
    texts = [*PROBES, *(text.replace('▁', ' ') for text in own)]
    for text, ids in zip(texts, ours.encode_many(texts)):
        if ids.tolist() != (right := encode(text)):
            raise ValueError(
                f'{where} cannot be converted to a tokenizer.json with the same ids: '
                f'{text[:80]!r} has the ids {right[:20]}, but {ids[:20].tolist()} after '
                'the conversion. Train one with `jepa-text tokenizer`, or use another.'
            )


def _named(name):
    """Reads an encoding of tiktoken, from its cache or by a download."""
    tiktoken = _package('tiktoken', f'the encoding {name}')
    if name not in tiktoken.list_encoding_names():
        known = ', '.join(sorted(tiktoken.list_encoding_names()))
        raise ValueError(f'tiktoken has no encoding {name!r}; there are: {known}.')
    try:
        encoding = tiktoken.get_encoding(name)
    except OSError as error:  # the base class of requests' errors
        raise OSError(
            f"{name!r} is not in tiktoken's cache (TIKTOKEN_CACHE_DIR), and could not be "
            f'downloaded ({type(error).__name__}): go online once, or give '
            'a tokenizer.json.'
        ) from error
    special, pattern = encoding._special_tokens, encoding._pat_str
    origin = f'tiktoken {tiktoken.__version__}: {name}'
    return _of_ranks(encoding._mergeable_ranks, special, pattern, origin)


def _of_ranks(ranks, special, pattern, origin):
    converter = _converters(origin).TikTokenConverter('', _in_oniguruma(pattern))
    converter.load_tiktoken_bpe = lambda _: ranks
    content = json.loads(converter.converted().to_str())
    # Reserved tokens fill the gaps between ids; special ids below the highest rank must
    # be entries of the vocabulary.
    names, taken = {i: name for name, i in special.items()}, set(ranks.values())
    free = set(range(max([*taken, *names]))) - taken - set(names)
    names |= {i: f'<|reserved_special_token_{n}|>' for n, i in enumerate(sorted(free))}
    content['added_tokens'] = [declared.special(i, names[i]) for i in sorted(names)]
    content['model']['vocab'] |= {name: i for i, name in names.items() if i <= max(taken)}
    tiktoken = _package('tiktoken', origin)
    theirs = tiktoken.Encoding(
        origin, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special
    )
    own = [token.decode('utf-8', 'replace') for token in ranks]
    _compare(content, theirs.encode_ordinary, own, origin)
    return content, [f'read from {origin}, {len(ranks):,} ranks']


def _in_oniguruma(pattern):
    r"""Converts a regular expression of Rust's fancy-regex to the library's Oniguruma.

    In Oniguruma, {1,3}+ repeats {1,3}, and $ is the end of a line.

    >>> _in_oniguruma(r'\p{N}{1,3}+|\s++$')
    '(?>\\p{N}{1,3})|\\s++\\z'
    """
    atom = r'(\\[pP]\{\^?\w+\}|\\.|\[(?:\\.|[^\]\\])*\]|[^\\()\[\]{}|+*?])'
    pattern = re.sub(atom + r'(\{\d+(?:,\d*)?\})\+', r'(?>\1\2)', pattern)
    return re.sub(r'(\\.|\[(?:\\.|[^\]\\])*\])|\$', lambda m: m[1] or r'\z', pattern)
