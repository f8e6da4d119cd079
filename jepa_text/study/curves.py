"""Learning curves of a study: the mean over seeds, against steps, tokens and FLOPs."""

import numpy as np

from jepa_text.report import bands, frequencies
from jepa_text.running import metrics

MAXIMUM = 10  # lines that a figure has room for
SHOWN = (
    ('heldout/mlm_loss', 'Held-out masked loss', 'nats per token'),
    ('heldout/mntp_loss', 'Held-out masked loss, one position before', 'nats per token'),
)
AXES = (('steps', 'steps'), ('tokens read', 'tokens'), ('FLOPs', 'flops'))


def figures(members, logs, budgets):
    """Figures of the held-out losses, and of each probe beside the steps.

    `members` {arm: [its members]}, `logs` {member: its metrics}, `budgets` {arm: Budget}.
    Arms that end in one word after the last _ share figures, as a budget is named so.
    Against tokens only where they are not so many times the steps.
    """
    drawn, axes = [], axes_of(budgets)
    for key, title, label in (*SHOWN, *_probes(logs)):
        for what, part in parts(list(members)):
            found = {arm: series(logs, members[arm], key) for arm in part}
            found = {arm: one for arm, one in found.items() if len(one[0])}
            if not found:
                continue
            known = _unigram(logs) if key == SHOWN[0][0] else None
            for xlabel, kind in axes:
                runs = {
                    arm: (_spent(budgets[arm], kind, steps_N), values_SN)
                    for arm, (steps_N, values_SN) in found.items()
                }
                drawn.append(bands.bands(runs, title + what, label, xlabel, known))
    return drawn


def axes_of(budgets):
    """What curves are drawn against: [(its label, which of Budget)]."""
    sizes = {span[2] for one in budgets.values() for span in one.spans}
    return [one for one in AXES if one[1] != 'tokens' or len(sizes) > 1]


def parts(arms):
    """[(what they are, arms)] that one figure shows: all, or those of each last word, or
    MAXIMUM at a time. Arms of one word are in one order, and so in the same colors.

    >>> parts(['a', 'b'])
    [('', ['a', 'b'])]
    >>> parts([f'{name}_{budget}' for budget in ('12k', '42k') for name in range(6)])[1]
    (', 42k', ['0_42k', '1_42k', '2_42k', '3_42k', '4_42k', '5_42k'])
    """
    if len(arms) <= MAXIMUM:
        return [('', arms)]
    words = {}
    for arm in arms:
        words.setdefault(arm.rpartition('_')[2], []).append(arm)
    if max(map(len, words.values())) <= MAXIMUM and len(words) < len(arms) / 2:
        return [(f', {word}', own) for word, own in words.items()]
    size = -(-len(arms) // -(-len(arms) // MAXIMUM))  # so that the last is no single one
    return [('', arms[at : at + size]) for at in range(0, len(arms), size)]


def series(logs, members, key):
    """(steps [N], values [S, N]) of a metric of several members, at the steps that all of
    them have that have it at all."""
    found = [metrics.series(logs[one], key) for one in members if logs.get(one)]
    found = [dict(zip(*map(np.ndarray.tolist, one))) for one in found if len(one[0])]
    if not found:
        return np.zeros(0), np.zeros((0, 0))
    steps = sorted(set.intersection(*map(set, found)))
    return np.array(steps), np.array([[one[step] for step in steps] for one in found])


def _probes(logs):
    keys = dict.fromkeys(key for log in logs.values() for row in log for key in row)
    for key in keys:
        if key.startswith('probe/') and key.endswith('/balanced'):
            name = key.split('/')[1]
            yield key, f'Linear probe of {name}', 'balanced accuracy'


def _unigram(logs):
    values = {row.get(frequencies.UNIGRAM) for log in logs.values() for row in log}
    values -= {None}
    return {'unigram entropy': values.pop()} if len(values) == 1 else None


def _spent(budget, kind, steps_N):
    return steps_N if kind == 'steps' else getattr(budget, kind)(steps_N)
