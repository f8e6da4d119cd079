"""Metrics of classes, scores and masked words, and the choice of those of a task."""

import numpy as np

from jepa_text.evaluation.metrics import base, ranking, spans, tags
from jepa_text.measures import correlations

DEPTH = 10  # ranks that count for accuracy@10


def measure(kind, target, answers, labels=(), positions=None):
    """Returns the Measured of answers to examples of a task by the metrics of its kind.

    target       of each example (sets/task.py); for kind 'retrieval' the qrels
    answers      one per example; for kind 'retrieval' a run, as in ranking.py
    labels       all classes in order, for kinds 'labels' and 'tags'
    positions    (gold sets, predicted sets) of token positions, for kind 'spans'
    """
    if kind == 'labels':
        return classes(*(list(map(str, side)) for side in (target, answers, labels)))
    if kind == 'cloze':
        pairs = zip(target, answers)
        return cloze([1 if word == answer else np.inf for (word, _), answer in pairs])
    if kind == 'spans':
        return spans.measure(target, answers, positions)
    if kind == 'tags':
        return tags.measure(target, answers, labels)
    one = {'scores': scores, 'retrieval': ranking.measure}
    return one[kind](target, answers)


def classes(gold, predicted, labels):
    """Returns the Measured of one predicted class per instance.

    `labels` are all classes in order. By scikit-learn:

    accuracy    share of correct predictions; also the paper's (section 3: SST-2, MNLI,
                QQP)
    macro_f1    mean of F1 = 2 TP / (2 TP + FP + FN) over the classes that occur in gold
                or predictions
    mcc         Matthews correlation for any number of classes (Gorodkin 2004); 0 if gold
                or predictions have one class only
    f1          F1 of labels[1], for two classes only; 0 if it never occurs

    Of two classes, the values of instances are their influences on `f1` and `mcc`.
    """
    metrics = base.extra('sklearn.metrics')
    number = {label: index for index, label in enumerate(labels)}
    both = [np.array([number[label] for label in side]) for side in (gold, predicted)]
    right_N = (both[0] == both[1]).astype(np.float64)
    accuracy = float(right_N.mean())
    standard = {
        'accuracy': accuracy,
        'macro_f1': float(metrics.f1_score(*both, average='macro', zero_division=0)),
        'mcc': float(metrics.matthews_corrcoef(*both)) if np.ptp(both) else 0.0,
    }
    per_instance = {'accuracy': right_N}
    if len(labels) == 2:
        second = dict(labels=[1], average='macro', zero_division=0)
        standard['f1'] = float(metrics.f1_score(*both, **second))
        per_instance['f1'] = correlations.f1_influence(*(side == 1 for side in both))
        if len(right_N) > 1:
            per_instance['mcc'] = correlations.pearson_influence(*both)
    return base.Measured(standard, {'accuracy': accuracy}, per_instance)


def scores(gold, predicted):
    """Returns the Measured of one predicted number per instance, on any scale.

    spearman    correlation of ranks, with tied ranks averaged; also the paper's
    pearson     correlation of the numbers

    By scipy; 0 for predictions that are all equal. An instance's value is its influence
    on the correlation (measures/correlations.py): the mean over instances is the
    correlation, and an interval of the mean is one of the correlation.
    Raises ValueError for numbers that are not finite, and for gold scores that are all
    equal, for which the correlation is undefined.
    """
    gold_N, predicted_N = np.asarray(gold, np.float64), np.asarray(predicted, np.float64)
    for side, values_N in (('gold', gold_N), ('predicted', predicted_N)):
        bad_M = np.flatnonzero(~np.isfinite(values_N))
        if len(bad_M):
            raise ValueError(
                f'{side} scores: {len(bad_M)} of {len(values_N)} values are not finite, '
                f'the first is {values_N[bad_M[0]]} at instance {bad_M[0]}.'
            )
    if np.ptp(gold_N) == 0:
        raise ValueError(
            f'{len(gold_N)} gold scores are {gold_N[0]}: a correlation needs gold scores '
            'that are not all equal.'
        )
    per_instance = {
        'spearman': correlations.spearman_influence(gold_N, predicted_N),
        'pearson': correlations.pearson_influence(gold_N, predicted_N),
    }
    standard = {k: float(np.clip(x_N.mean(), -1, 1)) for k, x_N in per_instance.items()}
    return base.Measured(standard, {'spearman': standard['spearman']}, per_instance)


def cloze(rank_N, log_likelihood_N=None, is_open=False):
    """Returns the Measured of one masked word per instance.

    rank_N              rank of the correct word among all candidates, from 1; infinite
                        for a word that was not predicted
    log_likelihood_N    of the correct word, in nats; None: unknown
    is_open             whether the candidates are the whole vocabulary

    accuracy            share of rank 1; also the paper's
    mrr                 mean of 1 / rank, if all ranks are finite
    accuracy@10         share of ranks up to 10, for open candidates
    log_likelihood      mean
    """
    rank_N = np.asarray(rank_N, np.float64)
    values = {'accuracy': (rank_N == 1).astype(np.float64)}
    if np.isfinite(rank_N).all():
        values['mrr'] = 1 / rank_N
    if is_open:
        values[f'accuracy@{DEPTH}'] = (rank_N <= DEPTH).astype(np.float64)
    if log_likelihood_N is not None:
        values['log_likelihood'] = np.asarray(log_likelihood_N, np.float64)
    standard = {name: float(values_N.mean()) for name, values_N in values.items()}
    return base.Measured(standard, {'accuracy': standard['accuracy']}, values)
