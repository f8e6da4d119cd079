"""Words at a mask: how often the right one is first, and how likely it is."""

import numpy as np

from jepa_text.evaluation.metrics import base

DEPTH = 10


def measure(rank_N, log_likelihood_N=None, is_open=False):
    """Measured of one answer an instance.

    rank_N              of the right word among all that were asked for, from 1
    log_likelihood_N    of the right word, in nats; None: not known
    is_open             was the whole vocabulary asked for?

    accuracy            share of the first rank; also the paper's
    mrr                 mean of 1 / rank, where all are finite
    accuracy@10         share of the first ten ranks, of the whole vocabulary
    log_likelihood      mean

    An infinite rank is that of a word that was not named. Raises ValueError for ranks
    below 1 and log-likelihoods that are not finite.
    """
    rank_N = np.asarray(rank_N, np.float64)
    if not len(rank_N) or np.isnan(rank_N).any() or rank_N.min() < 1:
        raise ValueError(f'{len(rank_N)} ranks: there must be some, each from 1 on.')
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
