"""Cloze scoring against transformers: tokens, log-likelihoods, ranks and words."""

import dataclasses
import json

import examined
import numpy as np
import pytest

from jepa_text.data import tokenizers
from jepa_text.evaluation import cloze
from jepa_text.pretrained import load

pytestmark = pytest.mark.peer
OPEN = [
    ('The old ', ' swam.', 'whale'),
    ('', ' am the law of the land, and of every sea.', 'I'),
    ('Of the people, by the ', '', 'people'),
]
WORDS = ('whale', 'congressman', 'law')


@pytest.fixture(scope='module')
def theirs(tmp_path_factory):
    """torch, a random BERT with an LM head, its tokenizer, and our loaded model."""
    torch = pytest.importorskip('torch')
    transformers = pytest.importorskip('transformers')
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp('bert')
    own = tokenizers.load(tokenizers.BUNDLED)
    examined.bert_of_others(transformers, folder, 'MaskedLM', initializer_range=0.3)
    content = json.loads(own.content)
    for token in content['added_tokens']:
        # As in an exported model, a mask includes the space before it.
        token['lstrip'] = token['content'] == '<mask>'
    (folder / 'theirs.json').write_text(json.dumps(content))
    special = dict(bos_token='<bos>', eos_token='<eos>', mask_token='<mask>')
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / 'theirs.json'), **special
    )
    other = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    ours = load.load(f'hf:{folder}')
    ends = dict(begin=(own.bos_id,), end=(own.eos_id,))
    return torch, other, tokenizer, dataclasses.replace(ours, **ends)


def log_probabilities(torch, model, tokenizer, text):
    """[M, V] at the masks of a text."""
    ids = tokenizer(text, add_special_tokens=False)['input_ids']
    ids = [tokenizer.bos_token_id, *ids, tokenizer.eos_token_id]
    with torch.no_grad():
        logits_LV = model(input_ids=torch.tensor([ids])).logits[0]
    masks = np.flatnonzero(np.array(ids) == tokenizer.mask_token_id)
    return torch.log_softmax(logits_LV.double(), dim=-1).numpy()[masks]


def test_open_questions_equal_transformers(theirs):
    torch, other, tokenizer, ours = theirs
    asked = [cloze.Question(a, b, (word,), 0, True) for a, b, word in OPEN]
    for predicted, (before, after, word) in zip(cloze.Scorer(ours).predict(asked), OPEN):
        text = f'{before}<mask>{after}'
        (log_V,) = log_probabilities(torch, other, tokenizer, text)
        (own,) = tokenizer(f' {word}' if before else word)['input_ids']
        assert predicted.log_likelihood == pytest.approx(log_V[own], abs=1e-4)
        assert predicted.rank == 1 + np.sum(log_V > log_V[own])
        assert predicted.word == tokenizer.decode([log_V.argmax()]).strip()
        assert np.ptp(log_V) > 1


def test_multi_token_candidates_equal_transformers(theirs):
    torch, other, tokenizer, ours = theirs
    (predicted,) = cloze.Scorer(ours).predict(
        [cloze.Question('The ', ' is gone.', WORDS, 1)]
    )
    values = []
    for word in WORDS:
        ids = tokenizer(f' {word}')['input_ids']
        text = f'The{" <mask>" * len(ids)} is gone.'
        log_MV = log_probabilities(torch, other, tokenizer, text)
        values.append(log_MV[np.arange(len(ids)), ids].sum())
    assert predicted.log_likelihood == pytest.approx(values[1], abs=1e-4)
    assert predicted.word == WORDS[int(np.argmax(values))]
    assert predicted.rank == 1 + sum(value > values[1] for value in values)
