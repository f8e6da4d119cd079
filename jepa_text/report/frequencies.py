"""Comparison of a held-out loss with the unigram entropy, as sentences.

The entropy of the token frequencies is the loss of a model that knows only them and reads
no context. A run whose held-out loss is not lower has learned nothing from contexts.
"""

import math

UNIGRAM = 'heldout/unigram_entropy'
PREFIX = 'heldout/'
KINDS = {'mlm': 'masked', 'clm': 'causal', 'mntp': 'masked (MNTP)'}
_MIN_GAP = 0.005  # nats: a difference in the second decimal


def compared(loss, unigram):
    """Returns the difference of a loss from the unigram entropy, both in nats, in words.

    >>> compared(5.0, 6.4), compared(7.05, 6.4)
    ('1.40 better than token frequencies', '0.65 worse than token frequencies')
    >>> compared(6.4, 6.4)
    'no better than token frequencies'
    """
    if not (math.isfinite(loss) and math.isfinite(unigram)):
        return 'not comparable with token frequencies'
    gap = unigram - loss
    if abs(gap) < _MIN_GAP:
        return 'no better than token frequencies'
    return f'{abs(gap):.2f} {"better" if gap > 0 else "worse"} than token frequencies'


def sentences(values, kind):
    """Returns a sentence on the values of a held-out evaluation, and a warning if the
    model has learned nothing from contexts; [] if the loss or the unigram entropy was not
    measured.

    `kind` is the name of the loss that the objective is judged by, or None (`judged_by`
    in objectives/base.py).
    """
    name = f'{PREFIX}{kind}_loss'
    if name not in values or UNIGRAM not in values:
        return []
    loss, unigram = values[name], values[UNIGRAM]
    lines = [
        f'Held-out {KINDS.get(kind, kind)} loss: {loss:.3f} nats per token, '
        f'{compared(loss, unigram)} alone ({unigram:.3f}).'
    ]
    if not unigram - loss >= _MIN_GAP:  # also if the loss is NaN
        lines.append(
            'Warning: this model has learned nothing beyond token frequencies. Train '
            'longer, or check the data and schedule.peak.'
        )
    return lines
