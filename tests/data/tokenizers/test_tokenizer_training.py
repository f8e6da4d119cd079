"""Tests for training the three kinds of tokenizers."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jepa_text.data.sources import bundled
from jepa_text.data.tokenizers import training

KINDS = tuple(training.KINDS)
TEXT = st.text() | st.text(alphabet="<>pad bosmaskĠ_unk0' \n\t0129é😀“”—\u200b")


@functools.cache
def texts():
    return tuple(document['text'][:6_000] for document in bundled.make('heldout'))


@functools.cache
def made(kind):
    return training.train(texts(), 1000, kind)


@pytest.mark.parametrize('kind', KINDS)
def test_the_size_and_special_tokens(kind):
    tokenizer = made(kind)
    assert tokenizer.vocab_size == 1000
    specials = training.specials_of(kind)
    named = tuple(map(tokenizer.backend.id_to_token, tokenizer.special_ids))
    assert named == specials and tokenizer.special_ids == tuple(range(len(specials)))
    roles = (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.mask_id)
    assert roles == (0, 1, 2, 3)
    few = training.train(texts(), 1000, kind, reserved=1)
    assert len(few.special_ids) == len(specials) - 3


@pytest.mark.parametrize('kind', ['bpe', 'unigram'])
def test_encoding_is_lossless(kind):
    tokenizer = made(kind)

    @settings(max_examples=60, deadline=None)
    @given(TEXT)
    def check(text):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert not np.isin(ids, tokenizer.special_ids).any()

    check()


@settings(max_examples=60, deadline=None)
@given(TEXT)
def test_text_never_encodes_to_special_tokens(text):
    tokenizer = made('wordpiece')
    unknown = tokenizer.backend.token_to_id('<unk>')
    specials = set(tokenizer.special_ids) - {unknown}
    assert not specials & set(tokenizer.encode(text).tolist())


@pytest.mark.parametrize('kind', KINDS)
def test_long_texts_are_trained_on_in_pieces(kind, monkeypatch):
    monkeypatch.setattr(training, 'PIECE', 100)
    pieces = [piece for text in texts() for piece in training._pieces(text)]
    assert max(map(len, pieces)) <= 200 and ''.join(pieces) == ''.join(texts())
    assert training.train(texts(), 1000, kind).fingerprint == made(kind).fingerprint
    assert [*training._pieces('x' * 450)] == ['x' * 200, 'x' * 200, 'x' * 50]


@pytest.mark.parametrize('kind', KINDS)
def test_training_does_not_depend_on_order(kind):
    again = training.train(texts()[::-1], 1000, kind)
    assert again.fingerprint == made(kind).fingerprint


def test_wordpiece_matches_the_library():
    """The same entries with other ids, apart from what depends on hash order."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    backend = Tokenizer(models.WordPiece(unk_token='<unk>'))
    backend.normalizer = normalizers.BertNormalizer(lowercase=False)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=1000,
        min_frequency=2,
        show_progress=False,
        special_tokens=list(training.specials_of('wordpiece')),
    )
    backend.train_from_iterator(texts(), trainer)
    theirs, ours = set(backend.get_vocab()), set(made('wordpiece').backend.get_vocab())
    # Ours also has initial forms of characters that begin no word, and vice versa.
    alphabet = {c for c in ours if len(c.removeprefix('##')) == 1}
    assert len((theirs - ours) | (ours - theirs - alphabet)) < 0.06 * len(theirs)
    assert len(ours & theirs) > 900


def test_wordpiece_normalizes_like_bert():
    tokenizer = training.train(['The Café, the sea; THE sea'] * 5, 200, 'wordpiece')
    pieces = [tokenizer.backend.id_to_token(int(i)) for i in tokenizer.encode('the,sea')]
    assert pieces == ['the', ',', 'sea']
    lower = training.train(
        ['The Café, the sea; THE sea'] * 5, 200, 'wordpiece', lowercase=True
    )
    for text in ('the cafe', 'THE CAFÉ'):
        assert lower.decode(lower.encode(text)) == 'the cafe'
    assert 'C' in tokenizer.backend.get_vocab() and 'C' not in lower.backend.get_vocab()


def test_characters_beyond_the_alphabet_are_unknown():
    given = dict(alphabet=3, reserved=0)
    tokenizer = training.train(['aaa bbb ccc aab d'] * 5, 60, 'wordpiece', **given)
    unknown = tokenizer.backend.token_to_id('<unk>')
    assert unknown not in tokenizer.encode('abc cba')
    assert tokenizer.encode('d').tolist() == [unknown]


def test_min_frequency():
    given = ['the sea the sea'] * 3 + ['whale']
    for kind in ('bpe', 'wordpiece'):
        often = training.train(given, 400, kind, min_frequency=3).backend.get_vocab()
        ever = training.train(given, 400, kind, min_frequency=1).backend.get_vocab()
        assert 'whale' in ever and 'whale' not in often and len(often) < len(ever)


@pytest.mark.parametrize(
    'kind, size, words',
    [
        ('bpe', 100, 'vocab_size 100 is too small: 256 bytes and 8 special .* need 264'),
        ('unigram', 263, 'vocab_size 263 is too small: 256 bytes'),
        ('wordpiece', 10, 'vocab_size 10 is too small: some characters'),
        ('wordpiece', 20, r'vocab_size 20 .* each at the beginning .*train\.alphabet'),
        ('bpa', 1000, "kind='bpa' is unknown; choose from: bpe, unigram, wordpiece"),
    ],
)
def test_invalid_training_settings_raise(kind, size, words):
    with pytest.raises(ValueError, match=words):
        training.train(['the whale and the sea'] * 9, size, kind)


@pytest.mark.parametrize('kind', KINDS)
def test_missing_text_raises(kind):
    for blank in ([], ['', ' \n']):
        with pytest.raises(ValueError, match='No text to train'):
            training.train(blank, 500, kind)


@pytest.mark.peer
@pytest.mark.parametrize('kind', KINDS)
def test_transformers_reads_it_with_the_same_ids(kind, tmp_path):
    transformers = pytest.importorskip('transformers')
    made(kind).save(tmp_path / 'tokenizer.json')
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / 'tokenizer.json')
    )
    for text in (*texts(), 'é 海\n\t  1851!', ''):
        ids = theirs(text, add_special_tokens=False)['input_ids']
        assert ids == made(kind).encode(text).tolist()
