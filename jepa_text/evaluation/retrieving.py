"""Fine-tuning on query-document pairs, measured by ranking the whole corpus per query."""

import dataclasses
import itertools

from jepa_text.evaluation import finetune, search
from jepa_text.evaluation.metrics import ranking
from jepa_text.pretrained import base

_BLOCK = 10_000  # texts whose tokens are counted at once


class Examination(finetune.Examination):
    """Fine-tuning of a load.Pretrained on the pairs of a retrieval.Retrieval.

    Queries of `validation_qrels` are for selection, those of `qrels` for the test; both
    rank the whole corpus. Raises ValueError for a task without pairs or validation
    queries.
    """

    _run = None

    def read(self, reader):
        task = self.task
        pairs = base.Unlabeled(*map(list, zip(*task.pairs)))
        sizes = len(task.pairs), len(task.validation_qrels), len(task.qrels)
        ranking.measure(task.qrels, {})  # raises for a missing package before training
        rows = self.kind.rows(reader, pairs)
        # Truncated are texts of training and of the test, most of which are the corpus.
        reader.counts.clear()
        reader.counts.update(dict(zip(('cut', 'texts'), count_cut(reader, texts(task)))))
        return rows, list(sizes)

    def measured(self, split, params):
        """Returns (Measured, the run {query: {document: score}}, set())."""
        # Validation is measured first; its run also covers the test queries, so that the
        # corpus is encoded only once.
        if split == 'validation':
            model = dataclasses.replace(
                self.model,
                network=self.grid.network,
                params=params,
                causal=False,
                pool=self.kind.pool,
                length=self.max_length,
            )
            self._run = search.rank(model, self.task)
        qrels = self.task.qrels if split == 'test' else self.task.validation_qrels
        run = {query: self._run[query] for query in qrels}
        return ranking.measure(qrels, run), run, set()


def texts(task):
    """Returns the texts of a Retrieval that a model reads, each once."""
    queries = [*task.qrels, *(task.validation_qrels or ())]
    asked = (task.queries[query] for query in queries)
    learned = itertools.chain.from_iterable(task.pairs)
    return list(dict.fromkeys([*learned, *asked, *task.corpus.values()]))


def count_cut(reader, texts):
    """Returns (how many texts are longer than a row of the reader, their number)."""
    cut = 0
    for start in range(0, len(texts), _BLOCK):
        read = reader.encode(texts[start : start + _BLOCK], allow_empty=True)
        cut += sum(len(ids) > reader.room for ids, _ in read)
    return cut, len(texts)
