"""Unlabeled texts from a file, for geometry and for the words that vectors contain."""

from pathlib import Path

from jepa_text.data.corpora import reading
from jepa_text.data.sets import hub, tables
from jepa_text.evaluation.sets import task as tasks
from jepa_text.files import paths


def make(path, text='text', seed=0):
    """Makes a task of texts: the lines of a .txt file, or the field `text` of others.

    40 % are the test set, drawn by `seed`; duplicates are dropped.
    """
    where = f'texts of {path}'
    on_hub = hub.is_name(path)
    if not on_hub:
        path = paths.local('The path of the texts', path)
        if not Path(path).exists():
            raise FileNotFoundError(f'Text file {path} does not exist.')
    if not on_hub and tables.kind_of(path) == 'txt':
        texts = [line for _, line in reading.lines(Path(path)) if line.strip()]
    else:
        (texts,) = tables.columns(tables.splits(path)[0], [text], where)
    valid = tasks.examples(texts, where=where).first
    whole = tasks.Examples(list(dict.fromkeys(valid)))
    return tasks.Task(
        tables.stem(path), 'texts', '', *tasks.train_test_split(whole, seed)
    )
