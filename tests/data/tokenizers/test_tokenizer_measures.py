"""Tests for measures of tokenizers."""

import json

import pytest
import tokenizers as library

from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import measures, training


def words_of(vocabulary):
    """Returns a tokenizer of whole words separated by whitespace."""
    names = [*training.ROLES, '<unk>', *vocabulary]
    model = library.models.WordLevel({n: i for i, n in enumerate(names)}, '<unk>')
    backend = library.Tokenizer(model)
    backend.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(list(training.ROLES))
    return tokenizers.parse(json.loads(backend.to_str()), 'words')


def test_counts_by_hand():
    found = measures.measure(
        words_of(['the', 'sea', 'whale', 'è']), ['the sea\n the é', 'the é x']
    )
    assert found['counts'] == {
        'documents': 2,
        'bytes': 15 + 8,
        'characters': 14 + 7,
        'words': 7,
        'tokens': 7,
    }
    assert found['fertility']['tokens_per_word'] == 1
    assert found['fertility']['bytes_per_token'] == pytest.approx(23 / 7)
    assert found['unknown']['count'] == 3
    assert found['unknown']['share'] == pytest.approx(3 / 7)
    assert found['vocabulary'] == {'entries': 4, 'used': 2, 'share_used': 0.5}


def test_byte_level_has_no_unknown_tokens(ours):
    assert measures.unknown_id_of(ours) is None
    found = measures.measure(ours, ['\u2603 ж \x00'])['unknown']
    assert found == {'count': 0, 'share': 0}


def test_an_unknown_token_with_id_0_is_counted():
    """As in T5 and many SentencePiece models."""
    model = library.models.Unigram([('<unk>', 0.0), ('▁a', -1.0), ('b', -2.0)], 0)
    backend = library.Tokenizer(model)
    backend.pre_tokenizer = library.pre_tokenizers.Metaspace()
    backend.add_special_tokens(list(training.ROLES))
    tokenizer = tokenizers.parse(json.loads(backend.to_str()), 'pieces')
    found = measures.measure(tokenizer, ['ab axb'])
    assert found['unknown']['count'] == 1
    assert found['vocabulary']['entries'] == 2


def test_long_texts_that_cannot_be_cut_are_measured(ours):
    found = measures.measure(ours, ['the sea', 'ab' * 600_000])['counts']
    assert (found['documents'], found['words']) == (2, 2 + 10)
    assert found['characters'] == 1_200_007


def test_missing_text_raises(ours):
    with pytest.raises(ValueError, match='no text to measure'):
        measures.measure(ours, [])
