"""Tests for cleaning in `prepare`: lengths, duplicates, contamination."""

import json
import os

import numpy as np
import pytest
import read_back

from jepa_text.data import pipeline, prepare
from jepa_text.data.cleaning import duplicates
from jepa_text.data.rows import row_folder
from jepa_text.report import rows_page


@pytest.fixture
def folder(tmp_path, units_of):
    """Files with 20 distinct texts, and 20 shared ones, with variants."""
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


def made(folder, name, tokenizer, jobs=1, **clean):
    """Returns (texts in the rows, manifest)."""
    source = {'name': 'jsonl', 'path': str(folder), 'heldout_every': 6}
    place = folder.parent / name
    manifest = prepare.prepare(
        source, tokenizer, place, row_length=2048, clean=clean, engine=dict(jobs=jobs)
    )
    found = {}
    for split in ('train', 'heldout'):
        found[split] = sorted(read_back.texts(place, split, tokenizer))
    return found, manifest


def test_exact_duplicates_are_dropped_and_counted(folder, ours):
    before, whole = made(folder, 'all', ours)
    assert whole['left_out'] == {'blank': 3} and 'clean' not in whole['settings']
    found, manifest = made(folder, 'rows', ours, exact_duplicates=True)
    for split in found:
        assert found[split] == sorted(set(before[split]))
    assert manifest['left_out'] == {'blank': 3, 'exact duplicate': 41}
    assert manifest['settings']['clean'] == {'exact_duplicates': True}
    kept = sum(counts['documents'] for counts in manifest['splits'].values())
    assert kept == sum(map(len, found.values())) == 3 * 62 - 41


@pytest.mark.long
def test_duplicates_do_not_depend_on_jobs(folder, ours):
    asked = dict(exact_duplicates=True, normalize='NFC')
    one, manifest = made(folder, 'one', ours, **asked)
    assert manifest['left_out'] == {'blank': 3, 'exact duplicate': 42}
    assert len(manifest['examples']['exact duplicate']) == 10
    two, other = made(folder, 'two', ours, jobs=2, **asked)
    assert one == two and manifest == other
    assert pipeline.verify(folder.parent / 'two') == other
    files = [name for name, _ in row_folder.files(manifest)]
    assert len(files) > 6 and not list(folder.parent.glob('.*'))
    assert {*files, row_folder.MANIFEST} == {*os.listdir(folder.parent / 'two')}


def test_hashes_are_not_computed_again(folder, ours, monkeypatch):
    asked = dict(exact_duplicates=True)
    straight = made(folder, 'straight', ours, **asked)
    real, numbers = duplicates.write, []

    def write(place, number, documents):
        numbers.append(number)
        if len(numbers) == 3:
            raise KeyboardInterrupt
        real(place, number, documents)

    monkeypatch.setattr(duplicates, 'write', write)
    with pytest.raises(KeyboardInterrupt):
        made(folder, 'rows', ours, **asked)
    with monkeypatch.context() as patch:
        patch.setattr(row_folder, 'write_manifest', None)
        with pytest.raises(TypeError):
            made(folder, 'rows', ours, **asked)
    # Nor when all units are done, and their hashes deleted.
    assert made(folder, 'rows', ours, **asked) == straight
    assert numbers == [0, 1, 2, *range(2, max(numbers) + 1)]
    assert not list(folder.parent.glob('.*'))


def test_poor_and_contaminated_texts_are_dropped(folder, ours, tmp_path):
    text = json.loads((folder / '0.jsonl').read_text().splitlines()[0])['text']
    quiz = [json.dumps({'question': one}) for one in (text, 'Too short for it.')]
    (tmp_path / 'quiz.jsonl').write_text('\n'.join(quiz))
    quiz = {'path': str(tmp_path / 'quiz.jsonl')}
    found, manifest = made(folder, 'rows', ours, min_chars=4, decontaminate=(quiz,))
    expected = {'blank': 3, 'contaminated: quiz': 1, 'too short': 6}
    assert manifest['left_out'] == expected
    assert manifest['examples']['contaminated: quiz'] == [text[:200].strip()]
    assert text not in found['train'] + found['heldout']
    line = 'searched for 1 of 2 texts of quiz (quiz.jsonl); the others are too short'
    assert line in rows_page.lines(manifest)


def test_another_content_of_an_evaluation_set_starts_over(
    folder, ours, tmp_path, monkeypatch
):
    lines = (folder / '0.jsonl').read_text().splitlines()
    quiz = tmp_path / 'quiz.jsonl'
    asked = dict(decontaminate=({'path': str(quiz)},))
    quiz.write_text(lines[0])
    with monkeypatch.context() as patch, pytest.raises(TypeError):
        patch.setattr(row_folder, 'write_manifest', None)  # when all units are done
        made(folder, 'rows', ours, **asked)
    quiz.write_text('\n'.join(lines[:2]))
    found = made(folder, 'rows', ours, **asked)
    assert found == made(folder, 'straight', ours, **asked)
    assert found[1]['left_out']['contaminated: quiz'] == 2
