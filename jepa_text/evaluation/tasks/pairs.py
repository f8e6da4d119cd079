"""Text similarity from files: pairs of texts with a score each.

Formats are those of labeled.py.
"""

import dataclasses

import numpy as np

from jepa_text.evaluation.tasks import labeled


def make(
    path,
    first='text_a',
    second='text_b',
    score='score',
    positive=None,
    seed=0,
    template='{first}\n{second}',
    zero_shot=False,
):
    """Makes a similarity task.

    first, second, score    names of the fields
    positive                pairs from this score on have the same meaning (None: the
                            highest quarter)
    template                as in labeled.py
    zero_shot               whether all rows are the test set if there is no file `test`
    """
    given = dict(kind='scores', seed=seed, zero_shot=zero_shot)
    task = labeled.make(path, first, score, second, template, **given)
    if positive is None:
        known = task.train if len(task.train) else task.test
        positive = float(np.quantile(known.target, 0.75))
    return dataclasses.replace(task, positive=positive)
