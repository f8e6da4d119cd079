"""A held-out loss beside the unigram entropy, in words.

The entropy of the token frequencies is what a model scores that knows these and reads
nothing. A run whose held-out loss is not below it has learned nothing from contexts.
"""

import math

UNIGRAM = 'heldout/unigram_entropy'
PREFIX, LOSS = 'heldout/', '_loss'
KINDS = {'mlm': 'masked', 'clm': 'causal', 'mntp': 'masked (MNTP)', 'prefix': 'prefix'}
_MIN_GAP = 0.005  # nats: what two decimals show


def compared(loss, unigram):
    """The gap of two losses in nats, in words.

    >>> compared(5.0, 6.4), compared(7.05, 6.4), compared(6.4, 6.4)
    ('1.40 better than token frequencies', '0.65 worse than token frequencies', \
'no better than token frequencies')
    """
    if not (math.isfinite(loss) and math.isfinite(unigram)):
        return 'not comparable with token frequencies'
    gap = unigram - loss
    if abs(gap) < _MIN_GAP:
        return 'no better than token frequencies'
    return f'{abs(gap):.2f} {"better" if gap > 0 else "worse"} than token frequencies'


def is_better(loss, unigram):
    """Has a model with this held-out loss learned more than token frequencies?

    Not with a loss that is NaN, and not by less than two decimals show.
    """
    return unigram - loss >= _MIN_GAP


def kind_of(objective):
    """The kind of loss by which the section of an objective is judged, as the objective's
    `scorings` says first (training/evals/heldout.py).

    >>> kind_of({'name': 'hybrid', 'mlm': {'rate': 0.3}}), kind_of({'name': 'mntp'})
    ('mlm', 'mntp')
    """
    name = objective['name']
    if name == 'mixture':
        return kind_of(objective['parts'][0])
    if name == 'clm':
        return 'prefix' if objective.get('prefix') else 'clm'
    if name in ('mlm', 'mntp'):
        return 'mntp' if objective.get('shift', int(name == 'mntp')) else 'mlm'
    return kind_of({'name': 'mlm', **(objective.get('mlm') or {})})


def judged(values, kind='mlm'):
    """(kind, loss) of one held-out evaluation's values.

    The loss of that kind if it was measured, else the masked one, else any. None without
    one.
    """
    losses = {
        key.removeprefix(PREFIX).removesuffix(LOSS): value
        for key, value in values.items()
        if key.startswith(PREFIX) and key.endswith(LOSS) and key.count('/') == 1
    }
    known = [one for one in (kind, 'mlm', *losses) if one in losses]
    return (known[0], losses[known[0]]) if known else None


def sentences(values, kind='mlm'):
    """What one held-out evaluation says of a model that is judged by such a loss: a list
    of one sentence, and of a warning where it has learned nothing. Empty without both
    figures."""
    found = judged(values, kind)
    if found is None or UNIGRAM not in values:
        return []
    (kind, loss), unigram = found, values[UNIGRAM]
    said = [
        f'Held-out {KINDS.get(kind, kind)} loss: {loss:.3f} nats per token, '
        f'{compared(loss, unigram)} alone ({unigram:.3f}).'
    ]
    if not is_better(loss, unigram):
        said.append(
            'Warning: this model has learned nothing that token frequencies do not give. '
            'Train longer, or look at the data and schedule.peak.'
        )
    return said
