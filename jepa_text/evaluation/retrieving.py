"""Fine-tuning on query-document pairs, measured by ranking the whole corpus per query."""

import dataclasses
import warnings

from jepa_text.data import truncation
from jepa_text.evaluation import finetune, search
from jepa_text.evaluation.metrics import ranking
from jepa_text.kinds import base, vectors

DEPTH = 100  # ranked documents per query


class Examination(finetune.Examination):
    """Fine-tuning of a load.Pretrained on the pairs of a retrieval.Retrieval.

    Queries of `validation_qrels` are for selection, those of `qrels` for the test; both
    rank the whole corpus. Raises ValueError for a task without pairs or validation
    queries.
    """

    metric = 'ndcg@10'
    _run = None

    def kind_of(self):
        return kind_of(self.task, self.settings)

    def read(self, reader):
        task = self.task
        pairs = base.Unlabeled(*map(list, zip(*task.pairs)))
        sizes = len(task.pairs), len(task.validation_qrels), len(task.qrels)
        return self.kind.rows(reader, pairs), list(sizes)

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
            with warnings.catch_warnings():
                if self._run is not None:  # warned at the first member already
                    warnings.simplefilter('ignore', truncation.TruncationWarning)
                self._run = search.rank(model, self.task, DEPTH)
        qrels = self.task.qrels if split == 'test' else self.task.validation_qrels
        run = {query: self._run[query] for query in qrels}
        return ranking.measure(qrels, run), run, set()


def kind_of(task, settings):
    """Returns the kind of a task, configured by the settings."""
    if not task.pairs:
        raise ValueError(
            f'{task.name} has no training pairs: give a set with qrels/train, or '
            '`pairs`, a file with the fields query and positive.'
        )
    if not task.validation_qrels:
        raise ValueError(
            f'{task.name} has no validation queries: give a set with qrels/dev.'
        )
    return vectors.Vectors(pool=settings.pool)
