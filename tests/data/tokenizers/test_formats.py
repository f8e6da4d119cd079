"""Converted SentencePiece models keep their ids."""

import io
import random
import sys

import foreign_tokenizers
import pytest

from jepa_text.data import tokenizers
from jepa_text.data.sources import bundled
from jepa_text.data.tokenizers import formats, roles

LANGUAGES = (
    "The whale's teeth; it'll bite 1,851 times, don't you think?",
    'Übermäßig schöne Straßen führen über den Fluß',
    'Tiếng Việt được viết bằng chữ Quốc ngữ',
    'ἐν ἀρχῇ ἦν ὁ λόγος καὶ ὁ λόγος ἦν πρὸς τὸν θεόν',
    'Ёлки, море и йод',
    'בראשית ברא אלהים את השמים ואת הארץ',
    'بسم الله الرحمن الرحيم',
    'नमस्ते दुनिया, क्षेत्र ज़मीन',
    'ภาษาไทยที่นี่',
    '城市在海边。',
    '東京タワーへ行きました！',
    '한국어는 한국에서 쓰인다',
)
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
PIECES = [
    *[('<unk>', 0.0, UNKNOWN), ('<s>', 0.0, CONTROL), ('</s>', 0.0, CONTROL)],
    *[(text, -3.0 - n / 8, NORMAL) for n, text in enumerate('▁abs')],
    *[('▁ab', -1.0, NORMAL), ('ba', -1.5, NORMAL)],
]
ODD = ["'s", "'S", "'ſ", "don't", ' ', '  ', '\n', '\r\n', '\t', '1', '12345', 'é', 'Σ']
ODD += ['e\u0301', 'ß', '<|endoftext|>', '<mask>', '</s>b', '<0x41>', '城海', '😀']
ODD += ['\u3000', '\u00a0', "'ll", '.', '!!!\n', "Hello'Ll", 'ǅ', 'ʰ', '①', 'ﬁ', 'ж']


def opened(path):
    content, lines = formats.read(str(path))
    return tokenizers.parse(content, str(path), roles.ROLES), lines


def texts_of(count, corpus):
    """Texts of odd parts, and parts of a corpus."""
    rng = random.Random(0)
    for _ in range(count):
        if rng.random() < 0.5:
            yield ''.join(rng.choice(ODD) for _ in range(rng.randrange(12)))
        else:
            text = rng.choice(corpus)
            start = rng.randrange(len(text))
            yield text[start : start + rng.randrange(200)]


def trained(path, **given):
    """SentencePiece's processor of a model that it has trained on all languages."""
    library = pytest.importorskip('sentencepiece')
    corpus = [d['text'][:3000] for d in bundled.make('heldout')[:12]]
    corpus = [line for text in corpus for line in text.split('. ') if line.strip()]
    corpus += LANGUAGES * 5
    written = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=written, minloglevel=2, **given
    )
    path.write_bytes(written.getvalue())
    return library.SentencePieceProcessor(model_proto=written.getvalue()), corpus


@pytest.mark.peer
@pytest.mark.parametrize('kind', ['unigram', 'bpe'])
@pytest.mark.parametrize('rules', ['identity', 'nmt_nfkc', 'nfkc_cf'])
@pytest.mark.parametrize(
    'fallback, prefix, strips',
    [(False, True, True), (True, True, True), (True, False, False), (False, True, False)],
)
def test_ids_match_sentencepiece(kind, rules, fallback, prefix, strips, tmp_path):
    theirs, corpus = trained(
        tmp_path / 'x.model',
        vocab_size=900,
        model_type=kind,
        byte_fallback=fallback,
        normalization_rule_name=rules,
        add_dummy_prefix=prefix,
        remove_extra_whitespaces=strips,
        character_coverage=0.998,
        hard_vocab_limit=False,
        pad_id=3,
    )
    ours, lines = opened(tmp_path / 'x.model')
    assert f'SentencePiece, {kind}, {theirs.vocab_size():,} pieces' in lines[0]
    for text in (*LANGUAGES, *texts_of(1000, corpus)):
        # The library normalizes \r\n, one grapheme, by one rule, SentencePiece by two.
        text = text.replace('\r\n', '\n')
        ids, right = ours.encode(text).tolist(), theirs.encode(text)
        if kind == 'unigram' and any(name in text for name in ('</s>', '<0x41>')):
            assert not {1, 2, 3, theirs.piece_to_id('<0x41>')} & {*ids} - {0}
            continue  # These are cut.
        if kind == 'bpe' or sorted(ids) != sorted(right):
            assert ids == right, text
        # Else the order is a tie, as in '0 00' and '00 0', which rounding decides.
        assert not {1, 2, 3} & set(ids), 'a control symbol'
    if fallback and rules == 'identity' and not strips:
        for text in LANGUAGES:
            assert ours.decode(ours.encode(text)) == text


@pytest.mark.peer
@pytest.mark.parametrize(
    'given',
    [
        dict(kind=3),
        dict(suffix=True),
        dict(escapes=False),
        dict(pieces=[*PIECES, ('e', -0.1, UNUSED)]),
    ],
)
def test_models_with_other_ids_are_refused(given, tmp_path):
    foreign_tokenizers.sentencepiece(tmp_path / 'x.model', **{'pieces': PIECES} | given)
    with pytest.raises(ValueError, match='x.model cannot be converted .* the same ids'):
        opened(tmp_path / 'x.model')


@pytest.mark.peer
def test_invalid_models_raise(tmp_path):
    path = foreign_tokenizers.sentencepiece(tmp_path / 'x.model', PIECES)
    whole = path.read_bytes()
    for data in (b'', b'{"model": 1}', b'\x00\xff' * 50, b'PK\x03\x04', whole[:60]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match='x.model is not a SentencePiece model'):
            opened(path)


def test_a_missing_package_raises(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, 'sentencepiece', None)
    (tmp_path / 'x.model').write_bytes(b'')
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'jepa-text\[hf\]'"):
        opened(tmp_path / 'x.model')
