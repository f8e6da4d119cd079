"""Learning curves of a study: means over seeds against steps and FLOPs."""

import numpy as np

from jepa_text.report import frequencies, plots
from jepa_text.running import metrics

MAXIMUM = 10  # lines per figure
SHOWN = (
    ('heldout/mlm_loss', 'Held-out masked loss', 'nats per token'),
    ('heldout/mntp_loss', 'Held-out masked loss, one position before', 'nats per token'),
)


def figures(study):
    """Returns figures of the held-out losses and of each probe during training; see
    `parts`."""
    members, complete, logs, drawn = study.members, study.complete, study.logs, []
    for key, title, label in (*SHOWN, *_probes(logs)):
        for what, part in parts(list(members)):
            runs = {arm: series(logs, complete.get(arm, ()), key) for arm in part}
            # Empty series are kept, so that a run has the same color in every figure.
            if not any(len(steps_N) for steps_N, _ in runs.values()):
                continue
            known = _unigram(logs) if key == SHOWN[0][0] else None
            spent = {
                arm: (study.first_spent[arm].flops(steps_N), values_SN)
                for arm, (steps_N, values_SN) in runs.items()
            }
            for shown, xlabel in ((runs, 'steps'), (spent, 'FLOPs')):
                drawn.append(plots.curves(shown, title + what, label, known, xlabel))
    return drawn


def parts(arms):
    """Splits arms into figures: [(suffix of the title, arms)].

    One figure shows all arms if there are at most MAXIMUM, else those with the same
    suffix, else MAXIMUM at a time. Arms keep their order, and so their colors.

    >>> parts(['a', 'b'])
    [('', ['a', 'b'])]
    >>> parts([f'{name}_{budget}' for budget in ('12k', '42k') for name in range(6)])[1]
    (', 42k', ['0_42k', '1_42k', '2_42k', '3_42k', '4_42k', '5_42k'])
    """
    if len(arms) <= MAXIMUM:
        return [('', arms)]
    suffixes = {}
    for arm in arms:
        suffixes.setdefault(arm.rpartition('_')[2], []).append(arm)
    if max(map(len, suffixes.values())) <= MAXIMUM and len(suffixes) < len(arms) / 2:
        return [(f', {suffix}', own) for suffix, own in suffixes.items()]
    size = -(-len(arms) // -(-len(arms) // MAXIMUM))  # parts of about equal size
    return [('', arms[at : at + size]) for at in range(0, len(arms), size)]


def series(logs, members, key):
    """Returns (steps [N], values [S, N]) of a metric of S members, at the steps that all
    have: none if the log of a member is missing, as a mean over the others would be that
    of a selection."""
    logged = [metrics.series(logs[one], key) for one in members]
    logged = [dict(zip(*map(np.ndarray.tolist, one))) for one in logged]
    steps = sorted(set.intersection(*map(set, logged))) if logged else []
    return np.array(steps), np.array([[one[step] for step in steps] for one in logged])


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
