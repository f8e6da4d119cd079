"""Classes: accuracy, macro-F1, F1 of the second of two, Matthews' correlation."""

import numpy as np

from jepa_text.evaluation.metrics import base


def measure(gold, predicted, labels):
    """Measured of one class a text. `labels`: all classes there are, in their order.

    accuracy    share that is right; also the paper's (§3, SST-2, MNLI, QQP)
    macro_f1    mean of F1 = 2 TP / (2 TP + FP + FN) over classes that occur, in gold or
                predictions
    mcc         Matthews' correlation, of any number of classes (Gorodkin 2004); 0 where
                all of gold or all predictions are one class
    f1          of labels[1], with two classes only; 0 where it never occurs

    By scikit-learn. Raises ValueError for a class that is not among the labels.
    """
    metrics = base.extra('sklearn.metrics')
    base.check_lengths(gold, predicted, 'labels')
    number = {label: index for index, label in enumerate(labels)}
    if len(number) < len(labels) or not number:
        raise ValueError(f'labels={list(labels)}: classes differ, and there are some.')
    gold_N = _numbers(gold, number, 'gold')
    predicted_N = _numbers(predicted, number, 'predicted')
    right_N = (gold_N == predicted_N).astype(np.float64)
    accuracy = float(metrics.accuracy_score(gold_N, predicted_N))
    both = gold_N, predicted_N
    standard = {
        'accuracy': accuracy,
        'macro_f1': float(metrics.f1_score(*both, average='macro', zero_division=0)),
        'mcc': float(metrics.matthews_corrcoef(*both)) if np.ptp(both) else 0.0,
    }
    if len(number) == 2:
        second = dict(labels=[1], average='macro', zero_division=0)
        standard['f1'] = float(metrics.f1_score(*both, **second))
    return base.Measured(standard, {'accuracy': accuracy}, {'accuracy': right_N})


def _numbers(given, number, which):
    for index, label in enumerate(given):
        if label not in number:
            raise ValueError(
                f'{which} label {index} is {label!r}, but must be one of '
                f'{", ".join(map(repr, number))}.'
            )
    return np.array([number[label] for label in given])
