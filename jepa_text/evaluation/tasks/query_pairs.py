"""Retrieval from files of pairs: a query and a document that answers it.

File formats are those of labeled.py. The corpus is the set of documents of all splits; a
query's relevant documents are those that it is paired with.
"""

from jepa_text.data.sets import tables
from jepa_text.evaluation.sets import task as tasks
from jepa_text.evaluation.sets.retrieval import Retrieval


def make(path, query='query', document='document', seed=0, zero_shot=False):
    """Makes a retrieval task that is trained on the pairs of the training split.

    `query` and `document` name the fields. Of a single file, 40 % are the test set, drawn
    by `seed` so that no text is on both sides. Without a validation set, 5 % of the
    training pairs are used (sets/task.py). A `zero_shot` task has neither: of a single
    file, all pairs are the test set.
    """
    title = tables.stem(path)

    def examples(rows, split):
        where = f'{title}, {split}, in {path}'
        return tasks.examples(
            *tables.columns(rows, (query, document), where), None, where
        )

    splits = tables.splits(path, zero_shot=zero_shot)
    splits = tasks.make_splits(splits, examples, seed, zero_shot)
    task = tasks.Task(title, 'texts', '', **splits)
    if not zero_shot:
        task = tasks.with_validation(task)
    parts = [x for x in (task.train, task.validation, task.test) if x is not None]
    documents = dict.fromkeys(text for part in parts for text in part.second)
    document_id = {text: f'd{n}' for n, text in enumerate(documents)}
    asked = [part for part in parts if part is not task.train]
    queries = dict.fromkeys(text for part in asked for text in part.first)
    query_id = {text: f'q{n}' for n, text in enumerate(queries)}

    def qrels_of(part):
        qrels = {}
        for text, answer in zip(part.first, part.second):
            qrels.setdefault(query_id[text], {})[document_id[answer]] = 1
        return qrels

    return Retrieval(
        title,
        queries={query_id[text]: text for text in queries},
        corpus={document_id[text]: text for text in documents},
        qrels=qrels_of(task.test),
        validation_qrels=task.validation and qrels_of(task.validation),
        pairs=list(zip(task.train.first, task.train.second)),
        revision=task.revision,
    )
