"""Any pairs of a query and a text that answers it, as retrieval: files as in labeled.py.

The corpus is all texts of all splits, each once; a query's answers are those that it is
paired with.
"""

from jepa_text.data import tables
from jepa_text.evaluation import task as tasks
from jepa_text.evaluation.retrieval import Retrieval


def make(path, query='query', document='document', title='', seed=0):
    """`query` and `document` name the fields; the pairs of the training split are learned
    from. Of one file, 40 % are the test set, dealt by `seed` so that no text is on both
    sides."""
    title = title or tables.stem(path)

    def side(rows, split):
        where = f'{title}, {split}, in {path}'
        columns = (tables.column(rows, name, where) for name in (query, document))
        return tasks.examples(*columns, where=where)

    made = tasks.sides(tables.splits(path), side, seed)
    revision = made.pop('revision')
    there = [part for part in made.values() if part is not None]
    texts = dict.fromkeys(text for part in there for text in part.second)
    number = {text: f'd{n}' for n, text in enumerate(texts)}
    queries = dict.fromkeys(text for part in there for text in part.first)
    name = {text: f'q{n}' for n, text in enumerate(queries)}
    qrels = {}
    for split, part in made.items():
        found = qrels[split] = {}
        for one, other in zip(part.first, part.second) if part is not None else ():
            found.setdefault(name[one], {})[number[other]] = 1
    sides = qrels['test'], qrels['validation'] or None
    asked = {key for found in sides if found for key in found}
    return Retrieval(
        title,
        {name[text]: text for text in queries if name[text] in asked},
        {number[text]: text for text in texts},
        *sides,
        list(zip(made['train'].first, made['train'].second)),
        revision,
    )
