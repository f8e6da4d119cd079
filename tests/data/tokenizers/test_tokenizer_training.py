"""Tests for training a tokenizer."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jepa_text.data.sources import bundled
from jepa_text.data.tokenizers import training

TEXT = st.text() | st.text(alphabet="<>pad bosmaskĠ_unk0' \n\t0129é😀“”—\u200b")


@functools.cache
def texts():
    return tuple(document['text'][:6_000] for document in bundled.make('heldout'))


@functools.cache
def made():
    return training.train(texts(), 1000)


def test_the_size_and_special_tokens():
    tokenizer = made()
    assert tokenizer.vocab_size == 1000
    specials = training.SPECIAL
    named = tuple(map(tokenizer.backend.id_to_token, tokenizer.special_ids))
    assert named == specials and tokenizer.special_ids == tuple(range(len(specials)))
    roles = (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.mask_id)
    assert roles == (0, 1, 2, 3)


@settings(max_examples=60, deadline=None)
@given(text=TEXT)
def test_encoding_is_lossless(text):
    ids = made().encode(text)
    assert made().decode(ids) == text and ids.dtype == np.int32
    assert not np.isin(ids, made().special_ids).any()


def test_long_texts_are_trained_on_in_pieces(monkeypatch):
    monkeypatch.setattr(training, 'PIECE', 100)
    pieces = [piece for text in texts() for piece in training.pieces(text)]
    assert max(map(len, pieces)) <= 200 and ''.join(pieces) == ''.join(texts())
    assert training.train(texts(), 1000).fingerprint == made().fingerprint
    assert [*training.pieces('x' * 450)] == ['x' * 200, 'x' * 200, 'x' * 50]


def test_training_does_not_depend_on_order():
    again = training.train(texts()[::-1], 1000)
    assert again.fingerprint == made().fingerprint


def test_pairs_that_occur_once_are_not_merged():
    found = training.train(['the sea the sea'] * 3 + ['whale'], 400).backend.get_vocab()
    assert 'the' in found and 'whale' not in found


def test_a_too_small_vocabulary_raises():
    for size in (100, 263):
        words = f'vocab_size {size} is too small: 256 bytes and 8 special .* need 264'
        with pytest.raises(ValueError, match=words):
            training.train(['the whale and the sea'] * 9, size)


def test_missing_text_raises():
    for blank in ([], ['', ' \n']):
        with pytest.raises(ValueError, match='No text to train'):
            training.train(blank, 500)
