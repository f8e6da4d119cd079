"""Words, overlap and TF-IDF against scikit-learn and hand-computed values."""

import numpy as np
import pytest

from jepa_text.evaluation.controls import words

TEXTS = [
    'The whale sank the ship.',
    'A ship, a sea!',
    'The Sea; the whale',
    'Été à Paris',
]


def test_words_of_other_languages_and_of_punctuation():
    assert words.words('ÉTÉ, à l’aube — Дом №5') == ['été', 'à', 'l’aube', 'дом', '5']
    assert words.words('... —') == []


def test_tf_idf_against_scikit_learn():
    text = pytest.importorskip('sklearn.feature_extraction.text')
    theirs = text.TfidfVectorizer(tokenizer=words.words, token_pattern=None)
    expected = theirs.fit(TEXTS).transform(TEXTS[::-1]).toarray()
    np.testing.assert_allclose(words.tf_idf(TEXTS[::-1], TEXTS), expected, rtol=1e-6)


def test_tf_idf_uses_only_the_words_it_was_fitted_on():
    found_NW = words.tf_idf(['whale unknown', 'nothing here'], TEXTS, max_words=4)
    assert found_NW.shape == (2, 4)
    assert np.linalg.norm(found_NW[0]) == pytest.approx(1) and not found_NW[1].any()


def test_content_words_are_neither_common_nor_rare_nor_short():
    texts = ['the whale of it'] * 30 + ['the sea of it'] * 20 + ['the xylophone'] * 2
    texts += ['the rest'] * 948
    assert words.content_words(texts) == ['whale', 'sea']
    with pytest.raises(ValueError, match='1000 texts have 0 content'):
        words.content_words(texts, min_texts=40)


def test_overlap_is_symmetric_and_one_for_equal_words():
    first, second = TEXTS[:3], TEXTS[1:]
    one_N, two_N = words.overlap(first, second), words.overlap(second, first)
    np.testing.assert_array_equal(one_N, two_N)
    assert words.overlap(['a b', ''], ['B a a', '']).tolist() == [1, 1]
    with pytest.raises(ValueError, match='3 and 2 texts'):
        words.overlap(first, second[1:])
