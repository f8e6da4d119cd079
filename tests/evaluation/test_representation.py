"""Probes of a study: splits by document, controls, and input checks."""

import numpy as np
import pytest
import tiny

from jepa_text.data import tokenizers
from jepa_text.data.sources import bundled
from jepa_text.evaluation import controls, representation

TOKENIZER = tokenizers.load(tokenizers.BUNDLED)
NAMES = ('word_order', 'bigram_shift')


def documents(count, sentences):
    """Documents of synthetic sentences of ten words, all different."""
    rng = np.random.default_rng(0)

    def sentence():
        return 'The ' + ' '.join(rng.choice(tiny.NOUNS, 8)) + f' n{rng.integers(9999)}.'

    return [
        {'text': ' '.join(sentence() for _ in range(sentences))} for _ in range(count)
    ]


def make(heldout, names=NAMES, length=64):
    return representation.make(heldout, names, TOKENIZER, length)


@pytest.fixture(scope='module')
def corpus():
    found, missing = representation.make(bundled.make('heldout'), NAMES, TOKENIZER, 64)
    assert not missing
    return found


@pytest.mark.slow
def test_folds_share_no_document_and_score_each_sentence_once(corpus):
    for probe in corpus:
        assert len(probe.folds) == representation.FOLDS
        for train_M, test_M in probe.folds:
            sides = (set(probe.documents_N[side].tolist()) for side in (train_M, test_M))
            assert not set.intersection(*sides)
        scored_M = np.sort(np.concatenate([test_M for _, test_M in probe.folds]))
        np.testing.assert_array_equal(scored_M, np.arange(len(probe.texts)))
        assert representation.described(probe)['documents'] == 27
        assert len(probe.texts) > 1500


class Encoder:
    """A model whose vector of a text is `reads(text)`."""

    def __init__(self, reads):
        self.reads = reads
        table_VD = np.random.default_rng(0).normal(size=(TOKENIZER.vocab_size, 4))
        self.params = {'encoder': {'embedding': table_VD}}
        self.tokenizer = TOKENIZER

    def row(self, text):
        return np.array(TOKENIZER.encode(text))

    def encode(self, texts, pool):
        return np.array([self.reads(text) for text in texts], np.float32)


@pytest.mark.slow
def test_controls_are_at_chance_and_word_order_is_not(corpus):
    probe = corpus[1]
    found = representation.controls_of(probe)
    assert found[controls.LARGEST]['balanced'] == 0.5
    assert abs(found[controls.TF_IDF]['balanced'] - 0.5) < 0.05
    whole = ' '.join(' '.join(one['text'].split()) for one in bundled.make('heldout'))
    reads = Encoder(lambda text: [text in whole, len(text)])
    values = representation.run(reads, [probe])
    name = 'representation/bigram_shift'
    assert values[name] > 0.99
    assert values[f'{name}_low'] <= values[name] <= values[f'{name}_high']
    # A changed sentence has the same bag of tokens as the original.
    assert abs(values[f'{name}_bag'] - 0.5) < 0.05


def test_models_and_controls_read_the_same_text():
    """Sentences longer than a row are left out and counted, not truncated."""
    long = documents(6, 60)
    found, _ = make(long, length=30)
    for probe in found:
        tokens = [len(TOKENIZER.encode(text)) + 2 for text in probe.texts]
        assert max(tokens) <= 30 and probe.cut > 0


def test_few_texts_are_reported_as_missing():
    for few in (documents(2, 50), documents(5, 5)):
        found, missing = make(few)
        assert not found and 'but 60 in 3 are needed' in missing['word_order']
    found, missing = make([{'text': 'ohneleerzeichen' * 50}])
    assert not found and missing.keys() == set(NAMES)


def test_vectors_that_are_not_finite_score_nan(corpus):
    values = representation.run(Encoder(lambda _: [np.nan] * 3), corpus[:1])
    assert np.isnan(values['representation/word_order'])
    assert 0.4 < values['representation/word_order_bag'] < 0.6
