"""Any text file, unlabeled: geometry, and which words a vector keeps."""

from pathlib import Path

from jepa_text.data.corpora import reading
from jepa_text.data.sets import hub, tables
from jepa_text.evaluation.sets import task as tasks
from jepa_text.files import paths


def make(path, text='text', title='', seed=0):
    """A .txt file has a text a line; of others, the field `text`.

    40 % are the test set, dealt by `seed`; a text that occurs twice counts once.
    """
    title, where = title or tables.stem(path), f'texts of {path}'
    on_hub = hub.is_name(path)
    if not on_hub and not Path(paths.local('The path of the texts', path)).exists():
        raise FileNotFoundError(f'There is no text file {path}.')
    if not on_hub and str(path).endswith(('.txt', '.txt.gz')):
        found = [line for _, line in reading.lines(Path(path)) if line.strip()]
    else:
        found = tables.column(tables.splits(path)[0], text, where)
    whole = tasks.examples(list(dict.fromkeys(found)), where=where)
    return tasks.Task(title, 'texts', '', *tasks.train_test_split(whole, seed))
