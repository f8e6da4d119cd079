"""Words and their overlap against hand-computed values."""

from collections import Counter

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from jepa_text.evaluation.controls import words

TEXTS = ['The whale sank the ship.', 'A ship, a sea!', 'The Sea; the whale', 'à Paris']


@pytest.mark.parametrize(
    'text, expected',
    [
        ('ÉTÉ, à l’aube — Дом №5', 'été à l’aube дом 5'),
        ('... —', ''),
        # Combining marks and joiners are inside words; lone marks are none.
        ('e\u0301te\u0301, İstanbul \u0301', 'e\u0301te\u0301 i\u0307stanbul'),
        ('हिन्दी में काम। ক্র্যাক', 'हिन्दी में काम ক্র্যাক'),
        ('مُحَمَّد می\u200cخواهم', 'مُحَمَّد می\u200cخواهم'),
        ('한국어 단어', '한국어 단어'),
        # Scripts without spaces: letters with their marks.
        ('天气很好。iPhone手机, 3rd', '天 气 很 好 iphone 手 机 3rd'),
        ('「テスト」です・か\u3099葛\U000e0100', 'テ ス ト で す か\u3099 葛\U000e0100'),
        ('ดีที่สุด', 'ดี ที่ สุ ด'),
        ('ດີທີ່', 'ດີ ທີ່'),
        ('ខ្មែរ', 'ខ្ មែ រ'),
        ('မြန်မာ', 'မြ န် မာ'),
    ],
)
def test_words_of_languages(text, expected):
    assert words.words(text) == expected.split()


@pytest.mark.parametrize('text', ['天气很好天气', 'テスト', 'ภาษาไทย', 'ພາສາລາວ'])
def test_terms_of_a_script_without_spaces_equal_scikit_learns_n_grams(text):
    theirs = CountVectorizer(analyzer='char', ngram_range=(1, 2)).build_analyzer()
    assert Counter(words.terms(text)) == Counter(theirs(text))
    # Of mixed texts, those of each run, and words.
    mixed = words.terms(f'The {text}X-ray {text}。')
    assert Counter(mixed) == Counter([*theirs(text) * 2, 'the', 'x-ray'])


def test_statistics_of_texts_without_spaces():
    texts = ['天气很好'] * 6 + ['我看电影'] * 6 + ['ดีที่สุด'] * 6
    assert words.content_words(texts, highest=0.5) == sorted(
        ['天气', '气很', '很好', '我看', '看电', '电影', 'ดีที่', 'ที่สุ', 'สุด']
    )
    assert words.membership(['今天天气'], ['天气', '电影']).tolist() == [[True, False]]
    # Letters 天 and 气, and their pair, of 7 terms of one text.
    assert words.overlap(['天气很好'], ['天气']).tolist() == [pytest.approx(3 / 7)]


def test_content_words_are_neither_common_nor_rare_nor_short():
    texts = ['the whale of it'] * 30 + ['the sea of it'] * 20 + ['the xylophone'] * 2
    texts += ['the rest'] * 948
    assert words.content_words(texts) == ['whale', 'sea']
    with pytest.raises(ValueError, match='1000 texts have 0 content'):
        words.content_words(texts, min_texts=40)


def test_overlap_is_symmetric_and_one_for_equal_words():
    first, second = TEXTS[:3], TEXTS[1:4]
    one_N, two_N = words.overlap(first, second), words.overlap(second, first)
    np.testing.assert_array_equal(one_N, two_N)
    assert words.overlap(['a b', ''], ['B a a', '']).tolist() == [1, 1]
    with pytest.raises(ValueError, match='shorter'):
        words.overlap(first, second[1:])
