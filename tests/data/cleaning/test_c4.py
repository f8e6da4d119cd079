import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from jepa_text.data.cleaning import c4

LINES = (
    'This is the first sentence of it.',
    'Was there a second one in the text?',
    'There was, and a third one, too!',
)
PAGE = '\n'.join(LINES)


def lines_left(*lines):
    text, reason = c4.clean('\n'.join([*LINES, *lines]))
    assert reason == ''
    return text.split('\n')[len(LINES) :]


def test_sentences_stay_as_they_are():
    assert c4.clean(PAGE) == (PAGE, '')
    assert c4.clean(f'\n  {LINES[0]}\t\r\n{LINES[1]}\n\n{LINES[2]}\n') == (PAGE, '')


@pytest.mark.parametrize('end', ['.', '!', '?', '"', '”', '»', '。', '؟', '।', '."'])
def test_a_line_ends_in_terminal_punctuation(end):
    line = f'one two three four five{end}'
    assert lines_left(line) == [line]


@pytest.mark.parametrize('end', ['', ',', ':', ')', '...', '…', ' ...', '.…'])
def test_a_line_with_another_end_goes(end):
    assert lines_left(f'one two three four five{end}') == []


@pytest.mark.parametrize(
    'line, stays', [('One two three four.', False), ('A b c d e.', True)]
)
def test_a_line_has_five_words(line, stays):
    assert bool(lines_left(line)) == stays


@pytest.mark.parametrize('length, stays', [(1000, True), (1001, False)])
def test_no_word_of_a_line_has_more_than_1000_characters(length, stays):
    assert bool(lines_left(f'One two three four {"x" * length} is long.')) == stays


@pytest.mark.parametrize('notice', ['JavaScript', 'Terms of Use', 'uses cookies'])
def test_lines_of_notices_go(notice):
    line = f'Please note that this page has {notice} within it.'
    assert lines_left(line) == []
    assert lines_left(line.replace(notice, 'java script')) != []


def test_marks_of_citations_go():
    assert lines_left('It is so[1] and so[edit][citation needed] in all. [23]') == [
        'It is so and so in all.'
    ]
    assert lines_left('It is so[[edit]], in all of it.') == ['It is so, in all of it.']
    assert lines_left('It is so [a] and [1a] so in all.') == [
        'It is so [a] and [1a] so in all.'
    ]


@pytest.mark.parametrize(
    'phrase, reason',
    [
        ('{', 'c4: curly bracket'),
        ('Lorem Ipsum', 'c4: lorem ipsum'),
        ('lorem[1] ipsum', 'c4: lorem ipsum'),
        ('lorem', ''),
        ('}', ''),
    ],
)
def test_what_a_page_must_not_hold(phrase, reason):
    # In a line that goes, too.
    assert c4.clean(f'{PAGE}\n{phrase}')[1] == reason


@pytest.mark.parametrize(
    'text, reason',
    [
        ('\n'.join(LINES[:2]), 'c4: too few sentences'),
        (' '.join(LINES[:2]), 'c4: too few sentences'),
        (' '.join(LINES), ''),
        (
            'He said: "It is so here." She said (twice.) It was.\nNow it is not so here.',
            '',
        ),
        ('Version 1.5 of it is out.\nIt costs 1.5 euros on it.', 'c4: too few sentences'),
        ('', 'c4: too few sentences'),
    ],
)
def test_a_page_has_three_sentences(text, reason):
    assert c4.clean(text)[1] == reason


PIECES = [
    *LINES,
    'menu',
    '[1]',
    '[',
    ']',
    '[edit]',
    '\n',
    ' ',
    '.',
    '...',
    'javascript',
    'a',
]


@hypothesis_settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map(''.join))
def test_what_is_clean_stays_as_it_is(text):
    cleaned, reason = c4.clean(text)
    if not reason:
        assert c4.clean(cleaned) == (cleaned, '')
