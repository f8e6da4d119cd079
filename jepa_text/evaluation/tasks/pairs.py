"""Text similarity from files: pairs of texts with a score each.

Formats are .jsonl, .tsv, .csv and .parquet.
"""

import numpy as np

from jepa_text.data.sets import tables
from jepa_text.evaluation.sets import targets
from jepa_text.evaluation.sets import task as tasks


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
    title = title or tables.stem(path)
    fields, where = (first, second, score, group), f'{title} in {path}'
    targets.check_template(template, title)
    parts = tasks.make_splits(
        tables.splits(path, zero_shot=zero_shot),
        lambda rows, _: _examples(rows, fields, where),
        seed,
        zero_shot,
    )
    parts['template'] = template
    if not score:
        for name in ('train', 'validation', 'test'):
            if parts[name] is not None:
                parts[name] = _with_negatives(parts[name], seed, where)
        return tasks.Task(title, 'scores', 'spearman', **parts, positive=1.0)
    if positive is None:
        known = parts['train'] if len(parts['train']) else parts['test']
        positive = float(np.quantile(known.target, 0.75))
    return tasks.Task(title, 'scores', 'spearman', **parts, positive=positive)


def _examples(rows, fields, where):
    first, second = (tables.column(rows, name, where) for name in fields[:2])
    values = np.ones(len(rows))
    if fields[2]:
        values = targets.scores(tables.column(rows, fields[2], where), where)
    group = tables.column(rows, fields[3], where) if fields[3] else None
    return tasks.examples(first, second, values, where, group)


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
