import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from jepa_text.data.cleaning import gopher, words


def prose(count, seed=0):
    """Returns distinct words, five letters on average, starting with two stop words."""
    numbers = random.Random(seed).sample(range(26**4), count)
    found = [''.join(chr(97 + n // 26**i % 26) for i in range(4)) + 'x' for n in numbers]
    return ['the', 'of', 'tenletters', *found[3:]]


def text_of(found, per_line=10):
    starts = range(0, len(found), per_line)
    return '\n'.join(' '.join(found[at : at + per_line]) for at in starts)


def test_prose_is_kept():
    assert gopher.reason(text_of(prose(1000))) == ''


@pytest.mark.parametrize(
    'count, reason',
    [(49, 'too few words'), (50, ''), (10**5, ''), (10**5 + 1, 'too many words')],
)
def test_50_to_100_000_words(count, reason):
    assert gopher.reason(text_of(prose(count))) == (reason and f'gopher: {reason}')


def test_very_long_documents_are_dropped_early(monkeypatch):
    monkeypatch.delattr(words, 'spaced')
    assert gopher.reason('the end of it ' * 200_000) == 'gopher: too many words'
    assert gopher.reason('x' * 10**6) == 'gopher: word length'


def three_letters(count):
    return ['the', 'and', *(one[:3] for one in prose(count)[2:])]


@pytest.mark.parametrize('change, reason', [('xyz', ''), ('xy', 'gopher: word length')])
def test_minimum_mean_word_length(change, reason):
    assert gopher.reason(text_of([*three_letters(99), change])) == reason


@pytest.mark.parametrize('extra, reason', [(0, ''), (1, 'gopher: word length')])
def test_maximum_mean_word_length(extra, reason):
    found = [one * 2 for one in prose(100)[3:]]
    found += ['the', 'of', 'x' * (30 - 5 + extra)]
    assert gopher.reason(text_of(found)) == reason


@pytest.mark.parametrize('symbol', ['#', '...', '…'])
@pytest.mark.parametrize('count, reason', [(10, ''), (11, 'gopher: symbols')])
def test_symbols_per_word(symbol, count, reason):
    found = prose(100)
    for place in range(count):
        found[8 * place] += symbol
    assert gopher.reason(' '.join(found)) == reason


@pytest.mark.parametrize('bullet', ['•', '- ', '* '])
@pytest.mark.parametrize('count, reason', [(9, ''), (10, 'gopher: bullets')])
def test_share_of_bullet_lines(bullet, count, reason):
    lines = text_of(prose(100)).split('\n')
    lines[:count] = [f'  {bullet}{line}' for line in lines[:count]]
    assert gopher.reason('\n'.join(lines)) == reason


@pytest.mark.parametrize('ellipsis', ['...', '… '])
@pytest.mark.parametrize('count, reason', [(3, ''), (4, 'gopher: ellipses')])
def test_share_of_lines_with_an_ellipsis(ellipsis, count, reason):
    lines = text_of(prose(100)).split('\n')
    lines[:count] = [line + ellipsis for line in lines[:count]]
    assert gopher.reason('\n'.join([*lines, '', ''])) == reason


@pytest.mark.parametrize(
    'count, reason', [(20, ''), (21, 'gopher: words without letters')]
)
def test_share_of_words_with_letters(count, reason):
    found = prose(100)
    found[-count:] = [f'{10_000 + n},-' for n in range(count)]
    assert gopher.reason(text_of(found)) == reason


def test_letters_of_all_scripts_count():
    cyrillic = [''.join(chr(ord(x) - 97 + 0x430) for x in one) for one in prose(100)]
    assert gopher.reason(text_of(cyrillic), stop_words=False) == ''
    assert gopher.reason(text_of(cyrillic)) == 'gopher: stop words'


@pytest.mark.parametrize(
    'found, reason',
    [
        ('the OF', ''),
        ('"the," be-', ''),
        ('the The', 'gopher: stop words'),
        ('then off', 'gopher: stop words'),
    ],
)
def test_two_different_stop_words(found, reason):
    text = f'{found} {text_of(prose(100)[2:])}'
    assert gopher.reason(text) == reason
    assert gopher.reason(text, stop_words=False) == ''


def lines_with(short, long, between='\n', per_line=10, lines=1):
    """Returns text with `short` equal lines of two letters between lines of many
    words."""
    found = prose(long * per_line * lines)
    size = per_line * lines
    units = [
        text_of(found[at : at + size], per_line) for at in range(0, len(found), size)
    ]
    for place in range(short):
        units.insert(2 * place, ' ab ')
    return between.join(units)


@pytest.mark.parametrize('short, reason', [(7, ''), (8, 'gopher: duplicate lines')])
def test_share_of_duplicate_lines(short, reason):
    assert gopher.reason(lines_with(short, 20 - short)) == reason
    # Blank lines do not count.
    assert gopher.reason(lines_with(short, 20 - short).replace('\n', '\n\n\n')) == reason


@pytest.mark.parametrize('short, reason', [(7, ''), (8, 'gopher: duplicate paragraphs')])
def test_share_of_duplicate_paragraphs(short, reason):
    assert gopher.reason(lines_with(short, 20 - short, '\n\n', lines=3)) == reason


@pytest.mark.parametrize('what', ['lines', 'paragraphs'])
def test_share_of_characters_in_duplicate_lines(what):
    lines = [f'line number {n}' for n in range(9)]
    assert gopher._lines([*lines[:8], *lines[:2]], what) == ''
    lines[0] += '.'
    expected = f'characters of duplicate {what}'
    assert gopher._lines([*lines[:8], *lines[:2]], what) == expected


def test_lines_are_checked_before_ngrams():
    lines = text_of(prose(100)).split('\n')
    twice = '\n'.join([*lines, *lines[:3]])
    assert gopher.reason(twice) == 'gopher: characters of duplicate lines'


@pytest.mark.parametrize('n, count', [(2, 10), (3, 6), (4, 4)])
@pytest.mark.parametrize('more, reason', [(0, ''), (1, 'gopher: top {n}-gram')])
def test_top_ngrams(n, count, more, reason):
    phrase = prose(200, seed=1)[-n:]
    found = prose(100 - (count + more) * n)
    for place in range(count + more):
        found[place * (n + 2) : place * (n + 2)] = phrase
    assert gopher.reason(' '.join(found)) == reason.format(n=n)


@pytest.mark.parametrize('n', range(5, 11))
@pytest.mark.parametrize('fewer, reason', [(0, ''), (1, 'gopher: duplicate {n}-grams')])
def test_characters_of_duplicate_ngrams(n, fewer, reason):
    total = int(np.ceil(2 * n / gopher.MAX_DUPLICATE_NGRAMS[n])) - fewer
    found = prose(total - 2 * n)
    found[20:20] = found[-n:]
    found[0:0] = found[-2 * n - 3 : -n - 3]
    assert len(found) == total
    assert gopher.reason(' '.join(found)) == reason.format(n=n)


def by_hand(found):
    """Computes `_ngrams` of a list of words by plain counting."""
    characters = sum(map(len, found))
    for n in range(2, 11):
        grams = [tuple(found[at : at + n]) for at in range(len(found) - n + 1)]
        counts = Counter(grams)
        if n <= 4:
            highest = max(counts.values(), default=0)
            top = [sum(map(len, one)) for one in counts if counts[one] == highest > 1]
            if highest * max(top, default=0) > gopher.MAX_TOP[n] * characters:
                return f'top {n}-gram'
            continue
        covered = {
            place
            for at, gram in enumerate(grams)
            if gram in grams[:at]
            for place in range(at, at + n)
        }
        part = sum(len(found[at]) for at in covered)
        if part > gopher.MAX_DUPLICATE_NGRAMS[n] * characters:
            return f'duplicate {n}-grams'
    return ''


WORDS = [*'abcdefghij', 'kk', 'lll', 'mmmm', 'né', '本', *(f'w{n}' for n in range(300))]


@hypothesis_settings(max_examples=60, deadline=None)
@given(
    start=st.lists(st.sampled_from(WORDS), min_size=1, max_size=60),
    pieces=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 14)), max_size=6),
)
def test_ngrams_match_a_plain_count(start, pieces):
    found = list(start)
    for at, size in pieces:
        found += found[at : at + size] + [f'x{len(found)}' for _ in range(7)]
    assert gopher._ngrams(words.spaced(' '.join(found))) == by_hand(found)
