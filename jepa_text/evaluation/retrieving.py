"""A model, a retrieval task, a grid of members: each learns from pairs, and then ranks
the documents of the corpus for every query."""

import dataclasses
import warnings

from jepa_text.data import truncation
from jepa_text.evaluation import finetune, search
from jepa_text.evaluation.metrics import ranking
from jepa_text.kinds import base, vectors

DEPTH = 100  # documents that are ranked for a query


class Examination(finetune.Examination):
    """A load.Pretrained and a retrieval.Retrieval with pairs to learn from.

    Queries of `validation_qrels` choose, those of `qrels` are the test; both rank the
    whole corpus. Raises ValueError for a task without pairs, or without queries to
    validate on.
    """

    metric = 'ndcg@10'
    _run = None

    def kind_of(self):
        return kind_of(self.task, self.settings)

    def read(self, reader):
        task = self.task
        pairs = base.Asked(*map(list, zip(*task.pairs)))
        sizes = len(task.pairs), len(task.validation_qrels), len(task.qrels)
        return self.kind.rows(reader, pairs), list(sizes)

    def measured(self, split, params):
        """(Measured, the run {query: {document: score}}, False)."""
        if split == 'validation':  # the first of the two; the corpus is read once
            model = dataclasses.replace(
                self.model,
                network=self.grid.network,
                params=params,
                causal=False,
                pool=self.kind.pool,
                length=self.max_length,
            )
            with warnings.catch_warnings():
                if self._run is not None:  # the same texts as of the first member
                    warnings.simplefilter('ignore', truncation.Longer)
                self._run = search.rank(model, self.task, DEPTH)
        qrels = self.task.qrels if split == 'test' else self.task.validation_qrels
        run = {query: self._run[query] for query in qrels}
        return ranking.measure(qrels, run), run, False


def kind_of(task, settings):
    """The kind of a task, as the settings have it."""
    if not task.pairs or not task.validation_qrels:
        lacks = 'queries to validate on' if task.pairs else 'pairs to learn from'
        remedy = (
            'give a set with qrels/dev'
            if task.pairs
            else 'give a set with qrels/train, or `pairs`, a file with the fields query '
            'and positive, and a set with qrels/dev'
        )
        raise ValueError(f'{task.name} has no {lacks}: {remedy}.')
    return vectors.Vectors(pool=settings.pool)
