"""Probes of a task's vectors: classification, similarity, word recovery.

    evaluate(task, sides)     -> values with intervals, and one value per test example
    baselines(task)           -> results of constant predictions

`sides` are the vectors of the training and the test split (results.split).
"""

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.evaluation.controls import lexical, words
from jepa_text.evaluation.sets.task import classes, identifying_texts
from jepa_text.measures import correlations, probes, statistics
from jepa_text.measures.statistics import Interval

# The name of the keys of dependent examples among the values per example.
KEYS = 'keys of examples'


def evaluate(task, sides, seed=0, token_labels=None, answered=None):
    """({metric: Interval}, {metric: one value per test example}).

    The values per example are for paired tests; their mean is the metric. They are 0 or 1
    for accuracy, the AUC of each text, or the influence of an example on a metric that is
    not a mean; KEYS are the columns of texts or groups by which examples depend on each
    other. `token_labels` are (train, test) of lexical.paper_token_labels, for the paper's
    probe. `answered` are (answers, cosines) that replace those of a probe of the vectors
    (baselines.probe). Metrics that are undefined for these texts are omitted.
    """
    values, per_example, keys = {}, {}, identifying_texts(task.test)
    if task.kind == 'labels':
        answers_N, _ = answered or _classify(task, sides, seed)
        per_example = _per_example(task, answers_N)
        values = {
            metric: statistics.mean_interval(values_N, SCALES[metric], keys)
            for metric, values_N in per_example.items()
        }
    elif task.kind == 'scores':
        answered = answered or _regress(task, sides)
        values, per_example = _similarity(task, *answered, keys)
    if recovery := _word_recovery(task, sides, seed):
        recovered, per_example['word_recovery_auc'] = recovery
        values['word_recovery_auc'] = recovered
        majority = 1.0
        if task.kind == 'labels':
            majority = float(np.mean(task.test.target == _majority_label(task)))
        if majority < 1:
            values['balance'] = lexical.balance_interval(
                values['probe_accuracy'], majority, recovered, 0.5
            )
    if token_labels is not None and 'probe_accuracy' in values:
        values |= _paper_gap(sides, token_labels, values['probe_accuracy'], seed)
    if values:
        per_example[KEYS] = keys
    return values, per_example


def _classify(task, sides, seed):
    """Returns (predicted classes, None) of a probe."""
    train, test = (
        first_ND if second_ND is None else probes.pair_features(first_ND, second_ND)
        for first_ND, second_ND in sides
    )
    probe = probes.linear_probe(train, task.train.target, test, task.test.target, seed)
    return np.array(probe['predicted']), None


def _per_example(task, predicted_N):
    """{metric: one value per test example} of predicted classes."""
    both = [np.array([*map(str, side)]) for side in (predicted_N, task.test.target)]
    values = {'probe_accuracy': (both[0] == both[1]).astype(np.float64)}
    if second := _second_class(task):
        influence = INFLUENCES[task.metric](*(side == second for side in both))
        values[f'probe_{task.metric}'] = influence
    return values


def _second_class(task):
    """The class of the F1 or MCC, as text: the second of two, as in `evaluate`;
    '' for other metrics, and for more classes, whose values per example are unknown."""
    names = classes(task) if task.metric in INFLUENCES else ()
    return str(names[1]) if len(names) == 2 else ''


def _regress(task, sides):
    """Returns (predicted scores, cosines) of pairs."""
    width = sides[0][0].shape[1]
    train_ND, test_ND = (probes.pair_features(*pair)[:, 2 * width :] for pair in sides)
    predicted_N = probes.ridge(train_ND, task.train.target).predict(test_ND)
    return predicted_N, probes.pair_cosine(*sides[1])


def _similarity(task, predicted_N, similarity_N, keys):
    human_N = task.test.target
    overlap_N = words.overlap(task.test.first, task.test.second)

    def interval(values_N):
        return statistics.mean_interval(values_N, 'correlation', keys)

    influence_N = correlations.spearman_influence(similarity_N, human_N)
    partial_N = correlations.partial_spearman_influence(similarity_N, human_N, overlap_N)
    values = {
        'cosine_spearman': interval(influence_N),
        'cosine_given_overlap': interval(partial_N),
        'overlap_spearman': interval(correlations.spearman_influence(overlap_N, human_N)),
        'probe_spearman': interval(correlations.spearman_influence(predicted_N, human_N)),
    }
    return values, {'cosine_spearman': influence_N}


def _word_recovery(task, sides, seed):
    """(Interval, AUC of each text); None if the texts share too few content words."""
    (train_ND, _), (test_ND, _) = sides
    train, test = task.train.first, task.test.first
    try:
        return lexical.word_recovery(train_ND, train, test_ND, test, seed=seed)
    except ValueError as error:
        if 'content word' in str(error):
            return None
        raise


def _paper_gap(sides, token_labels, semantic, seed):
    """Accuracy of the paper's token probe, and its gap to the semantic probe: the balance
    of arXiv 2606.05173."""
    (train_ND, _), (test_ND, _) = sides
    (train_labels, train_valid), (test_labels, test_valid) = token_labels
    known = np.isin(test_labels, train_labels[train_valid]) & test_valid
    if len(np.unique(train_labels[train_valid])) < 2 or not known.any():
        return {}
    probe = probes.linear_probe(
        train_ND[train_valid],
        train_labels[train_valid],
        test_ND[known],
        test_labels[known],
        seed,
    )
    token = Interval(probe['accuracy'], probe['low'], probe['high'])
    # Not corrected for the different numbers of classes, as `balance` is.
    gap = lexical.balance_interval(semantic, 0.0, token, 0.0)
    return {'paper_token_accuracy': token, 'paper_probe_gap': gap}


def _majority_label(task):
    """The most frequent test label."""
    labels, counts = np.unique(task.test.target, return_counts=True)
    return labels[counts.argmax()]


def baselines(task):
    """{control: {metric: one value per test example}} of constant predictions.

    Predicts the most frequent test label, which is optimal among predictions that ignore
    the texts. For F1, whose value may then be 0, also predicts the second class.
    The mean over examples is the value of the control.
    """
    if task.kind != 'labels':
        return {}
    size, largest = len(task.test), _majority_label(task)
    predicted = {controls.LARGEST: _per_example(task, np.full(size, largest))}
    second = _second_class(task)
    if second and task.metric == 'f1' and str(largest) != second:
        always = _per_example(task, np.full(size, second))
        predicted[controls.ALWAYS_SECOND] = {'probe_f1': always['probe_f1']}
    return predicted


INFLUENCES = {'f1': correlations.f1_influence, 'mcc': correlations.pearson_influence}
# Scales of the intervals (measures/statistics.py).
SCALES = {'probe_accuracy': 'share', 'probe_f1': 'share', 'probe_mcc': 'correlation'}
