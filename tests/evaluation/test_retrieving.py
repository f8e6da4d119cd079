"""Fine-tuning on query-document pairs, measured over the whole corpus."""

import dataclasses
import sys

import examined
import numpy as np
import pytest
from test_ranking import beir

from jepa_text.evaluation import config as settings
from jepa_text.evaluation import evaluate, examiner, retrieving, zero_shot
from jepa_text.evaluation.members import grid
from jepa_text.evaluation.sets.retrieval import Retrieval
from jepa_text.losses import info_nce
from jepa_text.pretrained import base, labels, prediction

WORDS = ('whale', 'law', 'ship', 'tax', 'war', 'sea', 'old', 'people', 'house', 'hand')


def task(count=40):
    """A task whose queries contain a word of their document."""
    texts = [f'{WORDS[i % 10]} {WORDS[i // 10]} of {i}' for i in range(count)]
    corpus = {f'd{i}': f'the {text} and the state' for i, text in enumerate(texts)}
    queries = {f'q{i}': f'what of {text}' for i, text in enumerate(texts)}
    judged = {f'q{i}': {f'd{i}': 1} for i in range(count)}
    names = list(judged)
    pairs = [(queries[f'q{i}'], corpus[f'd{i}']) for i in range(0, count, 2)]
    parts = [{name: judged[name] for name in names[part::4]} for part in (1, 3)]
    return Retrieval('words', queries, corpus, parts[1], parts[0], pairs)


@pytest.mark.slow
def test_padding_does_not_change_the_loss():
    kind = labels.Vectors()
    model = examined.model()
    pairs = base.Unlabeled(['a whale', 'the law'], ['of whales', 'laws and taxes of war'])
    rows = kind.rows(prediction.reader(model), pairs)
    vectors_ND = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    batch = kind.collate(rows, 4, 16, 0)
    assert batch['tokens'].shape == (8, 16)
    total, count = kind.loss(vectors_ND, batch)
    first, second = vectors_ND[:2], vectors_ND[4:6]
    wanted = info_nce(first, second, np.ones(2, bool), 0.05).sum()
    assert (float(total), int(count)) == (pytest.approx(float(wanted)), 2)


@pytest.mark.slow
def test_training_improves_both_definitions_of_ndcg():
    """Compared with a learning rate near 0."""
    given = settings.Finetuning(steps=40, epochs=40, batch_size=10)
    examination = retrieving.Examination(examined.model(), task(), given)
    found = dict(examination.run([grid.Member(1e-12, 0), grid.Member(3e-3, 0)], 2))
    before, after = (one.outcome['test'] for one in found.values())
    assert after['standard']['ndcg@10'] > before['standard']['ndcg@10']
    assert set(after['paper']) == {'ndcg@10'}
    (one, _) = found.values()
    assert len(one.predictions) == 10 and len(one.per_instance['ndcg@10']) == 10
    assert all(len(ranked) == 40 for ranked in one.predictions.values())


@pytest.mark.slow
def test_answers_that_are_not_finite_are_recorded():
    """Of finite parameters that are too large."""
    for one in (task(), examined.labeled()):
        given = settings.Finetuning(steps=1)
        made = examiner.examination_of(examined.model(), one, given)
        ((_, found),) = made.run([grid.Member(1e15, 0)])
        assert np.isfinite(found.outcome['losses']).all()
        assert found.outcome['status'] == 'not finite' and found.outcome['test'] is None


def test_a_set_without_pairs_or_validation_queries_raises():
    given = settings.Finetuning()
    for lacking, word in (
        ({'pairs': []}, 'training pairs'),
        ({'validation_qrels': None}, 'validation queries'),
    ):
        with pytest.raises(ValueError, match=f'has no {word}: '):
            whole = dataclasses.replace(task(), **lacking)
            retrieving.Examination(examined.model(), whole, given)


@pytest.mark.parametrize('given', [None, True])
def test_a_missing_package_raises_before_anything_is_computed(given, monkeypatch):
    monkeypatch.setitem(sys.modules, 'ir_measures', None)
    asked = zero_shot.task_of(task(), given) if given else task()
    with pytest.raises(ImportError, match=r'ir_measures.*jepa-text\[eval\]'):
        examiner.examination_of(examined.model(), asked, settings.Finetuning())


@pytest.mark.slow
def test_a_retrieval_folder_is_evaluated(tmp_path):
    made, folder = task(), tmp_path / 'words'
    learned = {f'q{i}': {f'd{i}': 1} for i in range(0, 40, 2)}
    parts = {'train': learned, 'dev': made.validation_qrels, 'test': made.qrels}
    beir(
        folder,
        {key: ('', text) for key, text in made.corpus.items()},
        made.queries,
        {
            name: [(q, *d.popitem()) for q, d in part.items()]
            for name, part in parts.items()
        },
    )
    examined.saved_model(tmp_path / 'toy')
    toy = str(tmp_path / 'toy')
    given = dict(models=(toy,), tasks=(dict(name='ranking', path=str(folder)),))
    given |= dict(learning_rates=(1e-3,), seeds=1)
    given['finetuning'] = dict(steps=2, batch_size=8)
    found = evaluate.evaluate(given, tmp_path / 'out')
    lines = {line['model']: line for line in found['lines']}
    assert set(lines) == {toy, 'TF-IDF', 'BM25', f'{toy}, bag of embeddings'}
    assert lines[toy]['texts_cut'] == [0, 40]  # of the pairs
    for line in lines.values():
        assert line['kind'] == 'retrieval' and line['examples'] == [20, 10, 10]
        assert 0 <= line['test']['standard']['recall@100'] <= 1
    # Relevance depends only on words, so BM25 is nearly perfect.
    assert lines['BM25']['test']['standard']['ndcg@10'] > 0.9
    (folder / 'qrels' / 'train.tsv').unlink()
    (folder / 'qrels' / 'dev.tsv').unlink()
    given['tasks'] = (dict(name='own', path=str(folder), zero_shot=True),)
    ranked = evaluate.evaluate(given, tmp_path / 'ranked')
    again = {line['model']: line for line in ranked['lines']}
    assert again.keys() == lines.keys() and len(ranked['chosen']) == 4
    assert again['BM25']['test'] == lines['BM25']['test']
    assert again[toy]['examples'] == [0, 0, 10]
    page = (tmp_path / 'ranked' / 'evaluation.html').read_text()
    assert 'words zero-shot' in page and 'share a text with the' not in page
