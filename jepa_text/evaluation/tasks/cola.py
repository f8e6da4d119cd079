"""CoLA (Warstadt et al. 2019): is it an English sentence? Matthews correlation."""

from jepa_text.data import tables
from jepa_text.evaluation import task as tasks

HEADER = ('source', 'label', 'star', 'sentence')  # GLUE's TSV has no header line


def make(path, title=''):
    """From a folder with train and dev (or validation); `title` names the task."""
    found = tables.splits(path, test=('dev', 'validation'), header=HEADER)
    sides = []
    for rows, side in zip(found, ('train', 'dev')):
        where = f'cola {side} in {path}'
        if rows is None:
            raise ValueError(f'{where}: there is no such file.')
        labels = tables.column(rows, 'label', where)
        labels = tasks.labels(labels, where, known=('0', '1'))
        texts = tables.column(rows, 'sentence', where)
        sides.append(tasks.examples(texts, None, labels, where))
    return tasks.Task(title or 'cola', 'labels', 'mcc', *sides)
