"""Extractive question answering metrics, by SQuAD's script and by arXiv 2507.00994.

Answers and references are compared after `normalized`. A question without a reference is
unanswerable: its only correct answer is ''.
"""

import collections
import re
import string

import numpy as np

from jepa_text.evaluation.metrics import base

_PUNCTUATION = str.maketrans('', '', string.punctuation)


def measure(references, predicted, positions=None):
    """Returns the Measured of one answer per question; '' means no answer.

    references     for each question, all correct answers (start, text)
    positions      (gold sets, predicted sets) of token positions, for the paper's metric

    em, f1                    exact match and F1 of words (`word_f1`), each the maximum
                              over references (Rajpurkar et al. 2016; empty answers as in
                              2018)
    has_answer_*, no_answer_* the same over questions with and without references, if some
                              questions have none
    paper: token_f1           F1 of the token positions of the first reference and of the
                              prediction, where {} is {0} (arXiv 2507.00994, section 3);
                              absent without `positions`
    """
    texts = [[text for _, text in answers] for answers in references]
    has_answer_N = np.array(list(map(bool, texts)))
    em_N, f1_N = map(np.array, zip(*map(_scores, predicted, texts)))
    per_instance = {'em': em_N, 'f1': f1_N}
    standard = {}
    sides = {'': np.ones(len(texts), bool)}
    if not has_answer_N.all():
        sides |= {'has_answer_': has_answer_N, 'no_answer_': ~has_answer_N}
    for name, values_N in per_instance.items():
        for side, chosen_N in sides.items():
            if chosen_N.any():
                standard[side + name] = float(values_N[chosen_N].mean())
    paper = {}
    if positions is not None:
        # The paper's {0}: F1 is 1 if there is no answer and none is predicted.
        sides = [[set(answer) or {0} for answer in side] for side in positions]
        f1_N = np.array([2 * len(g & p) / (len(g) + len(p)) for g, p in zip(*sides)])
        per_instance['paper_token_f1'] = f1_N
        paper['token_f1'] = float(f1_N.mean())
    return base.Measured(standard, paper, per_instance)


def normalized(text):
    """Returns text in lower case without ASCII punctuation, articles and extra spaces.

    >>> normalized(' The  U.S. Army; an army')
    'us army army'
    """
    text = text.lower().translate(_PUNCTUATION)
    return ' '.join(re.sub(r'\b(a|an|the)\b', ' ', text).split())


def word_f1(answer, reference):
    """Returns the F1 of both bags of words; if one is empty, 1.0 if both are.

    >>> word_f1('the grey whale', 'a whale')
    0.6666666666666666
    """
    answer, reference = normalized(answer).split(), normalized(reference).split()
    if not answer or not reference:
        return float(answer == reference)
    both = collections.Counter(answer) & collections.Counter(reference)
    return 2 * sum(both.values()) / (len(answer) + len(reference))


def _scores(answer, texts):
    """Returns (exact match, F1): the best of an answer over the references, without
    those that normalize to ''."""
    known = [text for text in texts if normalized(text)] or ['']
    is_exact = normalized(answer) in map(normalized, known)
    return float(is_exact), max(word_f1(answer, text) for text in known)
