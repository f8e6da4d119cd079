"""Any pairs of texts with a score each: .jsonl, .tsv, .csv or .parquet."""

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
):
    """`first`, `second` and `score` name the fields; `template` makes one text of both.

    `positive`: pairs from this score on say the same (the highest quarter if None). With
    `score=''` every pair says the same, and as many are made that do not: each first
    text with the second of another pair, never of one with which its own pair hangs
    together by shared texts; the task is then to tell them apart.
    """
    title = title or tables.stem(path)
    fields, where = (first, second, score), f'{title} in {path}'
    targets.check_template(template, title)
    made = tasks.sides(
        tables.splits(path), lambda rows, _: _side(rows, fields, where), seed
    )
    made['template'] = template
    if not score:
        for name in ('train', 'validation', 'test'):
            if made[name] is not None:
                made[name] = _with_negatives(made[name], seed, where)
        return tasks.Task(title, 'scores', 'spearman', **made, positive=1.0)
    if positive is None:
        positive = float(np.quantile(made['train'].target, 0.75))
    return tasks.Task(title, 'scores', 'spearman', **made, positive=positive)


def _side(rows, fields, where):
    first, second = (tables.column(rows, name, where) for name in fields[:2])
    values = np.ones(len(rows))
    if fields[2]:
        values = targets.scores(tables.column(rows, fields[2], where), where)
    return tasks.examples(first, second, values, where)


def _with_negatives(side, seed, where):
    group, count = tasks.roots(side), len(side)
    order = np.random.default_rng(seed).permutation(count)
    negatives = []
    for i in range(count):
        # From another place for each, so that all second texts are used about as often.
        others = (order[(i + step) % count] for step in range(count))
        other = next((j for j in others if group[j] != group[i]), None)
        if other is None:
            raise ValueError(
                f'{where}: there is no text that {side.first[i]!r} is not paired with, '
                f'itself or by way of others, among {count} pairs. Give pairs of more '
                'texts, or a field of scores.'
            )
        negatives.append(side.second[other])
    target = np.repeat([1.0, 0.0], len(side))
    return tasks.Examples(side.first * 2, side.second + negatives, target)
