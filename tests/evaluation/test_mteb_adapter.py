"""The `mteb` adapter, against the exported model."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_hf_export import trained

from jepa_text import export
from jepa_text.evaluation import mteb_adapter

NOUNS = ('whale', 'captain', 'sister', 'union', 'congress', 'garden', 'harpoon', 'letter')
TEXTS = [f'The {a} saw the {b} in {c}.' for a in NOUNS for b in NOUNS for c in NOUNS[:2]]
TASK = SimpleNamespace(name='made up')


def batches(texts):
    return [{'text': texts[:5]}, {'text': texts[5:]}]


def test_prompts_depend_on_the_type_of_text():
    model = trained()
    encoder = mteb_adapter.Encoder(model, query='Query: ', document='Document: ')
    where = dict(task_metadata=TASK, hf_split='test', hf_subset='default')
    for kind, prompt in (('query', 'Query: '), ('document', 'Document: '), (None, '')):
        prompt_type = kind and SimpleNamespace(value=kind)
        found = encoder.encode(
            batches(TEXTS[:8]), prompt_type=prompt_type, batch_size=2, **where
        )
        assert_allclose(found, model.encode([prompt + t for t in TEXTS[:8]]), atol=1e-6)
    with pytest.raises(ValueError, match='made up has image but no text'):
        encoder.encode([{'image': []}], **where)
    with pytest.raises(ValueError, match='precision must be float32'):
        encoder.encode(batches(TEXTS), precision='int8', **where)
    with pytest.raises(TypeError, match='encode has no options layer'):
        encoder.encode(batches(TEXTS), layer=1, **where)
    assert (
        encoder.revision
        != mteb_adapter.Encoder(dataclasses.replace(model, pool='max')).revision
    )


def tasks(mteb):
    """A classification, a similarity and a retrieval task, without files."""
    from datasets import Dataset, DatasetDict
    from mteb.abstasks import AbsTaskClassification, AbsTaskRetrieval
    from mteb.abstasks.sts import AbsTaskSTS

    rng = np.random.default_rng(0)
    texts = [TEXTS[i] for i in rng.permutation(len(TEXTS))]

    def about(kind, score):
        given = dict.fromkeys(mteb.TaskMetadata.model_fields)
        given |= dict(type=kind, name=f'Local{kind}', main_score=score, description='x')
        given |= dict(eval_splits=['test'], eval_langs=['eng-Latn'], modalities=['text'])
        given |= dict(dataset={'path': 'none', 'revision': 'none'}, category='t2t')
        given = {key: value for key, value in given.items() if value is not None}
        return mteb.TaskMetadata(**given)

    def of(base, kind, score, dataset, **more):
        def load_data(self, **options):
            self.dataset, self.data_loaded = dataset, True

        parts = dict(metadata=about(kind, score), load_data=load_data, **more)
        return type(kind, (base,), parts)()

    labels = [int('whale' in text) for text in texts]
    halves = {'train': slice(0, 64), 'test': slice(64, 128)}
    classes = DatasetDict(
        {
            name: Dataset.from_dict({'text': texts[half], 'label': labels[half]})
            for name, half in halves.items()
        }
    )
    pairs = dict(zip(('sentence1', 'sentence2', 'score'), (texts[:40], texts[40:80], [])))
    pairs['score'] = [
        float(len(set(a.split()) & set(b.split())))
        for a, b in zip(pairs['sentence1'], pairs['sentence2'])
    ]
    queries = [{'id': f'q{n}', 'text': f'the {noun}'} for n, noun in enumerate(NOUNS)]
    corpus = [{'id': f'd{n}', 'text': text, 'title': ''} for n, text in enumerate(texts)]
    qrels = {
        f'q{n}': {f'd{m}': int(noun in text) for m, text in enumerate(texts)}
        for n, noun in enumerate(NOUNS)
    }
    part = dict(
        queries=Dataset.from_list(queries),
        corpus=Dataset.from_list(corpus),
        relevant_docs=qrels,
        top_ranked=None,
    )
    similar = DatasetDict({'test': Dataset.from_dict(pairs)})
    return [
        of(AbsTaskClassification, 'Classification', 'accuracy', classes),
        of(AbsTaskSTS, 'STS', 'cosine_spearman', similar, min_score=0, max_score=5),
        of(AbsTaskRetrieval, 'Retrieval', 'ndcg_at_10', {'default': {'test': part}}),
    ]


@pytest.mark.peer
def test_mteb_scores_of_live_and_exported_models_are_equal(tmp_path):
    mteb = pytest.importorskip('mteb')
    library = pytest.importorskip('sentence_transformers')
    model = trained()
    export.write(model, tmp_path / 'out')
    live = mteb_adapter.Encoder(model)
    assert isinstance(live, mteb.models.EncoderProtocol)
    scores = []
    for one in (live, library.SentenceTransformer(str(tmp_path / 'out'), device='cpu')):
        found = mteb.evaluate(one, tasks(mteb), cache=None, co2_tracker=False)
        scores.append([result.get_score() for result in found.task_results])
    assert len(scores[0]) == 3 and 0.3 < scores[0][0] < 1
    assert_allclose(*scores, atol=1e-4)
    prompted = mteb_adapter.Encoder(model, query='Query: ', document='Letter: ')
    found = mteb.evaluate(prompted, tasks(mteb), cache=None, co2_tracker=False)
    again = [result.get_score() for result in found.task_results]
    assert again[:2] == scores[0][:2] and again[2] != scores[0][2]
    meta = live.mteb_model_meta
    assert (meta.embed_dim, meta.max_tokens) == (
        model.network.encoder.width,
        model.length,
    )
