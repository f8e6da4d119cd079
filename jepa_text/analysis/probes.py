"""What can be read off the vectors of a task: classes, similarity, words.

    answers(task, vectors)    -> values with intervals, and one value a test example
    baselines(task)           -> what needs no vector

`vectors` are results.Vectors.
"""

import contextlib
import math

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.evaluation.controls import lexical, words
from jepa_text.measures import correlations, probes, ridge, statistics
from jepa_text.measures.statistics import Interval


def answers(task, found, seed=0, token_labels=None):
    """({metric: Interval}, {metric: one value a test example}).

    The second are for paired tests: their mean is the metric. Right or wrong, or what an
    example does to a metric that is no mean (its influence), or the AUC of a text.
    `token_labels` are (train, test) of lexical.paper_token_labels, for the paper's
    probe. A metric that these texts cannot give is left out.
    """
    values, single = {}, {}
    if task.kind == 'labels':
        values, single = _classified(task, found, seed)
    elif task.kind == 'scores':
        values, single = _compared(task, found)
    with contextlib.suppress(_TooFewWords):
        recovered, single['word_recovery_auc'] = _words(task, found, seed)
        values['word_recovery_auc'] = recovered
        majority = _majority(task) if task.kind == 'labels' else 1.0
        if majority < 1:
            values['balance'] = lexical.balance_interval(
                values['probe_accuracy'], majority, recovered, 0.5
            )
    if token_labels is not None and 'probe_accuracy' in values:
        values |= _of_the_paper(found, token_labels, values['probe_accuracy'], seed)
    return values, single


def _classified(task, found, seed):
    train, test = (
        first_ND if second_ND is None else probes.pair_features(first_ND, second_ND)
        for first_ND, second_ND in found.sides
    )
    probe = probes.linear_probe(train, task.train.target, test, task.test.target, seed)
    said_N = np.array(probe['said'])
    values = {'probe_accuracy': _interval(probe, 'accuracy')}
    if task.metric in SCORES:
        values[f'probe_{task.metric}'] = statistics.bootstrap_interval(
            SCORES[task.metric], said_N, task.test.target, resamples=500, seed=seed
        )
    return values, _one_each(task, said_N)


def _interval(found, name):
    return Interval(found[name], found['low'], found['high'])


def _one_each(task, said_N):
    """{metric: one value a test example} of what was said of their classes."""
    right_N = said_N == task.test.target
    single = {'probe_accuracy': right_N.astype(np.float64)}
    if task.metric in SCORES:
        influence = INFLUENCES[task.metric](said_N, task.test.target)
        single[f'probe_{task.metric}'] = influence
    return single


def _compared(task, found):
    human_N = task.test.target
    similarity_N = probes.pair_cosine(*found.sides[1])
    overlap_N = words.overlap(task.test.first, task.test.second)
    width = found.train_ND.shape[1]
    train_ND, test_ND = (
        probes.pair_features(*pair)[:, 2 * width :] for pair in found.sides
    )
    said_N = ridge.fit(train_ND, task.train.target).predict(test_ND)[:, 0]

    def interval(statistic, *samples):
        return statistics.bootstrap_interval(statistic, *samples, resamples=300)

    values = {
        'cosine_spearman': interval(correlations.spearman, similarity_N, human_N),
        'cosine_given_overlap': interval(
            correlations.partial_spearman, similarity_N, human_N, overlap_N
        ),
        'overlap_spearman': interval(correlations.spearman, overlap_N, human_N),
    }
    if task.positive is not None:
        positive_N = human_N >= task.positive
        high = lexical.high_overlap(similarity_N, positive_N, overlap_N)
        if math.isfinite(high['auc']):
            values['high_overlap_auc'] = _interval(high, 'auc')
    values['probe_spearman'] = interval(correlations.spearman, said_N, human_N)
    influence_N = correlations.spearman_influence(similarity_N, human_N)
    return values, {'cosine_spearman': influence_N}


class _TooFewWords(ValueError):
    """The texts have too few content words in common."""


def _words(task, found, seed):
    try:
        auc = lexical.word_recovery(
            found.train_ND, task.train.first, found.test_ND, task.test.first, seed=seed
        )
    except ValueError as error:
        if 'content word' in str(error):
            raise _TooFewWords(str(error)) from error
        raise
    return _interval(auc, 'auc'), auc['values']


def _of_the_paper(found, token_labels, semantic, seed):
    (train_labels, train_kept), (test_labels, test_kept) = token_labels
    known = np.isin(test_labels, train_labels[train_kept]) & test_kept
    if len(np.unique(train_labels[train_kept])) < 2 or not known.any():
        return {}
    probe = probes.linear_probe(
        found.train_ND[train_kept],
        train_labels[train_kept],
        found.test_ND[known],
        test_labels[known],
        seed,
    )
    token = _interval(probe, 'accuracy')
    gap = lexical.paper_probe_gap(semantic.value, token.value)
    reach = math.hypot(semantic.high - semantic.low, token.high - token.low) / 2
    return {
        'paper_token_accuracy': token,
        'paper_probe_gap': Interval(gap, gap - reach, gap + reach),
    }


def _majority(task):
    """The most that one answer to all reaches: the share of the commonest test label."""
    return float(np.mean(task.test.target == _commonest(task)))


def _commonest(task):
    labels, counts = np.unique(task.test.target, return_counts=True)
    return labels[counts.argmax()]


def baselines(task):
    """{control: {metric: one value a test example}} of what needs no vector.

    One class for all: the commonest of the test labels, as no answer that ignores the
    texts reaches more; and, as the F1 of that may be 0, the class that F1 is of. Their
    means are what a control reaches.
    """
    if task.kind != 'labels':
        return {}
    size, commonest = len(task.test), _commonest(task)
    found = {controls.LARGEST: _one_each(task, np.full(size, commonest))}
    if task.metric == 'f1' and commonest != '1':
        always = _one_each(task, np.full(size, '1'))
        found[controls.ALWAYS_ONE] = {'probe_f1': always['probe_f1']}
    return found


def f1(said_N, truth_N):
    """2 TP / (2 TP + FP + FN) of the class '1'; 0 where it is never said nor true.

    >>> f1(np.array(['1', '1', '0']), np.array(['1', '0', '0'])).round(3).item()
    0.667
    """
    said_N, truth_N = said_N == '1', truth_N == '1'
    total = said_N.sum() + truth_N.sum()
    return 2 * np.sum(said_N & truth_N) / total if total else np.float64(0.0)


def matthews(said_N, truth_N):
    """Matthews correlation of two classes: Pearson of the indicators; 0 if one is all.

    >>> round(matthews(np.array(['1', '1', '0', '0']), np.array(['1', '0', '0', '0'])), 3)
    0.577
    """
    return correlations.pearson(said_N == '1', truth_N == '1')


def f1_influence(said_N, truth_N):
    """One value an example, with `f1` as their mean; see correlations.py.

    >>> f1_influence(np.array(['1', '1', '0']), np.array(['1', '0', '0'])).round(3)
    array([1.333, 0.   , 0.667])
    """
    value = f1(said_N, truth_N)
    said_N, truth_N = said_N == '1', truth_N == '1'
    counts_N = said_N.astype(np.float64) + truth_N
    share = counts_N.mean() or 1.0
    return value + (2.0 * (said_N & truth_N) - value * counts_N) / share


def matthews_influence(said_N, truth_N):
    """One value an example, with `matthews` as their mean.

    >>> matthews_influence(np.array(['1', '0']), np.array(['1', '0'])).tolist()
    [1.0, 1.0]
    """
    value = matthews(said_N, truth_N)
    one_N, two_N = ((x_N == '1').astype(np.float64) for x_N in (said_N, truth_N))
    one_N, two_N = ((x - x.mean()) / (x.std() or 1.0) for x in (one_N, two_N))
    return value + one_N * two_N - value * (one_N**2 + two_N**2) / 2


SCORES = {'f1': f1, 'mcc': matthews}
INFLUENCES = {'f1': f1_influence, 'mcc': matthews_influence}
