"""Folded words, and the search for phrases of them."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from jepa_text.data.cleaning import words


@pytest.mark.parametrize(
    'text, expected',
    [
        ("The cat's\u2028 hat_2. ", 'the cat s hat 2'),
        ('naïve_Übung — Straße ΟΔΟΣ 3.5', 'naïve übung strase οδοσ 3 5'),
        ('e\u0301te\u0301', 'e\u0301te\u0301'),  # marks belong to their word
        ('हिन्दी भाषा', 'हिन्दी भाषा'),
        # In scripts without spaces each character is a word.
        ('「日本」語のabc本', '日 本 語 の abc 本'),
        ('ภาษาไทย', 'ภ า ษ า ไ ท ย'),
        ('a\0b\ud800c\U0001f600\U000e0100', 'a b c'),
        (' .,-\n ', ''),
    ],
)
def test_words_are_letters_digits_and_marks_case_folded(text, expected):
    assert list(words.folded(text)) == expected.split()


TEXT = st.lists(st.sampled_from('abcd'), max_size=25).map(' '.join)


@hypothesis_settings(max_examples=100, deadline=None)
@given(
    sets=st.lists(st.lists(TEXT, min_size=1, max_size=4), min_size=1, max_size=3),
    text=TEXT,
)
def test_phrases_match_a_plain_search(sets, text):
    found = words.Phrases(sets, shortest=2, longest=4)

    def has(texts):
        pieces = []
        for one in map(str.split, texts):
            n = min(len(one), 4)
            if n >= 2:
                pieces += [one[at : at + n] for at in range(len(one) - n + 1)]
        return any(f' {" ".join(piece)} ' in f' {text} ' for piece in pieces)

    assert found.find(text) == next((n for n, one in enumerate(sets) if has(one)), None)
    assert found.short == [sum(len(x.split()) < 2 for x in one) for one in sets]
