"""Fine-tuning on query-document pairs, measured by ranking the whole corpus per query."""

import dataclasses

from jepa_text.evaluation import finetune, search
from jepa_text.evaluation.metrics import ranking
from jepa_text.pretrained import base


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
        return rows, list(sizes)

    def measured(self, split, params):
        """Returns (Measured, the run {query: {document: score}}, set()); None if a vector
        is not finite."""
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
        if self._run is None:
            return None
        qrels = self.task.qrels if split == 'test' else self.task.validation_qrels
        run = {query: self._run[query] for query in qrels}
        return ranking.measure(qrels, run), run, set()
