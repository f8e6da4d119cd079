"""Probes of tasks during training."""

import types

import examined
import numpy as np
import pytest
import tiny

from jepa_text.evaluation import during_training
from jepa_text.pretrained import load
from jepa_text.running import metrics
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes
from jepa_text.training import train


def config(folder, path, **changes):
    given = tiny.config(folder, steps=4, **changes)
    given['evaluate'] |= {'every_steps': 2, 'tasks': (f'labeled@{path}',)}
    return given


@pytest.mark.slow
def test_probes_are_logged_and_do_not_change_training(tmp_path):
    path = examined.file_of(tmp_path, 80)
    with_it = config(tmp_path, path, phases=tiny.phases('mlm'))
    one = train.train(with_it, tmp_path / 'with', during_training.EVALUATIONS)
    without = with_it | dict(evaluate=with_it['evaluate'] | dict(tasks=()))
    other = train.train(without, tmp_path / 'without', during_training.EVALUATIONS)
    assert tiny.fingerprint(one) == tiny.fingerprint(other)
    rows = list(metrics.read(tmp_path / 'with'))
    key = 'probe/sea/accuracy'
    found = {row['step']: row[key] for row in rows if key in row}
    assert sorted(found) == [0, 2, 4]
    assert all(0 <= value <= 1 for value in found.values())
    assert not any(key in row for row in metrics.read(tmp_path / 'without'))


@pytest.mark.slow
def test_vectors_equal_encode(tmp_path):
    """So the probe is the same as in an analysis."""
    path = examined.file_of(tmp_path, 80)
    given = config(tmp_path, path)
    state = tiny.train(given, tmp_path / 'run')
    recipe = recipes.make(settings.plain(given), during_training.EVALUATIONS)
    (prober,) = (e for e in recipe.evaluations if isinstance(e, during_training.Prober))
    rows = prober._parts['sea'][0][0]
    model = load.load(tmp_path / 'run')
    texts = [model.tokenizer.decode(row.tokens) for row in rows]
    vectors_ND = prober._vectors(state.params, recipe.phases[0].network, rows)
    np.testing.assert_allclose(vectors_ND, model.encode(texts), atol=1e-5)


def test_truncated_texts_warn():
    recipe = types.SimpleNamespace(mesh=None, tokenizer=examined.model().tokenizer)
    recipe.phases = [types.SimpleNamespace(length=4)]
    with pytest.warns(UserWarning, match='tasks, sea: 80 of 80 texts are longer than th'):
        during_training.Prober(recipe, [examined.labeled()], 1)


@pytest.mark.parametrize(
    'row, message',
    [
        ({}, "Two tasks are named 'sea'"),
        (
            {'text': 'text', 'label': 'same'},
            "mine: all training examples have the class 'same'",
        ),
        ({'query': 'q', 'document': 'd'}, 'mine is a task of retrieval. All tasks must'),
    ],
)
def test_invalid_tasks_raise_before_training(tmp_path, row, message):
    path = examined.file_of(tmp_path)
    given = config(tmp_path, path)
    given['evaluate']['tasks'] = (f'labeled@{path}',) * 2
    if row:
        rows = [
            {k: v if v == 'same' else f'{v} {n}' for k, v in row.items()}
            for n in range(40)
        ]
        given['evaluate']['tasks'] = (examined.jsonl(tmp_path / 'mine.jsonl', rows),)
    with pytest.raises(ValueError, match=message):
        train.train(given, tmp_path / 'run', during_training.EVALUATIONS)
