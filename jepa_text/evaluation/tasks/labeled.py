"""Any texts with a class each: a .jsonl, .tsv or .parquet file, or a folder of them."""

from pathlib import Path

from jepa_text.data import tables
from jepa_text.evaluation import task as tasks


def make(path, text='text', label='label', title='', seed=0):
    """`text` and `label` name the fields, `title` the task in tables (the file's name).

    A folder with train and dev (or validation, test) keeps its split; of one file, 40 %
    are the test set, dealt by `seed`.
    """
    title = title or Path(path).name.split('.')[0]
    train, test = tables.splits(path)
    sides = [_side(rows, text, label, f'{title} in {path}') for rows in (train, test)]
    if sides[1] is None:
        sides = tasks.train_test_split(sides[0], seed)
    return tasks.Task(title, 'labels', 'accuracy', *sides)


def _side(rows, text, label, where):
    if rows is None:
        return None
    labels = tasks.labels(tables.column(rows, label, where), where)
    return tasks.examples(tables.column(rows, text, where), None, labels, where)
