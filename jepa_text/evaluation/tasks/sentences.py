"""Probing tasks of word content and word order, made from the bundled corpus."""

import math
from typing import Literal

import numpy as np

from jepa_text.data.sources import bundled
from jepa_text.evaluation.sets import sentences as sentence_sets
from jepa_text.evaluation.sets import task as tasks
from jepa_text.evaluation.sets.paragraphs import paragraphs
from jepa_text.settings import ranges

SETS = {
    'bigram_shift': sentence_sets.bigram_shift,
    'word_order': sentence_sets.word_order,
    'odd_words': sentence_sets.odd_words,
    'word_content': sentence_sets.word_content,
}
TEST_SHARE = 0.4


def make(made: Literal[*SETS], max_texts=6000, seed=0):
    """Makes a task of sentences (sets/sentences.py).

    Those of training documents are for training, and those of held-out documents for
    testing: at most `max_texts` in all, evenly spaced.
    """
    ranges.number('sentences: max_texts', max_texts, minimum=1)
    sides = []
    for split, share in zip(bundled.SPLITS, (1 - TEST_SHARE, TEST_SHARE)):
        texts = [text for text, _ in paragraphs(bundled.make(split), 12, 24)]
        sides.append(texts[:: max(1, math.ceil(len(texts) / (share * max_texts)))])
    built = SETS[made]([*sides[0], *sides[1]], seed)
    labels = [str(label) for label in built.labels_N]
    whole = tasks.examples(built.texts, None, labels, f'{made} of the bundled corpus')
    is_test_N = built.sources_N >= len(sides[0])
    parts = (whole.take(np.flatnonzero(side_N)) for side_N in (~is_test_N, is_test_N))
    return tasks.Task(made, 'labels', 'accuracy', *parts)
