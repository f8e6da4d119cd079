"""What can be read off vectors of held-out sentences, beside what counting words says.

    make(...)             -> probes made of the sentences of any documents
    controls_of(probe)    -> what needs no model: the largest class, TF-IDF
    run(model, probes)    -> values of a model and of the bag of its input embeddings

A probe is logistic regression on mean-pooled frozen vectors. Its score is the balanced
accuracy: the mean over classes of the share that is told right, so 1 / classes says
nothing. It learns from and is scored on sentences of different documents, all of them
held out from pretraining where these are enough; `split` says so in words.
"""

import dataclasses
from itertools import islice
from typing import NamedTuple

import numpy as np

from jepa_text.config import resolve
from jepa_text.evaluation import controls
from jepa_text.evaluation.sets import sentences as sentence_sets
from jepa_text.evaluation.sets.paragraphs import paragraphs
from jepa_text.evaluation.tasks import sentences
from jepa_text.measures import probes as probing

# Of a study that names none.
TASKS = ('word_order', 'bigram_shift', 'odd_word')
FOLDS = 3
WORDS = 8, 16  # of a sentence; short ones are joined, long ones are cut
MAX_SENTENCES = 2400  # sentences of a split
MIN_SENTENCES = (
    240  # held-out sentences from which a probe can learn; fewer are scored only
)
MIN_SCORED = 40
_ROOM = 4  # tokens: <bos>, <eos>, and a word that is longer in its new place
_DOCUMENTS = 20_000  # of a split are read, at most
_ALONE = (
    '{documents} held-out documents, dealt into {folds} parts: learned from all but one, '
    'scored on that one, each in its turn'
)
_TRAINED = (
    'learned from documents of the training split, which the encoder has read; scored on '
    '{documents} held-out ones'
)


@dataclasses.dataclass(frozen=True, eq=False)
class Probe:
    """`folds` are pairs of indices: learned from, scored on; no document is in both.

    `cut`: how many sentences were left out, as they are longer than a row.
    """

    name: str
    texts: list
    labels_N: np.ndarray
    documents_N: np.ndarray
    folds: list
    split: str
    cut: int

    @property
    def scored_M(self):
        """Indices of the sentences that are scored, each once."""
        return np.sort(np.concatenate([test_M for _, test_M in self.folds]))


class _Pieces(NamedTuple):
    """Sentences, the number of the document of each, and how many were too long."""

    texts: list
    documents_N: np.ndarray
    cut: int


def check(names):
    """Raises ValueError for a name of no set of sentences."""
    for name in names:
        if name not in sentences.SETS:
            near = resolve.nearest(name, sentences.SETS)
            raise ValueError(f'study.tasks has {name!r}, which does not exist.{near}')


def make(documents_of, names, label, tokenizer, length, seed=0):
    """([Probe], {name: why there is none}).

    `documents_of(split)` gives the documents of 'train' and 'heldout', dicts with a
    `text`; `names` are of tasks/sentences.SETS. `label`, if any, is a field of the
    documents, or 'century' where these have a `year`: which value has it? Sentences
    longer than `length` tokens are left out, so that models and controls read the same.
    Raises ValueError for a name that does not exist and a document without the field.
    """
    check(names)
    heldout = list(islice(documents_of('heldout'), _DOCUMENTS))
    pieces, first = _pieces(heldout, tokenizer, length), None
    is_enough = len(pieces.texts) >= MIN_SENTENCES
    is_alone = is_enough and len(np.unique(pieces.documents_N)) >= FOLDS
    train, whole = [], pieces
    if label or (names and not is_alone):
        train = list(islice(documents_of('train'), _DOCUMENTS))
        learned = _pieces(train, tokenizer, length)
        numbers_N = [learned.documents_N, pieces.documents_N + len(train)]
        both = learned.texts + pieces.texts, np.concatenate(numbers_N)
        whole = _Pieces(*both, learned.cut + pieces.cut)
    if not is_alone:
        pieces, first = whole, len(train)
    found, missing = [], {}
    for name in names:
        try:
            made = sentences.SETS[name](pieces.texts, **sentences.seeded(name, seed))
            documents_N = pieces.documents_N[made.sources_N]
            found.append(_probe(name, made, documents_N, first, pieces.cut))
        except ValueError as error:  # too few texts or words: told, not hidden
            missing[name] = str(error)
    if label:
        values = [_value(document, label) for document in (*train, *heldout)]
        try:
            found.append(_labeled(label, whole, values, len(train)))
        except TooFew as error:
            missing[label] = str(error)
    return found, missing


def controls_of(probe):
    """{control: {'balanced', 'accuracy'}} of what needs no model, on the scored ones.

    The largest class is that of the scored sentences, the most that one answer reaches.
    """
    counts = np.unique(probe.labels_N[probe.scored_M], return_counts=True)[1]
    largest = {
        'balanced': 1 / len(counts),
        'accuracy': float(counts.max() / counts.sum()),
    }

    def counted(train_M, test_M):
        fitted_on = [probe.texts[n] for n in train_M]
        both = [probe.texts[n] for n in (*train_M, *test_M)]
        return np.split(controls.tf_idf(both, fitted_on), [len(train_M)])

    return {controls.LARGEST: largest, controls.TF_IDF: _score(probe, counted)}


def run(model, probes):
    """{representation/NAME: balanced accuracy, NAME_low, NAME_high, NAME_bag}.

    NaN where vectors are not finite: of such a model nothing can be said.
    """
    values = {}
    for probe in probes:
        name = f'representation/{probe.name}'
        vectors_ND = model.encode(probe.texts, pool='mean')
        score = _read(probe, vectors_ND)
        bag_ND = controls.bag_of_embeddings(model, probe.texts)
        values |= {
            name: score['balanced'],
            f'{name}_low': score['low'],
            f'{name}_high': score['high'],
            f'{name}_bag': _read(probe, bag_ND)['balanced'],
        }
    return values


def described(probe):
    """A probe in plain values, for JSON."""
    learned = sorted({len(train_M) for train_M, _ in probe.folds})
    return {
        'classes': len(np.unique(probe.labels_N[probe.scored_M])),
        'learned': learned[0],
        'scored': len(probe.scored_M),
        'documents': len(np.unique(probe.documents_N)),
        'split': probe.split,
        'left_out': probe.cut,
        'controls': controls_of(probe),
    }


class TooFew(ValueError):
    """Too few sentences, words or classes for a probe."""


def _pieces(documents, tokenizer, length):
    number = {id(document): n for n, document in enumerate(documents)}
    found = paragraphs(documents, *WORDS)
    if len(found) > MAX_SENTENCES:  # evenly spaced, so that every document is in
        found = [
            found[n] for n in np.linspace(0, len(found) - 1, MAX_SENTENCES).astype(int)
        ]
    fits = [len(tokenizer.encode(text)) + _ROOM <= length for text, _ in found]
    kept = [pair for pair, is_fit in zip(found, fits) if is_fit]
    documents_N = np.array([number[id(document)] for _, document in kept], int)
    return _Pieces([text for text, _ in kept], documents_N, len(found) - len(kept))


def _probe(name, made, documents_N, first, cut):
    """A Probe; documents from number `first` on are scored, or all in turn if None."""
    if first is None:
        folds, split = _folds(documents_N), _ALONE
    else:
        is_train_N = documents_N < first
        folds = [(np.flatnonzero(is_train_N), np.flatnonzero(~is_train_N))]
        split = _TRAINED
    labels_N = np.asarray(made.labels_N)
    test_M = np.concatenate([test_M for _, test_M in folds])
    sizes = len(folds[0][0]), len(test_M)
    if sizes[0] < MIN_SCORED or sizes[1] < MIN_SCORED:
        raise TooFew(
            f'{sizes[0]} sentences of {WORDS[0]} to {WORDS[1]} words to learn from and '
            f'{sizes[1]} to be scored; {MIN_SCORED} of each are needed. Prepare more '
            'text, or hold out more of it.'
        )
    if any(len(np.unique(labels_N[part])) < 2 for fold in folds for part in fold):
        raise TooFew('All sentences of one side have the same label.')
    split = split.format(documents=len(np.unique(documents_N[test_M])), folds=FOLDS)
    return Probe(name, list(made.texts), labels_N, documents_N, folds, split, cut)


def _folds(documents_N):
    """Whole documents dealt to folds of about as many sentences, the longest first."""
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


def _value(document, label):
    if label in document:
        return str(document[label])
    if label == 'century' and 'year' in document:
        return _century(document['year'])
    fields = ', '.join(sorted(set(document) - {'text'})) or 'none'
    raise ValueError(
        f'study.label={label!r}, but a document has no such field; it has: {fields}. '
        "Name one of these, or '' for no labeled probe."
    )


def _century(year):
    """'19th' of 1851."""
    number = (year - 1) // 100 + 1
    endings = {1: 'st', 2: 'nd', 3: 'rd'}
    teens = number % 100 in (11, 12, 13)
    return f'{number}{"th" if teens else endings.get(number % 10, "th")}'


def _labeled(label, pieces, values, first):
    """Which value? Learned from training documents, scored on those held out."""
    labels_N = np.array([values[n] for n in pieces.documents_N], str)
    is_train_N = pieces.documents_N < first
    both = np.intersect1d(labels_N[is_train_N], labels_N[~is_train_N])
    kept_N = np.flatnonzero(np.isin(labels_N, both))
    made = sentence_sets.SentenceSet(
        [pieces.texts[n] for n in kept_N], labels_N[kept_N], kept_N
    )
    probe = _probe(label, made, pieces.documents_N[kept_N], first, pieces.cut)
    unknown = int(np.sum(~is_train_N)) - len(probe.scored_M)
    words = f'; {unknown} sentences of labels that no training document has are left out'
    return dataclasses.replace(probe, split=probe.split + words) if unknown else probe


def _read(probe, vectors_ND):
    """The score of vectors of all the texts; NaN if they are not finite."""
    if not np.isfinite(vectors_ND).all():
        return dict.fromkeys(('balanced', 'accuracy', 'low', 'high'), np.nan)
    return _score(probe, lambda *fold: [vectors_ND[side_M] for side_M in fold])


def _score(probe, vectors_of):
    """The score of a probe; `vectors_of(train_M, test_M)` gives those of a fold."""
    right_N = np.zeros(len(probe.texts), bool)
    for train_M, test_M in probe.folds:
        train_ND, test_ND = vectors_of(train_M, test_M)
        sides = train_ND, probe.labels_N[train_M], test_ND, probe.labels_N[test_M]
        right_N[test_M] = np.array(probing.linear_probe(*sides)['said']) == sides[3]
    right_M = right_N[probe.scored_M]
    score = probing.balanced_accuracy(right_M, probe.labels_N[probe.scored_M])
    return score | {'accuracy': float(right_M.mean())}
