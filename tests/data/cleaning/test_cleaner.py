import unicodedata

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from test_c4 import LINES, PAGE
from test_contamination import QUESTION, SHORT, rows
from test_gopher import prose, text_of

from jepa_text.config import schema
from jepa_text.data.cleaning import cleaner, settings


def clean(text, **config):
    made = schema.read(settings.Config, config, 'clean')
    return cleaner.Cleaner(made).clean(text)


def test_nothing_is_dropped_by_default():
    config = settings.Config()
    assert not config.finds_duplicates
    for text in ('', '\x00', 'a' * 10**6, 'e\u0301 {lorem ipsum}\ud800'):
        assert cleaner.Cleaner(config).clean(text) == cleaner.Cleaned(text, '', ())


def test_normalization_is_noted():
    assert clean('e\u0301', normalize='NFC') == ('é', '', ('normalized',))
    assert clean('ﬁn', normalize='NFC') == ('ﬁn', '', ())
    assert clean('ﬁn', normalize='NFKC') == ('fin', '', ('normalized',))


def test_text_joined_by_c4_is_normalized():
    text = f'{PAGE}\nIt is said in the cafe[1]\u0301, too.'
    found = clean(text, normalize='NFC', quality=['c4'])
    assert found.text == f'{PAGE}\nIt is said in the café, too.'


@pytest.mark.parametrize(
    'text, reason',
    [('abc', 'too short'), ('abcd', ''), ('abcdef', ''), ('abcdefg', 'too long')],
)
def test_lengths_are_in_characters(text, reason):
    found = clean(text, min_chars=4, max_chars=6)
    assert found == (None if reason else text, reason, ())


def test_length_limits_apply_to_the_cleaned_text():
    assert clean('e\u0301', min_chars=2, normalize='NFC').reason == 'too short'
    text = f'{PAGE}\nmenu'
    assert clean(text, quality=['c4'], max_chars=len(PAGE)).text == PAGE
    assert clean(text, quality=['c4'], min_chars=len(PAGE) + 1).reason == 'too short'


def test_filters_in_any_order():
    found = text_of(prose(100)).split('\n')
    lines = [f'{line}.' for line in found]
    lines[3] = lines[3][:-1]
    text = '\n'.join(lines)
    expected = '\n'.join([*lines[:3], *lines[4:]])
    for quality in (['c4', 'gopher'], ['gopher', 'c4']):
        assert clean(text, quality=quality) == (expected, '', ('c4: lines left out',))
    assert clean(text, quality=['gopher']) == (text, '', ())
    # Gopher is applied to the output of C4.
    assert clean(text.replace('.\n', '\n', 5), quality=quality).reason == (
        'gopher: too few words'
    )
    assert clean(PAGE, quality=['c4']) == (PAGE, '', ())
    assert clean(PAGE, quality=['gopher']).reason == 'gopher: too few words'
    assert clean('{', quality=['c4']).reason == 'c4: curly bracket'


def test_stop_words_are_english():
    text = text_of(prose(100)).replace('the of', 'der von')
    assert clean(text, quality=['gopher']).reason == 'gopher: stop words'
    assert clean(text, quality=['gopher'], stop_words=False).text == text


def test_bad_words(tmp_path):
    path = tmp_path / 'bad.txt'
    path.write_text('sentence')
    config = dict(quality=['c4'], bad_words=str(path))
    assert clean(PAGE, **config).reason == 'c4: bad words'
    assert clean(PAGE.replace('sentence', 'sentences'), **config).reason == ''


def test_contaminated_documents_are_dropped_or_counted(tmp_path):
    sets = [dict(path=rows(tmp_path / 'quiz.jsonl', QUESTION, SHORT))]
    text = f'It begins. {QUESTION} It ends.'
    assert clean(text, decontaminate=sets) == (None, 'contaminated: quiz', ())
    assert clean('It begins. It ends.', decontaminate=sets).reason == ''
    counted = clean(text, decontaminate=sets, contaminated='count')
    assert counted == (text, '', ('contaminated: quiz',))
    made = schema.read(settings.Config, {'decontaminate': sets}, 'clean')
    assert cleaner.Cleaner(made).sets[0].texts == 2


@pytest.mark.parametrize(
    'config, words',
    [
        ({'normalize': 'NFD'}, "choices: '', 'NFC', 'NFKC'"),
        ({'quality': ['gofer']}, "quality.0.='gofer' is invalid; choices"),
        ({'min_chars': 5, 'max_chars': 4}, 'no document has such a length'),
        ({'bad_words': 'bad.txt'}, "add 'c4' to"),
        ({'near_duplicates': 1.5}, 'at most 1'),
        ({'min_overlap': 14}, 'at most clean.overlap=13'),
        ({'decontaminate': ['a.jsonl']}, 'must be a section'),
    ],
)
def test_invalid_settings_raise(config, words):
    with pytest.raises(ValueError, match=words):
        clean('', **config)


CITED = (
    'a[1]\u0301',
    '[[1]]',
    'e\u0301',
    'ﬁ',
    '＂',
    '．',
    '[',
    ']',
    '１',
    '\u2028',
    '\x1f',
    '[edit]',
    'menu',
    'javascript',
    'a',
)
PIECES = [*LINES, *CITED, 'It is so here and there', '\n', ' ', '.', '...', '{', '｛']


@hypothesis_settings(max_examples=200, deadline=None)
@given(
    text=st.lists(st.sampled_from(PIECES), max_size=30).map(''.join),
    normalize=st.sampled_from(settings.NORMALIZATIONS),
    quality=st.sampled_from([(), ('c4',)]),
)
def test_cleaning_is_idempotent(text, normalize, quality):
    once = clean(text, normalize=normalize, quality=quality)
    if once.text is not None:
        assert clean(once.text, normalize=normalize, quality=quality) == (
            once.text,
            '',
            (),
        )
        assert not normalize or unicodedata.is_normalized(normalize, once.text)
