"""Text similarity from files: pairs of texts with a score each.

Formats are those of labeled.py.
"""

import dataclasses

import numpy as np

from jepa_text.evaluation.sets import task as tasks
from jepa_text.evaluation.tasks import labeled


def make(
    path,
    first='text_a',
    second='text_b',
    score='score',
    title='',
    positive=None,
    seed=0,
    template='{first}\n{second}',
    group='',
    zero_shot=False,
):
    """Makes a similarity task.

    first, second, score    names of the fields. With score='' every pair is a positive,
                            and as many negatives are made: each first text with the
                            second text of a pair that is not connected with its own by
                            shared texts. The task is then to separate the two
    positive                pairs from this score on have the same meaning (None: the
                            highest quarter)
    template, group         as in labeled.py
    zero_shot               whether all rows are the test set if there is no file `test`
    """
    given = dict(kind='scores', group=group, title=title, seed=seed, zero_shot=zero_shot)
    task = labeled.make(path, first, score, second, template, **given)
    if not score:
        parts = {name: getattr(task, name) for name in tasks.SPLITS}
        made = {
            name: part and _with_negatives(part, seed, f'{task.name} in {path}')
            for name, part in parts.items()
        }
        return dataclasses.replace(task, **made, positive=1.0)
    if positive is None:
        known = task.train if len(task.train) else task.test
        positive = float(np.quantile(known.target, 0.75))
    return dataclasses.replace(task, positive=positive)


def _with_negatives(positives, seed, where):
    group, count = tasks.group_ids(positives), len(positives)
    order = np.random.default_rng(seed).permutation(count)
    negatives = []
    for i in range(count):
        # Start at a different place each time, to use all second texts equally often.
        others = (order[(i + step) % count] for step in range(count))
        other = next((j for j in others if group[j] != group[i]), None)
        if other is None:
            raise ValueError(
                f'{where}: among {count} pairs, all texts are paired with '
                f'{positives.first[i]!r}, directly or through other pairs, so there is '
                'no negative. Give pairs of more texts, or a score field.'
            )
        negatives.append(positives.second[other])
    target = np.repeat([1.0, 0.0], len(positives))
    return tasks.Examples(positives.first * 2, positives.second + negatives, target)
