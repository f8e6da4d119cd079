"""Cloze metrics: accuracy, mean reciprocal rank and log-likelihood of masked words."""

import numpy as np

from jepa_text.evaluation.metrics import base

DEPTH = 10


def measure(rank_N, log_likelihood_N=None, is_open=False):
    """Returns the Measured of one masked word per instance.

    rank_N              rank of the correct word among all candidates, from 1; infinite
                        for a word that was not predicted
    log_likelihood_N    of the correct word, in nats; None: unknown
    is_open             whether the candidates are the whole vocabulary

    accuracy            share of rank 1; also the paper's
    mrr                 mean of 1 / rank, if all ranks are finite
    accuracy@10         share of ranks up to 10, for open candidates
    log_likelihood      mean

    Raises ValueError for ranks below 1 and log-likelihoods that are not finite.
    """
    rank_N = np.asarray(rank_N, np.float64)
    if not len(rank_N) or np.isnan(rank_N).any() or rank_N.min() < 1:
        raise ValueError(
            f'{len(rank_N)} ranks were given: at least one is needed, each at least 1.'
        )
    values = {'accuracy': (rank_N == 1).astype(np.float64)}
    if np.isfinite(rank_N).all():
        values['mrr'] = 1 / rank_N
    if is_open:
        values[f'accuracy@{DEPTH}'] = (rank_N <= DEPTH).astype(np.float64)
    if log_likelihood_N is not None:
        base.check_lengths(rank_N, log_likelihood_N, 'ranks')
        base.check_finite(np.asarray(log_likelihood_N), 'log-likelihoods')
        values['log_likelihood'] = np.asarray(log_likelihood_N, np.float64)
    standard = {name: float(values_N.mean()) for name, values_N in values.items()}
    return base.Measured(standard, {'accuracy': standard['accuracy']}, values)
