"""MRPC (Dolan & Brockett 2005): do two sentences say the same? F1, as in GLUE."""

from jepa_text.data import tables
from jepa_text.evaluation import task as tasks

# GLUE's own TSV, then Hugging Face's names.
FIELDS = (('#1 String', '#2 String', 'Quality'), ('sentence1', 'sentence2', 'label'))


def make(path, title=''):
    """From a folder with train and dev (or validation); `title` names the task."""
    sides = []
    for rows, side in zip(
        tables.splits(path, test=('dev', 'validation')), ('train', 'dev')
    ):
        where = f'mrpc {side} in {path}'
        if not rows:
            raise ValueError(f'{where}: there are no such rows.')
        fields = FIELDS[0] if FIELDS[0][0] in rows[0] else FIELDS[1]
        first, second, labels = (tables.column(rows, name, where) for name in fields)
        labels = tasks.labels(labels, where, known=('0', '1'))
        sides.append(tasks.examples(first, second, labels, where))
    return tasks.Task(title or 'mrpc', 'labels', 'f1', *sides, positive='1')
