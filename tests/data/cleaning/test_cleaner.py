"""Cleaning of one document, and the evaluation sets that it must not contain."""

import json
import unicodedata

import hypothesis
import pytest
from hypothesis import strategies

from jepa_text.data.cleaning import cleaner
from jepa_text.data.section import Clean
from jepa_text.settings import schema

QUESTION = 'Which of the twelve gray ships sailed first, on the morning of May 3rd, 1901?'
SHORT = 'Nine ships sailed out on that gray morning.'
SEVEN = 'Seven words are too few for it.'


def made(**config):
    return cleaner.Cleaner(schema.read(Clean, config, 'clean'))


def clean(text, **config):
    return made(**config).clean(text)


def rows(path, *texts):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(''.join(json.dumps({'text': text}) + '\n' for text in texts))
    return dict(path=str(path))


def test_nothing_is_dropped_by_default():
    for text in ('', '\x00', 'a' * 10**6, 'e\u0301 {lorem ipsum}\ud800'):
        assert cleaner.Cleaner(Clean()).clean(text) == (text, '')


@pytest.mark.parametrize(
    'text, config, expected',
    [
        ('e\u0301', dict(normalize='NFC'), ('é', '')),
        ('ﬁn', dict(normalize='NFC'), ('ﬁn', '')),
        ('ﬁn', dict(normalize='NFKC'), ('fin', '')),
        ('abc', dict(min_chars=4), (None, 'too short')),
        ('abcd', dict(min_chars=4), ('abcd', '')),
        # Limits apply to the cleaned text.
        ('e\u0301', dict(normalize='NFC', min_chars=2), (None, 'too short')),
    ],
)
def test_normalization_and_lengths(text, config, expected):
    assert clean(text, **config) == expected


@hypothesis.given(
    strategies.text('a1\u0301éﬁ＂．１\u2028\n ', max_size=20),
    strategies.sampled_from(['NFC', 'NFKC']),
)
def test_cleaning_a_clean_text_changes_nothing(text, form):
    once, _ = clean(text, normalize=form)
    assert clean(once, normalize=form) == (once, '')
    assert unicodedata.is_normalized(form, once)


def test_thirteen_consecutive_words_are_found(tmp_path):
    one = made(decontaminate=[rows(tmp_path / 'quiz.jsonl', QUESTION, 'no')])
    assert one.sets == (cleaner.SetSummary('quiz', ('quiz.jsonl',), texts=2, short=1),)
    asked = QUESTION.split()
    assert len(asked) == 15
    for start in range(3):
        thirteen = ' '.join(asked[start : start + 13])
        assert one.clean(f'Before it; {thirteen.upper()} -- and after.')[1]
        twelve = ' '.join(asked[start : start + 12])
        assert not one.clean(f'Before it; {twelve} and after.')[1]
        changed = thirteen.replace('sailed', 'sank')
        assert not one.clean(f'Before it; {changed} and after.')[1]


def test_shorter_texts_are_found_as_a_whole(tmp_path):
    one = made(decontaminate=[rows(tmp_path / 'quiz.jsonl', SHORT, SEVEN)])
    assert one.sets[0].short == 1
    assert one.clean('So it was: nine ships SAILED out\non that gray morning.')[1]
    for text in ('Nine ships sailed out on that gray evening.', SEVEN):
        assert not one.clean(text)[1]


@pytest.mark.parametrize('form, other', [('NFKC', 'Ｎｉｎｅ'), ('NFC', 'Ni\u0301ne')])
def test_sets_are_normalized_as_documents_are(tmp_path, form, other):
    text = SHORT.replace('Nine', other)
    one = made(normalize=form, decontaminate=[rows(tmp_path / 'quiz.jsonl', text)])
    assert one.clean(text)[1] == 'contaminated: quiz'


def test_the_first_matching_set_is_named(tmp_path):
    first = rows(tmp_path / 'a.jsonl', SHORT) | dict(name='mine')
    one = made(decontaminate=[first, rows(tmp_path / 'b.jsonl', QUESTION, SHORT)])
    for text, name in ((QUESTION, 'b'), (SHORT, 'mine'), (f'{QUESTION} {SHORT}', 'mine')):
        assert one.clean(text)[1] == f'contaminated: {name}'


def test_training_splits_are_not_searched_for(tmp_path):
    rows(tmp_path / 'set' / 'train.jsonl', QUESTION)
    rows(tmp_path / 'set' / 'test.jsonl', SHORT)
    rows(tmp_path / 'set' / 'validation_matched.jsonl', f'{SHORT} Now.')
    (tmp_path / 'set' / 'README.txt').write_text('about them')
    one = made(decontaminate=[dict(path=str(tmp_path / 'set'))])
    assert sorted(one.sets[0].files) == ['test.jsonl', 'validation_matched.jsonl']
    assert one.clean(SHORT)[1] and not one.clean(QUESTION)[1]


def test_fields(tmp_path):
    path = tmp_path / 'set.jsonl'
    path.write_text(json.dumps({'q': QUESTION, 'a': {'texts': [SHORT, 'x']}, 'n': 3}))
    every = made(decontaminate=[dict(path=str(path))])
    assert every.sets[0].texts == 3
    assert every.clean(QUESTION)[1] and every.clean(SHORT)[1]
    some = made(decontaminate=[dict(path=str(path), fields=('a',))])
    assert some.sets[0].texts == 2
    assert some.clean(SHORT)[1] and not some.clean(QUESTION)[1]


def test_lists_of_words_are_texts(tmp_path):
    path = tmp_path / 'tags.jsonl'
    sentences = [dict(words=text.split(), label='A', n=[1]) for text in (SHORT, SEVEN)]
    path.write_text('\n'.join(map(json.dumps, sentences)))
    for chosen, short in (({}, 3), ({'fields': ('words',)}, 1)):
        one = made(decontaminate=[dict(path=str(path), **chosen)])
        assert (one.sets[0].texts, one.sets[0].short) == (short + 1, short)
        assert one.clean(f'So: {SHORT}')[1] and not one.clean(SEVEN)[1]


@pytest.mark.parametrize(
    'config, words',
    [
        ({'normalize': 'NFD'}, "Available: '', NFC, NFKC"),
        ({'decontaminate': ['a.jsonl']}, 'must be a section'),
        ({'decontaminate': [{'path': 'PATH/none'}]}, 'no file or folder'),
        ({'decontaminate': [{'path': 'PATH/a.jsonl', 'fields': ['Q']}]}, "no field 'Q'"),
        (
            {'decontaminate': [{'path': 'PATH/a.jsonl'}]},
            r'none of the 1 texts of .*\(a.jsonl\) has 8 words or more',
        ),
    ],
)
def test_errors_name_what_is_wrong(tmp_path, config, words):
    rows(tmp_path / 'a.jsonl', 'Too short.')
    config = json.loads(json.dumps(config).replace('PATH', str(tmp_path)))
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        clean('', **config)
