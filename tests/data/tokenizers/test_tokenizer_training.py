"""Tests for training both kinds of tokenizers."""

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
    specials = training.specials_of()
    named = tuple(map(tokenizer.backend.id_to_token, tokenizer.special_ids))
    assert named == specials and tokenizer.special_ids == tuple(range(len(specials)))
    roles = (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.mask_id)
    assert roles == (0, 1, 2, 3)
    few = training.train(texts(), 1000, kind, reserved=1)
    assert len(few.special_ids) == len(specials) - 3


@pytest.mark.parametrize('kind', KINDS)
@settings(max_examples=60, deadline=None)
@given(text=TEXT)
def test_encoding_is_lossless(kind, text):
    ids = made(kind).encode(text)
    assert made(kind).decode(ids) == text and ids.dtype == np.int32
    assert not np.isin(ids, made(kind).special_ids).any()


@pytest.mark.parametrize('kind', KINDS)
def test_long_texts_are_trained_on_in_pieces(kind, monkeypatch):
    monkeypatch.setattr(training, 'PIECE', 100)
    pieces = [piece for text in texts() for piece in training.pieces(text)]
    assert max(map(len, pieces)) <= 200 and ''.join(pieces) == ''.join(texts())
    assert training.train(texts(), 1000, kind).fingerprint == made(kind).fingerprint
    assert [*training.pieces('x' * 450)] == ['x' * 200, 'x' * 200, 'x' * 50]


@pytest.mark.parametrize('kind', KINDS)
def test_training_does_not_depend_on_order(kind):
    again = training.train(texts()[::-1], 1000, kind)
    assert again.fingerprint == made(kind).fingerprint


def test_min_frequency():
    given = ['the sea the sea'] * 3 + ['whale']
    often = training.train(given, 400, min_frequency=3).backend.get_vocab()
    ever = training.train(given, 400, min_frequency=1).backend.get_vocab()
    assert 'whale' in ever and 'whale' not in often and len(often) < len(ever)


@pytest.mark.parametrize(
    'kind, size, words',
    [
        ('bpe', 100, 'vocab_size 100 is too small: 256 bytes and 8 special .* need 264'),
        ('unigram', 263, 'vocab_size 263 is too small: 256 bytes'),
        ('bpa', 1000, "kind='bpa'.*bpe"),
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
