"""Retrieval: vectors of queries close to those of matching documents."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jepa_text import losses
from jepa_text.models import pooling
from jepa_text.pretrained import base, labels


@dataclasses.dataclass(frozen=True)
class Vectors(labels.PooledKind):
    """Pooled hidden states, without a head; contrastive loss with in-batch negatives.

    -log softmax_j(cos(query_i, document_j) / temperature)[i], which is sentence-
    transformers' MultipleNegativesRankingLoss with a scale of 1 / temperature. Examples
    are pairs: `first` are queries, `second` documents. A batch contains all queries, then
    the same number of documents.
    """

    pool: str = 'mean'
    temperature: float = 0.05
    name = 'retrieval'

    def rows(self, reader, examples):
        pooling.check(self.pool, reader.begin, (), reader.tokenizer.special_ids)
        read = [reader.encode(texts) for texts in (examples.first, examples.second)]
        return [
            base.Row(
                reader.with_specials(query), {}, index, reader.with_specials(document)
            )
            for index, ((query, _), (document, _)) in enumerate(zip(*read))
        ]

    def lengths(self, row):
        return len(row.tokens), len(row.notes)

    def collate(self, rows, size, length, pad_id):
        """[2 size, length]: queries, then documents."""
        documents = [base.Row(row.notes, {}, row.example) for row in rows]
        parts = [base.collate(part, size, length, pad_id) for part in (rows, documents)]
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}

    def modules(self, encoder):
        return {}

    def outputs(self, network, params, batch, rngs=None):
        return self.features(network, params, batch)

    def loss(self, outputs_BD, batch):
        query_ND, document_ND = jnp.split(outputs_BD.astype(jnp.float32), 2)
        where_N = batch['segment_ids'][: len(query_ND)].any(axis=1)
        values_N = losses.info_nce(query_ND, document_ND, where_N, self.temperature)
        return jnp.sum(values_N), jnp.sum(where_N)

    def answers(self, outputs, rows, examples):
        """Raises ValueError: use `encode`."""
        raise ValueError(
            'The model was fine-tuned to produce vectors of queries and documents: use '
            'model.encode(texts) and compare them by cosine similarity.'
        )
