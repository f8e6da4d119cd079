"""Unlabeled texts from a file, for geometry and for the words that vectors contain."""

from jepa_text.data.corpora import reading
from jepa_text.data.sets import tables
from jepa_text.evaluation.sets import task as tasks


def make(path, text='text', seed=0):
    """Makes a task of texts: the lines of a .txt file, or the field `text` of others.

    A folder keeps its splits; of a single file, 40 % are the test set, drawn by `seed`.
    Duplicates are dropped.
    """

    def read(file):
        if tables.kind_of(file) == 'txt':
            return [{text: line} for _, line in reading.lines(file) if line.strip()]
        return tables.read(file)

    def examples(rows, split):
        where = f'texts of {path}, {split}'
        (texts,) = tables.columns(rows, [text], where)
        return tasks.Examples(
            list(dict.fromkeys(tasks.examples(texts, where=where).first))
        )

    parts = tasks.make_splits(tables.splits(path, read), examples, seed)
    return tasks.Task(tables.stem(path), 'texts', '', **parts)
