"""Each kind can be trained, saved and loaded, and gives the same answers."""

import dataclasses

import draws
import examined
import numpy as np
import pytest

from jepa_text.evaluation import config, finetune
from jepa_text.evaluation.members import grid
from jepa_text.evaluation.sets import task as tasks
from jepa_text.pretrained import load, saved

TEXTS = ['the old sea', 'a law \U0001f469\u200d\U0001f467 of e\u0301', 'x', 'war and tax']
METRICS = {
    'labels': 'accuracy',
    'scores': 'spearman',
    'tags': 'token_accuracy',
    'spans': 'f1',
}


def task_of(kind):
    part = {
        'labels': tasks.Examples(TEXTS, None, np.array(['a', 'b', 'b', 'a'])),
        'scores': tasks.Examples(TEXTS, TEXTS[::-1], np.array([0.5, 1.0, 2.0, 0.0])),
        'tags': tasks.Examples(
            [text.split() for text in TEXTS],
            None,
            [['N' if word < 'm' else 'V' for word in text.split()] for text in TEXTS],
        ),
        'spans': tasks.Examples(
            ['What?'] * 4,
            TEXTS,
            [[(len(text) - 1, text[-1])] for text in TEXTS[:3]] + [[]],
        ),
    }[kind]
    return tasks.Task('t', kind, METRICS[kind], part, part, validation=part)


@pytest.mark.parametrize(
    'kind, rows',
    draws.in_stages(
        *((kind, 'standard') for kind in METRICS),
        ('tags', 'paper'),
        ('spans', 'paper'),
        slow=len(METRICS),
    ),
)
def test_a_saved_model_gives_the_same_answers(tmp_path, kind, rows):
    settings = config.Finetuning(steps=2, batch_size=4, rows=rows)
    model = examined.model()
    made = finetune.Examination(model, task_of(kind), settings)
    ((_, found),) = made.run([grid.Member(1e-3, 0)])
    assert found.outcome['status'] in ('done', 'collapsed')
    assert np.isfinite(found.outcome['losses']).all()
    tuned = dataclasses.replace(
        model, network=made.grid.network, params=found.params, kind=made.kind
    )
    saved.write(tmp_path / 'kept', tuned)
    part = made.task.test
    answers = load.load(tmp_path / 'kept').predict(part.first, part.second)
    said = [finetune._prediction(answer) for answer in answers]
    assert said == list(found.predictions)
