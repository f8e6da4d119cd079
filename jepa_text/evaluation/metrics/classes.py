"""Classification metrics: accuracy, macro-F1, binary F1 and Matthews correlation."""

import numpy as np

from jepa_text.evaluation.metrics import base


def measure(gold, predicted, labels):
    """Returns the Measured of one predicted class per instance.

    `labels` are all classes in order. By scikit-learn:

    accuracy    share of correct predictions; also the paper's (section 3: SST-2, MNLI,
                QQP)
    macro_f1    mean of F1 = 2 TP / (2 TP + FP + FN) over the classes that occur in gold
                or predictions
    mcc         Matthews correlation for any number of classes (Gorodkin 2004); 0 if gold
                or predictions have one class only
    f1          F1 of labels[1], for two classes only; 0 if it never occurs

    Raises ValueError for a class that is not among the labels.
    """
    metrics = base.extra('sklearn.metrics')
    base.check_lengths(gold, predicted, 'labels')
    number = {label: index for index, label in enumerate(labels)}
    if len(number) < len(labels) or not number:
        raise ValueError(f'labels={list(labels)} must be unique and not empty.')
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


def _numbers(labels, number, which):
    for index, label in enumerate(labels):
        if label not in number:
            raise ValueError(
                f'{which} label {index} is {label!r}, but must be one of: '
                f'{", ".join(map(repr, number))}.'
            )
    return np.array([number[label] for label in labels])
