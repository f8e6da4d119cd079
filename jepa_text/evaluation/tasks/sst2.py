"""SST-2 (Socher et al. 2013): is a film review's sentence positive? GLUE's files."""

from jepa_text.data import tables
from jepa_text.evaluation import task as tasks


def make(path, title=''):
    """From a folder with train and dev (or validation): `sentence`, `label`; `title`
    names the task."""
    sides = []
    for rows, side in zip(
        tables.splits(path, test=('dev', 'validation')), ('train', 'dev')
    ):
        where = f'sst2 {side} in {path}'
        if rows is None:
            raise ValueError(f'{where}: there is no such file.')
        labels = tasks.labels(tables.column(rows, 'label', where), where)
        texts = tables.column(rows, 'sentence', where)
        sides.append(tasks.examples(texts, None, labels, where))
    return tasks.Task(title or 'sst2', 'labels', 'accuracy', *sides)
