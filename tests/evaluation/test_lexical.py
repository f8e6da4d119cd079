"""Lexical measures detect words in vectors, and are at chance without them."""

import numpy as np
import pytest

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
    tokens_BL = np.array([[5, 5, 1, 0], [4, 3, 4, 3], [9, 0, 0, 0]])
    valid_BL = np.array([[1, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 0]])
    labels_N, kept_N = lexical.paper_token_labels(tokens_BL, valid_BL, min_count=1)
    assert labels_N.tolist() == [5, 3, 9] and kept_N.all()
    assert not lexical.paper_token_labels(tokens_BL, valid_BL)[1].any()


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
