"""Answers that are spans of a text, as SQuAD's script scores them, and as the paper.

An answer and a reference are compared after `normalized`. A question without reference
is unanswerable, and right only if the answer is ''.
"""

import collections
import math
import re
import string

import numpy as np

from jepa_text.evaluation.metrics import base

_PUNCTUATION = str.maketrans('', '', string.punctuation)


def measure(
    references, predicted, no_answer_N=None, *, threshold=math.inf, positions=None
):
    """Measured of one answer a question; '' is none.

    references     of each question, all right answers: texts, or (start, text)
    no_answer_N    how sure the model is that there is no answer; any scale
    threshold      answers of which it is surer than that count as none
    positions      (gold sets, predicted sets) of the positions of tokens, for the paper's

    em, f1                    exact match and F1 of words, each the best over references
                              (Rajpurkar et al. 2016; of empty ones as in 2018)
    has_answer_*, no_answer_* the same over questions with and without references, if
                              there are some without
    best_em, best_f1, *_threshold    with no_answer_N: what the best threshold reaches. It
                              is chosen by these answers, so it is no result of a test;
                              one chosen on validation is `threshold`
    paper: token_f1           F1 of the sets of positions of the first reference and of
                              the prediction, where {} is {0} (arXiv 2507.00994, §3);
                              without positions there is none

    Raises ValueError for lengths that differ and values that are not finite.
    """
    base.check_lengths(references, predicted, 'questions')
    texts = [_texts(given) for given in references]
    has_answer_N = np.array([bool(given) for given in texts])
    scores = {'em': exact_match, 'f1': word_f1}
    per_instance = {
        name: np.array([_best(score, one, t) for one, t in zip(predicted, texts)])
        for name, score in scores.items()
    }
    standard = {}
    if no_answer_N is not None:
        no_answer_N = _sureness(no_answer_N, len(texts))
        false_N = np.array([-1.0 if one else 0.0 for one in predicted])
        for name, values_N in per_instance.items():
            gain_N = np.where(has_answer_N, values_N, false_N)
            found = _best_threshold(gain_N, np.sum(~has_answer_N), no_answer_N)
            standard[f'best_{name}'], standard[f'best_{name}_threshold'] = found
            none_N = no_answer_N > threshold
            per_instance[name] = np.where(none_N, ~has_answer_N, values_N)
    elif threshold != math.inf:
        raise ValueError(f'threshold={threshold} is of no_answer_N, which is None.')
    sides = {'': np.ones(len(texts), bool)}
    if not has_answer_N.all():
        sides |= {'has_answer_': has_answer_N, 'no_answer_': ~has_answer_N}
    for name, values_N in per_instance.items():
        for side, chosen_N in sides.items():
            if chosen_N.any():
                standard[side + name] = float(values_N[chosen_N].mean())
    paper = {}
    if positions is not None:
        per_instance['paper_token_f1'] = _position_f1(*positions, len(texts))
        paper['token_f1'] = float(per_instance['paper_token_f1'].mean())
    return base.Measured(standard, paper, per_instance)


def normalized(text):
    """Lower case, without ASCII punctuation, the words a, an, the, and extra spaces.

    >>> normalized(' The  U.S. Army; an army')
    'us army army'
    """
    text = text.lower().translate(_PUNCTUATION)
    return ' '.join(re.sub(r'\b(a|an|the)\b', ' ', text).split())


def exact_match(said, reference):
    """1.0 where both are the same after `normalized`, else 0.0."""
    return float(normalized(said) == normalized(reference))


def word_f1(said, reference):
    """F1 of the bags of words of both; where one is empty, whether both are.

    >>> word_f1('the grey whale', 'a whale')
    0.6666666666666666
    """
    said, reference = normalized(said).split(), normalized(reference).split()
    if not said or not reference:
        return float(said == reference)
    both = collections.Counter(said) & collections.Counter(reference)
    return 2 * sum(both.values()) / (len(said) + len(reference))


def _texts(given):
    return [one if isinstance(one, str) else one[1] for one in given]


def _best(score, said, texts):
    """The best over references; those of which nothing is left do not count."""
    return max(score(said, text) for text in [*filter(normalized, texts)] or [''])


def _sureness(no_answer_N, count):
    no_answer_N = np.asarray(no_answer_N, np.float64)
    if no_answer_N.shape != (count,):
        raise ValueError(
            f'no_answer_N has the shape {no_answer_N.shape}, but there are {count} '
            'questions: each needs one number.'
        )
    base.check_finite(no_answer_N, 'no_answer_N')
    return no_answer_N


def _best_threshold(gain_N, unanswerable, no_answer_N):
    """(value, threshold) of the best, as the script of SQuAD 2.0 searches it.

    Without answers all `unanswerable` are right. One more answer is given at a time, the
    surest first, and changes that by its gain: its score, or -1 where there is none.
    """
    order_N = np.argsort(no_answer_N, kind='stable')
    total_N = np.cumsum([unanswerable, *gain_N[order_N]])
    best = int(np.argmax(total_N))
    # Of no answer at all the script says 0, as its numbers are probabilities.
    threshold = no_answer_N[order_N[best - 1]] if best else 0.0
    return float(total_N[best] / len(gain_N)), float(threshold)


def _position_f1(gold, predicted, count):
    if len(gold) != count or len(predicted) != count:
        raise ValueError(
            f'{len(gold)} gold and {len(predicted)} predicted sets of positions, but '
            f'{count} questions: each needs one of both.'
        )
    # The paper's {0}: of nothing predicted where nothing is to be found, the F1 is 1.
    sides = [[set(one) or {0} for one in side] for side in (gold, predicted)]
    return np.array([2 * len(g & p) / (len(g) + len(p)) for g, p in zip(*sides)])
