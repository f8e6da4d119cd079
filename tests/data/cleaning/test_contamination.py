import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from jepa_text.data.cleaning import contamination, phrases, words
from jepa_text.data.cleaning.settings import EvaluationSet

QUESTION = 'Which of the twelve gray ships sailed first, on the morning of May 3rd, 1901?'
SHORT = 'Nine ships sailed out on that gray morning.'


def rows(path, *texts, field='text'):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(''.join(json.dumps({field: text}) + '\n' for text in texts))
    return str(path)


def read(*sets, overlap=13, min_overlap=8):
    return contamination.read(sets, overlap, min_overlap)


def test_thirteen_consecutive_words_are_found(tmp_path):
    found, (summary,) = read(
        EvaluationSet(path=rows(tmp_path / 'quiz.jsonl', QUESTION, 'no'))
    )
    assert summary == contamination.SetSummary('quiz', ('quiz.jsonl',), texts=2, short=1)
    asked = QUESTION.split()
    assert len(asked) == 15
    for start in range(3):
        thirteen = ' '.join(asked[start : start + 13])
        assert found.find(f'Before it; {thirteen.upper()} -- and after.') == 0
        twelve = ' '.join(asked[start : start + 12])
        assert found.find(f'Before it; {twelve} and after.') is None
        changed = thirteen.replace('sailed', 'sank')
        assert found.find(f'Before it; {changed} and after.') is None
    assert found.find('') is None


def test_shorter_texts_are_found_as_a_whole(tmp_path):
    path = rows(tmp_path / 'quiz.jsonl', SHORT, 'Seven words are too few for it.')
    found, (summary,) = read(EvaluationSet(path=path))
    assert summary.short == 1
    assert (
        found.find(f'So it was: nine ships SAILED out\non that gray morning, {QUESTION}')
        == 0
    )
    assert found.find('Nine ships sailed out on that gray evening.') is None
    assert found.find('Seven words are too few for it.') is None
    lower, (summary,) = read(EvaluationSet(path=path), min_overlap=7)
    assert summary.short == 0
    assert lower.find('Here seven words are too few for it.') == 0


def test_the_first_matching_set_is_named(tmp_path):
    first = EvaluationSet(path=rows(tmp_path / 'a.jsonl', SHORT), name='mine')
    second = EvaluationSet(path=rows(tmp_path / 'b.jsonl', QUESTION, SHORT))
    found, summaries = read(first, second)
    assert [one.name for one in summaries] == ['mine', 'b']
    assert found.find(QUESTION) == 1
    assert found.find(SHORT) == found.find(f'{QUESTION} {SHORT}') == 0


def test_training_splits_are_not_searched_for(tmp_path):
    rows(tmp_path / 'set' / 'train.jsonl', QUESTION)
    rows(tmp_path / 'set' / 'test.jsonl', SHORT)
    rows(tmp_path / 'set' / 'dev.jsonl', f'{SHORT} Now.')
    found, (summary,) = read(EvaluationSet(path=str(tmp_path / 'set')))
    assert sorted(summary.files) == ['dev.jsonl', 'test.jsonl']
    assert found.find(QUESTION) is None and found.find(SHORT) == 0


def test_fields(tmp_path):
    path = tmp_path / 'set.jsonl'
    path.write_text(json.dumps({'q': QUESTION, 'a': {'texts': [SHORT, 'x']}, 'n': 3}))
    found, (summary,) = read(EvaluationSet(path=str(path)))
    assert summary.texts == 3 and found.find(QUESTION) == found.find(SHORT) == 0
    found, (summary,) = read(EvaluationSet(path=str(path), fields=('a',)))
    assert summary.texts == 2 and found.find(QUESTION) is None
    with pytest.raises(ValueError, match="has no field 'Q'"):
        read(EvaluationSet(path=str(path), fields=('Q',)))
    with pytest.raises(ValueError, match=r'none of the 0 texts of .*\(set.jsonl\) has 8'):
        read(EvaluationSet(path=str(path), fields=('n',)))


def test_missing_and_too_short_sets_raise(tmp_path):
    with pytest.raises(FileNotFoundError, match='no file or folder'):
        read(EvaluationSet(path=str(tmp_path / 'none')))
    path = rows(tmp_path / 'a.jsonl', 'Too short.')
    with pytest.raises(ValueError, match=r'none of the 1 texts of .*\(a.jsonl\) has 8'):
        read(EvaluationSet(path=path))


def test_bad_words(tmp_path):
    path = tmp_path / 'bad.txt'
    path.write_text('darn\n\nhot dog\n日本\n')
    found = contamination.bad_words(str(path))
    for text in ('Oh, DARN!', 'a hot-dog', 'hot\ndog', 'in 日本の'):
        assert found.find(text) == 0
    for text in ('darned', 'hot a dog', 'dog hot', '', '日の本'):
        assert found.find(text) is None
    with pytest.raises(FileNotFoundError, match='does not exist'):
        contamination.bad_words(str(tmp_path / 'none'))
    path.write_text('\n ...\n')
    with pytest.raises(ValueError, match='contains no words'):
        contamination.bad_words(str(path))
    path.write_bytes(b'\xff')
    with pytest.raises(ValueError, match='is not UTF-8'):
        contamination.bad_words(str(path))


TEXT = st.lists(st.sampled_from('abcd'), max_size=25).map(' '.join)


@hypothesis_settings(max_examples=60, deadline=None)
@given(
    sets=st.lists(st.lists(TEXT, min_size=1, max_size=4), min_size=1, max_size=3),
    text=TEXT,
    block=st.sampled_from([9, 16, 1000]),
)
def test_phrases_match_a_plain_search(sets, text, block):
    made = [contamination.grams_of(texts, 2, 4)[0] for texts in sets]
    found = phrases.Phrases(made)

    def has(texts):
        pieces = []
        for one in map(str.split, texts):
            n = min(len(one), 4)
            if n >= 2:
                pieces += [one[at : at + n] for at in range(len(one) - n + 1)]
        return any(f' {" ".join(piece)} ' in f' {text} ' for piece in pieces)

    expected = next((n for n, texts in enumerate(sets) if has(texts)), None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, 'BLOCK', block)
        assert found.find(text) == expected


def test_the_prefilter_has_few_false_positives():
    rng = np.random.default_rng(0)
    grams = rng.integers(0, 2**64, 5000, dtype=np.uint64)
    found = phrases.Phrases([{3: [grams]}])
    others = rng.integers(0, 2**64, 100_000, dtype=np.uint64)
    (table,) = found._tables.values()
    assert 1 / 64 < table.prefilter.mean() < 1 / 8
    assert table.find(others) is None
    assert table.find(np.append(others, grams[77])) == 0
