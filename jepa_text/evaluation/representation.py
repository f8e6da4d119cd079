"""Probes of a study on vectors of held-out sentences, and their word-based controls.

A probe is logistic regression on mean-pooled frozen vectors. Its score is the balanced
accuracy, i.e. the mean of the recall over classes, which is 1 / classes at chance. It is
fitted and scored on sentences of different documents, all held out from pretraining, by
cross-validation.
"""

import dataclasses
from itertools import islice

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.evaluation.controls import baselines
from jepa_text.evaluation.sets import task
from jepa_text.evaluation.sets.paragraphs import paragraphs
from jepa_text.evaluation.tasks import sentences
from jepa_text.measures import probes as probing
from jepa_text.settings import resolve

TASKS = ('word_order', 'bigram_shift')  # default tasks of a study
FOLDS = 3
WORDS = 8, 16  # per sentence; short sentences are joined, long ones are cut
MAX_SENTENCES, MIN_SENTENCES = 2400, 60
_ROOM = 4  # tokens: <bos>, <eos>, and a word with more tokens at its new position
_DOCUMENTS = 20_000  # maximum number of documents read


@dataclasses.dataclass(frozen=True, eq=False)
class Probe:
    """A labeled set of sentences with a split.

    folds    pairs of indices (training, test) of FOLDS-fold cross-validation; no document
             is in both
    cut      number of sentences left out because they are longer than a row
    """

    name: str
    texts: list
    labels_N: np.ndarray
    documents_N: np.ndarray
    folds: list
    cut: int


def check(names):
    """Raises ValueError for an unknown sentence set."""
    for name in names:
        resolve.check_choice('study.tasks', name, sentences.SETS)


def make(documents, names, tokenizer, length, seed=0):
    """Returns ([Probe], {name: reason why there is no probe}).

    documents    iterable of held-out documents, dicts with a `text`
    names        of tasks/sentences.SETS
    length       sentences with more tokens are left out, so that models and controls read
                 the same text
    """
    documents = list(islice(documents, _DOCUMENTS))
    texts, documents_N, cut = _pieces(documents, tokenizer, length)
    probes, missing = [], {}
    for name in names:
        try:
            made = sentences.SETS[name](texts, seed)
            probes.append(_probe(name, made, documents_N[made.sources_N], cut))
        except ValueError as error:  # too few texts or words
            missing[name] = str(error)
    return probes, missing


def controls_of(probe):
    """Returns {control: {'balanced'}} without a model; the largest class is the best
    constant prediction."""
    largest = {'balanced': 1 / len(np.unique(probe.labels_N))}

    def answers(*fold):
        labels_N = probe.labels_N.astype(str)
        sides = (
            task.Examples([probe.texts[n] for n in side_M], None, labels_N[side_M])
            for side_M in fold
        )
        return baselines.probe(task.Task(probe.name, 'labels', 'accuracy', *sides))[0]

    return {controls.LARGEST: largest, controls.TF_IDF: _score(probe, answers)}


def run(model, probes):
    """Returns {representation/NAME: balanced accuracy, NAME_low, NAME_high, NAME_bag};
    NaN if vectors are not finite."""
    values = {}
    for probe in probes:
        name = f'representation/{probe.name}'
        vectors_ND = model.encode(probe.texts, pool='mean')
        score = _score_vectors(probe, vectors_ND)
        bag_ND = controls.bag_of_embeddings(model, probe.texts)
        values |= {
            name: score['balanced'],
            f'{name}_low': score['low'],
            f'{name}_high': score['high'],
            f'{name}_bag': _score_vectors(probe, bag_ND)['balanced'],
        }
    return values


def described(probe):
    """Returns a probe as plain values for JSON."""
    documents = len(np.unique(probe.documents_N))
    return {
        'classes': len(np.unique(probe.labels_N)),
        'learned': min(len(train_M) for train_M, _ in probe.folds),
        'scored': len(probe.texts),
        'documents': documents,
        'split': f'{FOLDS}-fold cross-validation over {documents} held-out documents',
        'left_out': probe.cut,
        'controls': controls_of(probe),
    }


def _pieces(documents, tokenizer, length):
    """Returns (sentences, index of each one's document, how many were too long)."""
    number = {id(document): n for n, document in enumerate(documents)}
    pairs = paragraphs(documents, *WORDS)
    if len(pairs) > MAX_SENTENCES:  # evenly spaced, to include all documents
        chosen = np.linspace(0, len(pairs) - 1, MAX_SENTENCES).astype(int)
        pairs = [pairs[n] for n in chosen]
    kept = [
        (text, document)
        for text, document in pairs
        if len(tokenizer.encode(text)) + _ROOM <= length
    ]
    documents_N = np.array([number[id(document)] for _, document in kept], int)
    return [text for text, _ in kept], documents_N, len(pairs) - len(kept)


def _probe(name, sentence_set, documents_N, cut):
    """Returns a Probe; raises ValueError for too few sentences and for one class only."""
    labels_N = np.asarray(sentence_set.labels_N)
    count, documents = len(labels_N), len(np.unique(documents_N))
    if count < MIN_SENTENCES or documents < FOLDS:
        raise ValueError(
            f'There are {count} sentences of {WORDS[0]} to {WORDS[1]} words in '
            f'{documents} held-out documents, but {MIN_SENTENCES} in {FOLDS} are needed. '
            'Prepare more text, or hold out more of it.'
        )
    folds = _folds(documents_N)
    if any(len(np.unique(labels_N[part])) < 2 for fold in folds for part in fold):
        raise ValueError('All training or all scored sentences have the same label.')
    return Probe(name, list(sentence_set.texts), labels_N, documents_N, folds, cut)


def _folds(documents_N):
    """Distributes whole documents to folds of similar size, the longest first."""
    documents, sizes = np.unique(documents_N, return_counts=True)
    load, fold_of = [0] * FOLDS, {}
    for i in np.argsort(-sizes, kind='stable'):
        fold_of[documents[i]] = smallest = int(np.argmin(load))
        load[smallest] += sizes[i]
    fold_N = np.array([fold_of[document] for document in documents_N])
    return [
        (np.flatnonzero(fold_N != fold), np.flatnonzero(fold_N == fold))
        for fold in range(FOLDS)
    ]


def _score_vectors(probe, vectors_ND):
    if not np.isfinite(vectors_ND).all():
        return dict.fromkeys(('balanced', 'low', 'high'), np.nan)

    def answers(*fold):
        sides = (x for side_M in fold for x in (vectors_ND[side_M], labels_N[side_M]))
        return probing.linear_probe(*sides)['predicted']

    labels_N = probe.labels_N.astype(str)
    return _score(probe, answers)


def _score(probe, answers_of):
    """Returns the score of a probe; `answers_of(train_M, test_M)` are classes as text."""
    right_N, labels_N = np.zeros(len(probe.texts), bool), probe.labels_N.astype(str)
    for train_M, test_M in probe.folds:
        right_N[test_M] = answers_of(train_M, test_M) == labels_N[test_M]
    scored_M = np.concatenate([test_M for _, test_M in probe.folds])
    right_M = right_N[scored_M]
    documents = [probe.documents_N[scored_M]]  # their sentences are dependent
    return probing.balanced_accuracy(right_M, probe.labels_N[scored_M], documents)
