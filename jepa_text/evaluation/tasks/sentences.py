"""Probing tasks of word content and word order, made from the sentences of any text."""

import math

import numpy as np

from jepa_text.config import resolve
from jepa_text.data.corpora import reading
from jepa_text.data.sets import tables
from jepa_text.data.sources import bundled
from jepa_text.evaluation.sets import sentences as sentence_sets
from jepa_text.evaluation.sets import task as tasks
from jepa_text.evaluation.sets.paragraphs import paragraphs
from jepa_text.files import listing

SETS = {
    'bigram_shift': sentence_sets.bigram_shift,
    'word_order': sentence_sets.word_order,
    'word_content': sentence_sets.word_content,
}


TEST_SHARE = 0.4
SEEDED = ('bigram_shift', 'word_order')


def make(made, path='', text='text', max_texts=6000, seed=0):
    """Makes a task of sentences; `made` is one of SETS (sets/sentences.py).

    The sentences are the texts at `path`, split by `seed`; or paragraphs of the bundled
    corpus, whose training documents are for training and whose held-out documents are for
    testing. At most `max_texts` texts are used.
    """
    resolve.check_choice('sentences: made', made, SETS)
    if path:
        texts = _subsample(_texts(path, text), max_texts)
    else:
        shares = (1 - TEST_SHARE) * max_texts, TEST_SHARE * max_texts
        sides = [
            _subsample(_bundled(split), n) for split, n in zip(bundled.SPLITS, shares)
        ]
        texts = [*sides[0], *sides[1]]
    built = SETS[made](texts, **seeded(made, seed))
    labels = [str(label) for label in built.labels_N]
    where = f'{made} of {path or "the bundled corpus"}'
    whole = tasks.examples(built.texts, None, labels, where)
    if path:
        sides = tasks.train_test_split(whole, seed, TEST_SHARE)
    else:
        is_test_N = built.sources_N >= len(sides[0])
        sides = (whole.take(np.flatnonzero(side_N)) for side_N in (~is_test_N, is_test_N))
    return tasks.Task(made, 'labels', 'accuracy', *sides)


def seeded(made, seed):
    """Returns {'seed': seed} for the sets that are drawn at random, else {}."""
    return {'seed': seed} if made in SEEDED else {}


def _subsample(texts, max_texts):
    """Returns at most so many texts, evenly spaced."""
    return texts[:: max(1, math.ceil(len(texts) / max_texts))]


def _bundled(split):
    return [text for text, _ in paragraphs(bundled.make(split), 12, 24)]


def _texts(path, field):
    suffixes = tuple(f'.txt{end}' for end in reading.ENDS)
    if path.endswith(suffixes):
        texts = [
            line
            for file in listing.expand(path, suffixes).files
            for _, line in reading.lines(file)
        ]
    else:
        (values,) = tables.columns(tables.splits(path)[0], [field], path)
        texts = tasks.examples(values, where=path).first
    return list(dict.fromkeys(text for text in texts if text.strip()))
