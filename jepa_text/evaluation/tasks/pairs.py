"""Any pairs of texts with a score each: .jsonl, .tsv or .parquet, file or folder."""

from pathlib import Path

import numpy as np

from jepa_text.data import tables
from jepa_text.evaluation import task as tasks


def make(
    path,
    first='text_a',
    second='text_b',
    score='score',
    title='',
    positive=None,
    seed=0,
):
    """`first`, `second` and `score` name the fields.

    `positive`: pairs from this score on say the same (the highest quarter if None). With
    `score=''` every pair says the same, and as many are made that do not: each first
    text with the second of another pair, never of one with which its own pair hangs
    together by shared texts; the task is then to tell them apart.
    """
    title = title or Path(path).name.split('.')[0]
    fields = (first, second, score)
    train, test = tables.splits(path)
    sides = [_side(rows, fields, f'{title} in {path}') for rows in (train, test)]
    if sides[1] is None:
        sides = tasks.train_test_split(sides[0], seed)
    if not score:
        where = f'{title} in {path}'
        sides = [_with_negatives(side, seed, where) for side in sides]
        return tasks.Task(title, 'scores', 'spearman', *sides, positive=1.0)
    if positive is None:
        positive = float(np.quantile(sides[0].target, 0.75))
    return tasks.Task(title, 'scores', 'spearman', *sides, positive=positive)


def _side(rows, fields, where):
    if rows is None:
        return None
    first, second = (tables.column(rows, name, where) for name in fields[:2])
    values = np.ones(len(rows))
    if fields[2]:
        values = tasks.scores(tables.column(rows, fields[2], where), where)
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
