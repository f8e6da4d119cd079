"""The hours of an evaluation follow from tokens and parameters."""

import examined
import jax
import numpy as np
import pytest

from jepa_text.evaluation import forecast, zero_shot
from jepa_text.evaluation.config import Finetuning
from jepa_text.evaluation.members import grid
from jepa_text.evaluation.sets import retrieval
from jepa_text.evaluation.sets import task as tasks
from jepa_text.pretrained import prediction

WEIGHTS = jax.tree.leaves({**examined.model().params['encoder'], grid.EMBEDDING: ()})
PARAMETERS = sum(leaf.size for leaf in WEIGHTS)
ONE = Finetuning(batch_size=1)


def row_tokens(texts, length=64):
    reader = prediction.reader(examined.model(), length)
    return np.array([len(reader.with_specials(ids)) for ids, _ in reader.encode(texts)])


@pytest.mark.parametrize('max_length', [0, 8])
def test_flops_are_six_per_parameter_and_token_or_two_without_a_gradient(max_length):
    model, task = examined.model(), examined.labeled()
    settings = Finetuning(batch_size=4, max_length=max_length)
    parts = (task.train, task.validation, task.test)
    train, validation, test = (row_tokens(x.first, max_length or 64) for x in parts)
    answered = 2 * PARAMETERS * (validation.sum() + test.sum())
    trained = 6 * PARAMETERS * train.mean() * 10 * 4
    made = forecast.flops(model, task, settings, 10)
    assert made == pytest.approx(trained + answered)


def test_a_ranking_reads_its_whole_corpus_and_trains_on_two_texts_of_a_pair():
    texts = ['the old whale', 'the sea', 'a law on the tax of ships', 'a whale']
    corpus = dict(zip('abc', texts))
    given = dict(queries={'q': texts[3]}, corpus=corpus, qrels={'q': {'a': 1}})
    pair = 'the old war', 'the law of the sea'  # neither is ranked
    ranked = retrieval.Retrieval('r', pairs=[pair], **given)
    made = [forecast.flops(examined.model(), ranked, ONE, n) for n in (0, 1, 3)]
    pair_tokens = row_tokens(pair).sum()
    assert made[0] / row_tokens(texts).sum() == pytest.approx(2 * PARAMETERS)
    assert (made[1] - made[0]) / pair_tokens == pytest.approx(6 * PARAMETERS)
    assert made[2] - made[0] == pytest.approx(3 * (made[1] - made[0]))


def test_tasks_without_training_are_only_answered():
    labeled = examined.labeled()
    pairs = tasks.Examples(labeled.test.first, labeled.test.first, np.arange(32.0))
    scores = tasks.Task('s', 'scores', 'spearman', labeled.train.take([]), pairs)
    asked = zero_shot.task_of(scores, True)
    made = forecast.flops(examined.model(), asked, ONE, 0)
    tokens = row_tokens(labeled.test.first).sum()
    assert made / (2 * PARAMETERS) == pytest.approx(2 * tokens)
