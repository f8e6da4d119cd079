"""Labeled sentence sets differ only in their documented change."""

from collections import Counter

import numpy as np
import pytest

from jepa_text.evaluation.controls import words
from jepa_text.evaluation.sets import sentences as sentence_sets

RNG = np.random.default_rng(0)
NAMES = [f'noun{i}' for i in range(40)]
TEXTS = [
    ' '.join(f'{x},' if i % 5 == 4 else x for i, x in enumerate(RNG.choice(NAMES, n)))
    for n in RNG.integers(3, 15, 400)
]
CHANGED = sentence_sets.bigram_shift, sentence_sets.word_order
every = pytest.mark.parametrize('make', CHANGED, ids=['bigram', 'order'])


@every
def test_half_of_the_texts_is_changed_and_all_keep_their_words(make):
    found = make(TEXTS)
    assert abs(np.sum(found.labels_N) - len(found.texts) / 2) <= 1
    assert len(set(found.sources_N.tolist())) == len(found.texts)
    for text, label, source in zip(*found):
        assert (text == TEXTS[source]) == (label == 0)
        assert Counter(text.split()) == Counter(TEXTS[source].split())


@every
def test_the_same_seed_makes_the_same_set(make):
    one, two, other = make(TEXTS, seed=3), make(TEXTS, seed=3), make(TEXTS, seed=4)
    assert one.texts == two.texts and one.texts != other.texts


def test_a_bigram_shift_moves_two_neighbors():
    found = sentence_sets.bigram_shift(TEXTS)
    for text, label, source in zip(*found):
        pairs = enumerate(zip(text.split(), TEXTS[source].split()))
        places = [i for i, pair in pairs if len(set(pair)) > 1]
        assert len(places) == 2 * label
        assert not label or places[1] == places[0] + 1


def test_odd_words_replace_a_quarter_by_words_of_the_texts():
    found, other = sentence_sets.odd_words(TEXTS), sentence_sets.odd_words(TEXTS, seed=1)
    assert abs(np.sum(found.labels_N) - len(found.texts) / 2) <= 1
    assert found.texts != other.texts
    known = Counter(word for text in TEXTS for word in text.split())
    for text, label, source in zip(*found):
        new, old = text.split(), TEXTS[source].split()
        assert (text == TEXTS[source]) == (label == 0)
        assert set(new) <= set(known) and (new[0], new[-1]) == (old[0], old[-1])
        assert sum(map(str.__ne__, new, old)) <= -(-(len(old) - 2) // 4)
        assert len(new) == len(old)


@every
@pytest.mark.parametrize(
    'text, first, last',
    [
        ('今天天气很好，我们去看电影。', '今', '影。'),
        ('「テスト」はiPhoneで します', '「テ', 'す'),
        ('วันนี้อากาศดีที่สุด', 'ว', 'ด'),
    ],
)
def test_letters_move_in_scripts_without_spaces(make, text, first, last):
    found = make([text] * 40)
    changed = [one for one, label in zip(found.texts, found.labels_N) if label]
    assert len(changed) == 20 and len(set(changed)) > 3
    for one in changed:
        assert one != text and one.startswith(first) and one.endswith(last)
        assert Counter(words.words(one)) == Counter(words.words(text))
        assert one.count(' ') == text.count(' ')


def test_word_content_has_exactly_one_of_the_words():
    found = sentence_sets.word_content(TEXTS, count=8, highest=0.5)
    by_label = {}
    for text, label in zip(found.texts, found.labels_N):
        by_label.setdefault(int(label), []).append(set(words.words(text)))
    # The word of a label is in all of its texts, and in no other.
    named = {label: set.intersection(*sets) for label, sets in by_label.items()}
    assert len(named) == 8 and all(len(one) >= 1 for one in named.values())
    assert min(map(len, by_label.values())) >= 5
    for label in by_label:
        others = [x for other, sets in by_label.items() if other != label for x in sets]
        assert any(all(word not in x for x in others) for word in named[label])


@every
def test_texts_that_cannot_be_changed_are_left_out(make):
    inner = ['one', '', 'same same', 'one two', 'three four five', 'a b']
    found = make([f'First {text} last.' for text in inner])
    assert found.sources_N.tolist() == [3, 4, 5]
    with pytest.raises(ValueError, match='Only 0 of 2 texts can be changed'):
        make(['one two three', ''])


@every
def test_moved_words_do_not_change_the_bag_of_tokens(make, ours):
    """First and last words differ in tokens: capital, no space before, full stop."""
    texts = [f'The {text.replace(",", "")} end.' for text in TEXTS]
    found = make(texts)
    for text, source in zip(found.texts, found.sources_N):
        bags = [Counter(ours.encode(x)) for x in (text, texts[source])]
        assert bags[0] == bags[1]


def test_too_few_texts_for_word_content_raise():
    with pytest.raises(ValueError, match='content word|exactly one'):
        sentence_sets.word_content(['noun1 noun2'] * 9, highest=1.0)
