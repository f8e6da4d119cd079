"""Any pairs of a query and a text that answers it, as retrieval: files as in labeled.py.

The corpus is all texts of all splits, each once; a query's answers are those that it is
paired with.
"""

from jepa_text.data.sets import tables
from jepa_text.evaluation.sets import task as tasks
from jepa_text.evaluation.sets.retrieval import Retrieval


def make(path, query='query', document='document', title='', seed=0):
    """`query` and `document` name the fields; the pairs of the training split are learned
    from. Of one file, 40 % are the test set, dealt by `seed` so that no text is on both
    sides; without a validation set, 5 % of the others are it, as sets/task.py says."""
    title = title or tables.stem(path)

    def side(rows, split):
        where = f'{title}, {split}, in {path}'
        columns = (tables.column(rows, name, where) for name in (query, document))
        return tasks.examples(*columns, where=where)

    made = tasks.sides(tables.splits(path), side, seed)
    made = tasks.with_validation(tasks.Task(title, 'texts', '', **made))
    parts = (made.train, made.validation, made.test)
    texts = dict.fromkeys(text for part in parts for text in part.second)
    number = {text: f'd{n}' for n, text in enumerate(texts)}
    asked = dict.fromkeys(text for part in parts[1:] for text in part.first)
    name = {text: f'q{n}' for n, text in enumerate(asked)}
    validation, qrels = {}, {}
    for found, part in ((validation, made.validation), (qrels, made.test)):
        for one, other in zip(part.first, part.second):
            found.setdefault(name[one], {})[number[other]] = 1
    return Retrieval(
        title,
        {name[text]: text for text in asked},
        {number[text]: text for text in texts},
        qrels,
        validation,
        list(zip(made.train.first, made.train.second)),
        made.revision,
    )
