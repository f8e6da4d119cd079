"""Words and their overlap by hand; lexical measures detect words in vectors, and are at
chance without them."""

from collections import Counter

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from jepa_text.evaluation.controls import lexical, words
from jepa_text.measures import statistics

VOCABULARY = [f'word{i}' for i in range(60)]
SHARE_W = 1 / np.arange(5, 65)


def texts(count, seed):
    """Texts of 4 to 12 words of a Zipf-like vocabulary."""
    rng = np.random.default_rng(seed)
    share_W = SHARE_W / SHARE_W.sum()
    lengths = rng.integers(4, 13, count)
    return [' '.join(rng.choice(VOCABULARY, length, p=share_W)) for length in lengths]


TRAIN, TEST = texts(600, 1), texts(300, 2)


def recovery(encode):
    return lexical.word_recovery(encode(TRAIN), TRAIN, encode(TEST), TEST, VOCABULARY)[0]


def bag(some, width=40):
    """A random projection of the bag of words, and noise."""
    projection = np.random.default_rng(3).normal(size=(len(VOCABULARY), width))
    noise = np.random.default_rng(len(some)).normal(size=(len(some), width))
    return words.membership(some, VOCABULARY) @ projection + 0.5 * noise


def test_a_bag_of_words_is_recovered_and_noise_is_not():
    found = recovery(bag)
    assert found.value > 0.85 and found.low < found.value < found.high
    noise = recovery(lambda some: np.random.default_rng(9).normal(size=(len(some), 40)))
    assert abs(noise.value - 0.5) < 0.03


def test_length_and_frequency_alone_are_at_chance():
    def length(some):
        return np.array([[len(text.split()), 1.0] for text in some])

    assert abs(recovery(length).value - 0.5) < 0.06


def test_texts_without_known_words_raise():
    with pytest.raises(ValueError, match='None of 2 test texts'):
        lexical.word_recovery(bag(TRAIN), TRAIN, bag(TEST)[:2], ['?', '!'], VOCABULARY)
    with pytest.raises(ValueError, match='vectors, but'):
        lexical.word_recovery(bag(TRAIN), TRAIN, bag(TEST)[:-1], TEST, VOCABULARY)


def test_balance_corrects_both_for_chance():
    def balance(*chances):
        one, two = (statistics.Interval(x, x, x) for x in chances[::2])
        return lexical.balance_interval(one, chances[1], two, chances[3]).value

    assert balance(0.5, 0.5, 0.25, 0.25) == 0 and balance(1.0, 0.7, 0.2, 0.2) == 1
    with pytest.raises(ValueError, match='chance=1 must be below 1'):
        balance(0.5, 1, 0.5, 0.5)


def test_paper_token_labels_equal_the_authors_code():
    rows = [5, 5, 1], [4, 3, 4, 3], [9]
    labels_N, kept_N = lexical.paper_token_labels(rows, min_count=1)
    assert labels_N.tolist() == [5, 3, 9] and kept_N.all()
    assert not lexical.paper_token_labels(rows)[1].any()


def test_the_balance_interval_adds_both_errors_in_squares():
    sides = [statistics.Interval(0.7, 0.67, 0.73), statistics.Interval(0.8, 0.76, 0.84)]
    found = lexical.balance_interval(sides[0], 0.5, sides[1], 0.5)
    assert found == pytest.approx((-0.2, -0.3, -0.1))


def test_copies_of_texts_do_not_narrow_the_interval():
    one, many = (
        lexical.word_recovery(
            bag(TRAIN), TRAIN, np.tile(bag(TEST), (copies, 1)), TEST * copies, VOCABULARY
        )[0]
        for copies in (1, 10)
    )
    # The word that is compared is another for each copy, but the text is the same.
    assert many.high - many.low > 0.4 * (one.high - one.low)


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
