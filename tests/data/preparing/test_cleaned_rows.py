"""What `prepare` leaves out: poor texts, copies, texts of evaluation sets."""

import json

import numpy as np
import pytest
import read_back

from jepa_text.data import pipeline, prepare
from jepa_text.data.preparing import processes, unit
from jepa_text.data.rows import row_folder
from jepa_text.report import rows_page


@pytest.fixture
def folder(tmp_path, units_of):
    """Files of 20 texts of their own, 20 that all have, and near copies of these."""
    units_of(3000)
    rng = np.random.default_rng(0)
    words = np.array([f'word{n}' for n in range(2000)])
    shared = [' '.join(rng.choice(words, 60)) for _ in range(20)]
    place = tmp_path / 'texts'
    place.mkdir()
    for number in range(3):
        own = [' '.join(rng.choice(words, 60)) for _ in range(20)]
        near = [f'{text} and one more {number}' for text in shared]
        texts = [*own, *shared, *near, f'{{ {number}', 'é' if number else 'e\u0301']
        lines = [json.dumps({'text': text}) for text in texts]
        (place / f'{number}.jsonl').write_text('\n'.join([*lines, '{"text": " "}']))
    return place


def made(folder, name, tokenizer, workers=1, **clean):
    """(texts in the rows, manifest)"""
    source = {'name': 'jsonl', 'path': str(folder), 'heldout_every': 6}
    place = folder.parent / name
    manifest = prepare.prepare(
        source, tokenizer, place, row_length=2048, clean=clean, workers=workers
    )
    found = {}
    for split in ('train', 'heldout'):
        found[split] = sorted(read_back.texts(place, split, tokenizer))
    return found, manifest


def test_by_default_only_blank_documents_are_left_out(folder, ours):
    found, manifest = made(folder, 'rows', ours)
    assert manifest['left_out'] == {'blank': 3} and manifest['changed'] == {}
    assert 'clean' not in manifest['settings']
    assert sum(map(len, found.values())) == 3 * 62


def test_copies_are_left_out_and_counted(folder, ours):
    before, _ = made(folder, 'all', ours)
    found, manifest = made(folder, 'rows', ours, exact_duplicates=True)
    for split in found:
        assert found[split] == sorted(set(before[split]))
    assert manifest['left_out'] == {'blank': 3, 'exact duplicate': 41}
    assert manifest['settings']['clean'] == {'exact_duplicates': True}
    kept = sum(counts['documents'] for counts in manifest['splits'].values())
    assert kept == sum(map(len, found.values())) == 3 * 62 - 41


@pytest.mark.slow
def test_near_copies_are_left_out_whoever_finds_them(folder, ours):
    asked = dict(near_duplicates=0.8, normalize='NFC')
    one, manifest = made(folder, 'one', ours, **asked)
    assert manifest['left_out'] == {
        'blank': 3,
        'exact duplicate': 42,
        'near duplicate': 60,
    }
    assert manifest['changed'] == {'normalized': 1}
    assert len(manifest['examples']['near duplicate']) == 2
    two, other = made(folder, 'two', ours, workers=2, **asked)
    assert one == two and manifest == other
    assert len(row_folder.files(manifest)) > 6
    assert not list(folder.parent.glob('.*')) and not list(folder.parent.glob('*/f*'))


def test_what_is_compared_is_not_compared_again(folder, ours, monkeypatch):
    asked = dict(exact_duplicates=True)
    straight = made(folder, 'straight', ours, **asked)
    real, numbers = unit.fingerprint, []

    def compare(work, number):
        numbers.append(number)
        if len(numbers) == 3:
            raise KeyboardInterrupt
        real(work, number)

    monkeypatch.setitem(processes.TASKS, 'compare', compare)
    with pytest.raises(KeyboardInterrupt):
        made(folder, 'rows', ours, **asked)
    assert made(folder, 'rows', ours, **asked) == straight
    assert numbers == [0, 1, 2, *range(2, max(numbers) + 1)]
    assert not list(folder.parent.glob('.*'))


def test_poor_texts_and_texts_of_evaluation_sets_are_left_out(folder, ours, tmp_path):
    text = json.loads((folder / '0.jsonl').read_text().splitlines()[0])['text']
    quiz = [json.dumps({'question': one}) for one in (text, 'Too short for it.')]
    (tmp_path / 'quiz.jsonl').write_text('\n'.join(quiz))
    quiz = {'path': str(tmp_path / 'quiz.jsonl')}
    found, manifest = made(folder, 'rows', ours, min_chars=4, decontaminate=(quiz,))
    expected = {'blank': 3, 'contaminated: quiz': 1, 'too short': 6}
    assert manifest['left_out'] == expected
    assert manifest['examples']['contaminated: quiz'] == [text[:80]]
    assert text not in found['train'] + found['heldout']
    said = 'looked for 1 of 2 texts of quiz (quiz.jsonl), the others being too short'
    assert said in rows_page.lines(manifest)


def test_a_wrong_key_and_a_missing_set_cost_nothing(folder, ours, tmp_path):
    with pytest.raises(ValueError, match="prepare.clean has no key 'qualty'"):
        made(folder, 'rows', ours, qualty=('c4',))
    with pytest.raises(FileNotFoundError, match='quiz'):
        made(folder, 'rows', ours, decontaminate=({'path': str(tmp_path / 'quiz')},))
    assert not list(tmp_path.glob('*rows*'))


def test_rows_that_were_cleaned_otherwise_are_told(folder, ours, tmp_path):
    made(folder, 'rows', ours, min_chars=4)
    asked = {'source': {'name': 'jsonl'}, 'clean': {'min_chars': 4, 'max_chars': 0}}
    assert pipeline.prepared_otherwise(asked, tmp_path / 'rows') == []
    asked['clean'] = {'min_chars': 5, 'normalize': 'NFC'}
    told = pipeline.prepared_otherwise(asked, tmp_path / 'rows')
    assert told == [
        "clean.normalize was '' and is now 'NFC'",
        'clean.min_chars was 4 and is now 5',
    ]


@pytest.mark.slow
def test_repeated_spans_are_left_out_by_any_number_of_workers(tmp_path, ours, units_of):
    units_of(3000)
    rng = np.random.default_rng(0)
    words = np.array([f'word{n}' for n in range(2000)])
    place = tmp_path / 'texts'
    place.mkdir()

    def sentence():
        return ' '.join(rng.choice(words, 8)).capitalize() + '.'

    shared = ' '.join(sentence() for _ in range(4))
    for number in range(4):
        own = [[sentence() for _ in range(5)] for _ in range(12)]
        texts = [' '.join([*some[:3], shared, *some[3:]]) for some in own]
        lines = [json.dumps({'text': text}) for text in [*texts, shared]]
        (place / f'{number}.jsonl').write_text('\n'.join(lines))
    clean = {'quality': ('c4',), 'repeated_spans': True}
    found, manifest = made(place, 'one', ours, **clean)
    again, other = made(place, 'two', ours, workers=2, **clean)
    assert found == again and manifest == other
    # Of copies one stays, of which the sentences stand in the first document.
    assert manifest['left_out'] == {'c4: repeated sentences': 1, 'exact duplicate': 3}
    assert manifest['changed']['c4: repeated sentences left out'] == 47
    texts = [text for some in found.values() for text in some]
    assert len(texts) == 48 and sum(shared in text for text in texts) == 1
    assert sorted(len(text.split()) for text in texts) == [40] * 47 + [72]
