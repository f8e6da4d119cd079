"""Paragraphs have the right lengths and whole sentences, and lose no word."""

import pytest

from jepa_text.evaluation.sets.paragraphs import paragraphs


def sentence(words):
    return 'word ' * (words - 1) + 'last.'


def lengths(text, **keywords):
    return [len(t.split()) for t, _ in paragraphs([{'text': text}], **keywords)]


def test_paragraphs_have_the_length_and_contain_each_word_once(rng):
    for _ in range(200):
        low = int(rng.integers(1, 20))
        high = int(rng.integers(low, 40))
        words = [f'w{i}' + rng.choice(['', '.', '?"', '\n\n']) for i in range(300)]
        pieces = paragraphs([{'text': ' '.join(words)}], low, high)
        found = ' '.join(text for text, _ in pieces).split()
        assert all(low <= len(text.split()) <= high for text, _ in pieces)
        expected = ' '.join(words).split()
        assert found == expected[: len(found)] and len(expected) - len(found) < low


def test_paragraphs_end_with_sentences_and_at_blank_lines():
    assert lengths(' '.join([sentence(30)] * 4)) == [60, 60]
    assert lengths('\n\n'.join([sentence(45)] * 3)) == [45, 45, 45]
    assert lengths('\n\n'.join([sentence(25)] * 4)) == [50, 50]
    assert lengths(sentence(50) + '\n' + sentence(20)) == [70]


def test_long_sentences_are_cut_and_short_rests_dropped():
    assert lengths(sentence(200)) == [80, 80, 40]
    assert lengths(sentence(199)) == [80, 80]
    assert lengths('') == []


def test_a_title_does_not_end_a_sentence():
    text = 'one two three “Mr. Darcy said so.” Then he left at once.'
    pieces = paragraphs([{'text': text}], min_words=4, max_words=8)
    assert pieces[0][0] == 'one two three “Mr. Darcy said so.”'


def test_each_paragraph_comes_with_its_document():
    documents = [{'text': sentence(90)}, {'text': sentence(50)}]
    assert [document for _, document in paragraphs(documents)] == documents


@pytest.mark.parametrize(
    'text, expected',
    [
        ('天气很好。我们去看“电影”！好 吗？', '天气很好。|我们去看“电影”！|好 吗？'),
        ('これは「本。」私です。', 'これは「本。」|私です。'),
        ('ดีที่สุด', 'ดีที่สุด'),
        ('यह एक किताब है। वह घर है।', 'यह एक किताब है।|वह घर है।'),
    ],
)
def test_sentences_of_other_scripts(text, expected):
    found = paragraphs([{'text': text}], min_words=2, max_words=6)
    assert [piece for piece, _ in found] == expected.split('|')
