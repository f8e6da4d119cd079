import pytest

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


def test_sentences_are_kept_unchanged():
    assert c4.clean(PAGE) == (PAGE, '')
    assert c4.clean(f'\n  {LINES[0]}\t\r\n{LINES[1]}\n\n{LINES[2]}\n') == (PAGE, '')


@pytest.mark.parametrize('end', ['.', '!', '?', '"', '”', '»', '。', '؟', '।', '."'])
def test_lines_with_terminal_punctuation_are_kept(end):
    line = f'one two three four five{end}'
    assert lines_left(line) == [line]


@pytest.mark.parametrize('end', ['', ',', ':', ')', '...', '…', ' ...', '.…'])
def test_lines_without_terminal_punctuation_are_dropped(end):
    assert lines_left(f'one two three four five{end}') == []


@pytest.mark.parametrize(
    'line, is_kept', [('One two three four.', False), ('A b c d e.', True)]
)
def test_lines_need_five_words(line, is_kept):
    assert bool(lines_left(line)) == is_kept


@pytest.mark.parametrize('length, is_kept', [(1000, True), (1001, False)])
def test_lines_with_words_over_1000_characters_are_dropped(length, is_kept):
    assert bool(lines_left(f'One two three four {"x" * length} is long.')) == is_kept


@pytest.mark.parametrize('notice', ['JavaScript', 'Terms of Use', 'uses cookies'])
def test_lines_of_notices_are_dropped(notice):
    line = f'Please note that this page has {notice} within it.'
    assert lines_left(line) == []
    assert lines_left(line.replace(notice, 'java script')) != []


def test_citation_marks_are_removed():
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
def test_forbidden_content_drops_a_page(phrase, reason):
    # Also in a line that is dropped.
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
def test_pages_need_three_sentences(text, reason):
    assert c4.clean(text)[1] == reason
