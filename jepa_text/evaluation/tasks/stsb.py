"""STS-B (Cer et al. 2017): how alike are two sentences, 0 to 5? Spearman correlation."""

from jepa_text.data import tables
from jepa_text.evaluation import task as tasks


def make(path, title=''):
    """From a folder with train and dev (or validation): `score`, or `label` of Hugging
    Face; `title` names the task."""
    sides = []
    for rows, side in zip(
        tables.splits(path, test=('dev', 'validation')), ('train', 'dev')
    ):
        where = f'stsb {side} in {path}'
        if not rows:
            raise ValueError(f'{where}: there are no such rows.')
        field = 'score' if 'score' in rows[0] else 'label'
        values = tasks.scores(tables.column(rows, field, where), where)
        first = tables.column(rows, 'sentence1', where)
        second = tables.column(rows, 'sentence2', where)
        sides.append(tasks.examples(first, second, values, where))
    return tasks.Task(title or 'stsb', 'scores', 'spearman', *sides, positive=4.0)
