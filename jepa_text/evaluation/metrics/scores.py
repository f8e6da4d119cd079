"""Regression metrics: Spearman and Pearson correlation of predicted and gold scores."""

import numpy as np
import scipy

from jepa_text.evaluation.metrics import base
from jepa_text.measures import correlations


def measure(gold, predicted):
    """Returns the Measured of one predicted number per instance, on any scale.

    spearman    correlation of ranks, with tied ranks averaged; also the paper's
    pearson     correlation of the numbers

    By scipy; 0 for predictions that are all equal. An instance's value is its influence
    on the correlation (measures/correlations.py): the mean over instances is the
    correlation, and an interval of the mean is one of the correlation.
    Raises ValueError for values that are not finite, fewer than two instances, and gold
    scores that are all equal, for which the correlation is undefined.
    """
    base.check_lengths(gold, predicted, 'scores')
    gold_N = np.asarray(gold, np.float64)
    predicted_N = np.asarray(predicted, np.float64)
    base.check_finite(gold_N, 'gold scores')
    base.check_finite(predicted_N, 'predicted scores')
    if gold_N.ndim != 1 or predicted_N.ndim != 1 or np.ptp(gold_N) == 0:
        raise ValueError(
            f'{len(gold_N)} gold scores between {gold_N.min()} and {gold_N.max()}, of '
            f'shape {gold_N.shape}: a correlation needs one number per instance, and '
            'gold scores that are not all equal.'
        )
    per_instance = {'spearman': np.zeros(len(gold_N)), 'pearson': np.zeros(len(gold_N))}
    standard = {'spearman': 0.0, 'pearson': 0.0}
    if np.ptp(predicted_N) > 0:
        per_instance = {
            'spearman': correlations.spearman_influence(gold_N, predicted_N),
            'pearson': correlations.pearson_influence(gold_N, predicted_N),
        }
        standard = {
            'spearman': float(scipy.stats.spearmanr(gold_N, predicted_N).statistic),
            'pearson': float(scipy.stats.pearsonr(gold_N, predicted_N).statistic),
        }
    return base.Measured(standard, {'spearman': standard['spearman']}, per_instance)
