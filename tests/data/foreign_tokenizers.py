"""Small tokenizers in foreign formats."""

import json

import pytest
import tokenizers as library

from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import roles, training


def wordpiece(path):
    """A WordPiece tokenizer without mask and pad."""
    special = ('[UNK]', '[CLS]', '[SEP]')
    names = [*special, '[unused0]', *'thewalsnd', *(f'##{c}' for c in 'thewalsnd')]
    model = library.models.WordPiece(
        {n: i for i, n in enumerate(names)}, unk_token='[UNK]'
    )
    backend = library.Tokenizer(model)
    backend.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    backend.add_special_tokens(list(special))
    path.parent.mkdir(parents=True, exist_ok=True)
    backend.save(str(path))
    return path


def sentencepiece(path, pieces=None, kind=1, suffix=False, escapes=True):
    """A SentencePiece model of [(text, score, type)], by default ten pieces."""
    proto = pytest.importorskip('sentencepiece.sentencepiece_model_pb2').ModelProto()
    if pieces is None:
        names = [('<unk>', 2), ('<s>', 3), ('</s>', 3), ('<unused0>', 3)]
        pieces = [(name, 0.0, kind) for name, kind in names]
        pieces += [(text, -3.0, 1) for text in '▁thewals,;']
    for piece, score, type_ in pieces:
        proto.pieces.add(piece=piece, score=score, type=type_)
    proto.trainer_spec.model_type = kind
    proto.trainer_spec.treat_whitespace_as_suffix = suffix
    proto.normalizer_spec.escape_whitespaces = escapes
    proto.normalizer_spec.name = 'identity'
    path.write_bytes(proto.SerializeToString())
    return path


def trained_wordpiece(texts):
    """A WordPiece tokenizer with our special tokens."""
    backend = library.Tokenizer(library.models.WordPiece(unk_token='<unk>'))
    backend.normalizer = library.normalizers.BertNormalizer(lowercase=False)
    backend.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    backend.decoder = library.decoders.WordPiece()
    special = [*training.ROLES, '<unk>']
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=700, special_tokens=special, show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    return tokenizers.parse(json.loads(backend.to_str()), 'trained')


def trained_unigram(texts):
    """A Unigram tokenizer over bytes with our special tokens."""
    by_bytes = library.pre_tokenizers.ByteLevel
    backend = library.Tokenizer(library.models.Unigram())
    backend.pre_tokenizer = by_bytes(add_prefix_space=False)
    backend.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.UnigramTrainer(
        vocab_size=700,
        special_tokens=[*training.ROLES],
        initial_alphabet=by_bytes.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    content, _ = roles.completed(json.loads(backend.to_str()), 'trained')
    return tokenizers.parse(content, 'trained')
