"""Kinds that pool a text: its class, its score, or its vector for retrieval."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jepa_text import losses
from jepa_text.models import pooling
from jepa_text.pretrained import base
from jepa_text.settings import resolve


class PooledKind(base.Kind):
    """A kind that reads one vector per text: hidden states reduced by its `pool`."""

    pool: str

    def __post_init__(self):
        resolve.check_choice('pool', self.pool, pooling.POOLINGS)

    def features(self, network, params, batch):
        """pooled_BD: the vectors."""
        hidden_BLD = base.hidden(network, params, batch)
        return pooling.POOLINGS[self.pool](hidden_BLD, batch['segment_ids'] > 0)


@dataclasses.dataclass(frozen=True)
class _TextKind(PooledKind):
    """`template` joins a pair into one text; `pool` reduces hidden states to a vector."""

    template: str = '{first}\n{second}'
    pool: str = 'mean'
    act: str = 'gelu'
    dropout: float = 0.0

    def rows(self, reader, examples):
        pooling.check(self.pool, reader.begin, (), reader.tokenizer.special_ids)
        texts = list(examples.first)
        if examples.second is not None:
            if '{second}' not in self.template:
                raise ValueError(
                    f'This model reads single texts (template={self.template!r}), and '
                    'the format of pairs, if it was trained with pairs, is unknown. '
                    'Give its kind a template with {first} and {second}, by '
                    'dataclasses.replace.'
                )
            pairs = zip(examples.first, examples.second)
            texts = [self.template.format(first=a, second=b) for a, b in pairs]
        # Not of the default, which earlier versions saved for single texts, too.
        elif '{second}' in self.template and self.template != _TextKind.template:
            raise ValueError(
                f'This model reads pairs of texts (template={self.template!r}), but got '
                'single ones: give the second texts, too.'
            )
        target = examples.target
        values = [None] * len(texts) if target is None else np.asarray(target).tolist()
        return [
            base.Row(reader.with_specials(ids), self._targets(value), index)
            for index, ((ids, _), value) in enumerate(zip(reader.encode(texts), values))
        ]


@dataclasses.dataclass(frozen=True)
class Labels(_TextKind):
    """Classification into `labels`, in the type of the data; cross-entropy on the pooled
    hidden states.

    >>> kind = Labels(labels=('no', 'yes'))
    >>> kind.loss(jnp.zeros((1, 2)), {'label': jnp.array([1])})[1].item()
    1
    """

    labels: tuple = ()
    name = 'labels'

    def _targets(self, value):
        if value is None:
            return {}
        return {'label': np.int32(base.label_index(self.labels, value))}

    def modules(self, encoder):
        return base.head(encoder, len(self.labels), self.act, self.dropout)

    def loss(self, outputs_BC, batch):
        return base.cross_entropy(outputs_BC, batch['label'])

    def answers(self, outputs, rows, examples):
        """[{'label', 'probabilities': {label: probability}}]"""
        answers = []
        for logits_C in outputs:
            shares_C = base.softmax(logits_C)
            shares = dict(zip(self.labels, map(float, shares_C)))
            answers.append(
                {'label': self.labels[int(shares_C.argmax())], 'probabilities': shares}
            )
        return answers


@dataclasses.dataclass(frozen=True)
class Scores(_TextKind):
    """Regression of one number, which is `center` + `scale` times the output; squared
    error of the output.

    >>> batch = {'score': jnp.ones(1), 'segment_ids': jnp.ones((1, 4))}
    >>> Scores().loss(jnp.full((1, 1), 3.0), batch)[0].item()
    4.0
    """

    center: float = 0.0
    scale: float = 1.0
    name = 'scores'

    def folded(self, params):
        """As Kind.folded; the center, too, if the head has a bias."""
        last, center = params[base.HEAD]['classifier'], self.center
        last = {name: self.scale * x for name, x in last.items()}
        if 'bias' in last:
            last['bias'], center = last['bias'] + center, 0.0
        head = params[base.HEAD] | {'classifier': last}
        kind = dataclasses.replace(self, center=center, scale=1.0)
        return kind, params | {base.HEAD: head}

    def _targets(self, value):
        if value is None:
            return {}
        return {'score': np.float32((value - self.center) / self.scale)}

    def modules(self, encoder):
        return base.head(encoder, 1, self.act, self.dropout)

    def loss(self, outputs_B1, batch):
        is_row_B = batch['segment_ids'].any(axis=1)
        error_B = outputs_B1[:, 0].astype(jnp.float32) - batch['score']
        return jnp.sum(jnp.where(is_row_B, error_B**2, 0.0)), jnp.sum(is_row_B)

    def answers(self, outputs, rows, examples):
        """[{'score'}]"""
        return [{'score': self.center + self.scale * float(x_1[0])} for x_1 in outputs]


@dataclasses.dataclass(frozen=True)
class Vectors(PooledKind):
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
