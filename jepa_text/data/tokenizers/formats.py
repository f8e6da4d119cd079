"""Conversion of tokenizers in other formats to the content of a tokenizer.json.

tokenizer.json, or a folder with one    unchanged
x.model                                 SentencePiece

The converter is that of transformers. As the format has options that a tokenizer.json
lacks, each conversion is compared with the library of its format: on texts in more than
ten languages, and on the entries of its own vocabulary. Literal names of special tokens,
which are cut (tokenizers._guarded), are not compared.
"""

import json

from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import declared, roles
from jepa_text.files import copies, extras

SUFFIX = '.model'
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
    '😀 👩\u200d👦 ﬁ ① Å\u00a0½ <i>x</i>',
)


def read(name):
    """Returns (content of a tokenizer.json, lines that say what was read and how).

    Raises FileNotFoundError, ModuleNotFoundError if a required package is missing, and
    ValueError for a file in another format, and if the conversion gives other ids.
    """
    if not name:
        raise ValueError(
            'No tokenizer is named: give texts, --text=texts/, of which one is made, or '
            'a tokenizer that exists, as --tokenizer=tokenizer.json.'
        )
    wanted = tokenizers.BUNDLED.name, declared.FILES
    path = copies.local_file('The tokenizer', name, *wanted)
    if path.suffix == SUFFIX and path.is_file():
        return _sentencepiece(path)
    content, path = tokenizers.read(path)
    return content, [f'read from {path}']


def _sentencepiece(path):
    library, converters = (
        extras.package(
            module,
            'hf',
            f'Converting {path}',
            ', or convert it elsewhere and give the tokenizer.json',
        )
        for module in ('sentencepiece', 'transformers.convert_slow_tokenizer')
    )
    proto = converters.import_protobuf().ModelProto()
    try:
        proto.ParseFromString(path.read_bytes())
        theirs = library.SentencePieceProcessor(model_proto=path.read_bytes())
        names = [piece.piece for piece in proto.pieces]
        theirs.encode(names[0])
    except Exception as error:  # Each library has its own.
        raise ValueError(
            f'{path} is not a SentencePiece model, or is truncated: give the complete '
            '.model file that its trainer wrote.'
        ) from error
    kind = KINDS[proto.trainer_spec.model_type]
    vocabulary = [(piece.piece, piece.score) for piece in proto.pieces]
    if kind == 'bpe':
        vocabulary = {name: i for i, name in enumerate(names)}
    backend = converters.SpmConverter.build_tokenizer_from_spm_proto(proto, vocabulary)
    backend.add_special_tokens(
        [piece.piece for piece in proto.pieces if piece.type in (UNKNOWN, CONTROL)]
    )
    content = json.loads(backend.to_str())
    others = [p.piece for p in proto.pieces if p.type not in (UNKNOWN, CONTROL)]
    _compare(content, theirs.encode, others, path)
    return content, [f'read from {path}: SentencePiece, {kind}, {len(names):,} pieces']


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
