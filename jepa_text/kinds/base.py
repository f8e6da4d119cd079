"""What every kind of task is (`Kind`), and how texts become rows of tokens.

Reader         texts -> ids with the special tokens around them, and where each begins
Row            tokens of a text, and what a loss compares with them
collate        rows -> a batch of one shape
"""

import dataclasses
from collections import Counter
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.data import tokenizers
from jepa_text.models import layers

# What of a batch the outputs are made of.
_READ = ('tokens', 'segment_ids', 'positions', 'types')
INPUTS = (*_READ, 'features', 'places', *(f'packed_{name}' for name in _READ))
IGNORED = -1  # a target that no loss counts
HEAD = 'task_head'
ACTIVATIONS = {'gelu': layers.ACTIVATIONS['gelu'], 'tanh': jnp.tanh}
ACTS = ('gelu', 'tanh', 'gelu_norm', '')


@dataclasses.dataclass(frozen=True, eq=False)
class Reader:
    """How a model reads a text: `begin` and `end` are ids around it, `length` how many
    tokens a row holds at most, these among them. `counts` are of the `texts` that were
    put into rows, and of those that were `cut`."""

    tokenizer: tokenizers.Tokenizer
    begin: tuple
    end: tuple
    length: int
    counts: Counter = dataclasses.field(default_factory=Counter, compare=False)

    def __post_init__(self):
        if self.room < 1:
            raise ValueError(
                f'max_length={self.length} leaves no room for a text between the '
                f'{len(self.begin) + len(self.end)} special tokens of a row.'
            )

    @property
    def room(self):
        """Tokens of a text that a row holds."""
        return self.length - len(self.begin) - len(self.end)

    def encode(self, texts):
        """[(ids [n], offsets [n, 2])] of whole texts, specials not added; offsets count
        characters. ValueError for a text without tokens."""
        backend = self.tokenizer.backend
        found = backend.encode_batch(list(texts), add_special_tokens=False)
        for text, encoding in zip(texts, found):
            if not encoding.ids:
                raise ValueError(f'the text {text!r} has no tokens to read.')
        return [
            (np.array(one.ids, np.int32), np.array(one.offsets).reshape(-1, 2))
            for one in found
        ]

    def around(self, ids):
        """The ids of a row: what is cut to fit, between the special ones."""
        self.counts.update(texts=1, cut=int(len(ids) > self.room))
        parts = self.begin, ids[: self.room], self.end
        return np.concatenate([np.asarray(part, np.int32) for part in parts])


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """tokens_L with specials; `targets` are numbers, or arrays [L], that the loss reads;
    `example` is the index of the example that it is of, `notes` what answers need,
    `features` what the head reads, [D] or [L, D], if that was made before, and `types`
    those of tokens, where the encoder tells a text from another by them."""

    tokens: np.ndarray
    targets: dict
    example: int
    notes: Any = None
    features: np.ndarray | None = None
    types: np.ndarray | None = None


class Asked(NamedTuple):
    """Texts, or pairs of them, that nobody has answered: examples without targets."""

    first: list
    second: list | None = None
    target: None = None


def asked(kind, first, second=None):
    """Asked of texts for a kind. Raises ValueError for texts that it would misread: one
    text alone, sides of different lengths, a text where a list of words is read."""
    if isinstance(first, str) or isinstance(second, str):
        raise ValueError(
            'One text was given where a list of texts is read: put it in [].'
        )
    first, second = list(first), None if second is None else list(second)
    if second is not None and len(first) != len(second):
        raise ValueError(
            f'{len(first)} first texts, but {len(second)} second ones: pairs need as '
            'many of both.'
        )
    if kind.name == 'spans' and second is None:
        raise ValueError('Spans are of contexts: give the questions, then the contexts.')
    if kind.name == 'retrieval' and second is None:
        raise ValueError('The model gives vectors of texts: take encode, not predict.')
    if kind.name == 'tags' and second is not None:
        raise ValueError('Tags are of lists of words; they have no second texts.')
    for text in first:
        if isinstance(text, str) == (kind.name == 'tags'):
            wanted = 'list of words' if kind.name == 'tags' else 'text'
            raise ValueError(f'{text!r} is no {wanted}, of which {kind.name} are read.')
    return Asked(first, second)


class Kind:
    """The whole contract; a kind is a frozen dataclass, and its fields are JSON.

    name            of tasks of this kind: evaluation/sets/task.py
    rows(reader, examples)      [Row] of Examples; their targets may be None
    modules(encoder)            {'task_head': the module on the hidden states}; {}: none
    outputs(network, params, batch, rngs)  what the head makes of a batch, a float array
                    [B, ...]
    loss(outputs, batch)        (sum, count), float32: their quotient is the loss
    answers(outputs, rows, examples)  one answer an example, of the outputs of each row
    """

    name: str

    def lengths(self, row):
        """How many tokens each text of a row has."""
        return (len(row.tokens),)

    def row_length(self, rows):
        """How many tokens the longest text of some rows has."""
        return max(max(self.lengths(row)) for row in rows)

    def collate(self, rows, size, length, pad_id):
        """A batch of so many examples, filled up."""
        return collate(rows, size, length, pad_id)

    def features(self, network, params, batch):
        """What the head reads: hidden_BLD."""
        return self.hidden(network, params, batch)

    def outputs(self, network, params, batch, rngs=None):
        """What the head makes of the features, of those in the batch if there are."""
        features = batch.get('features')
        if features is None:
            features = self.features(network, params, batch)
        return self.finished(network.apply(HEAD, params, features, rngs=rngs), batch)

    def finished(self, outputs, batch):
        """Outputs of the head as loss and answers take them."""
        return outputs

    def hidden(self, network, params, batch):
        """hidden_BLD of a batch, read bidirectionally whatever the model was trained
        as, and in rows of several texts where the batch has such."""
        packed = 'packed_' if 'places' in batch else ''
        keys = 'tokens', 'segment_ids', 'positions'
        inputs = (batch[packed + key] for key in keys)
        types = {'types_BL': batch[packed + 'types']} if 'types' in batch else {}
        hidden_RPD = network.apply('encoder', params, *inputs, causal=False, **types)
        if not packed:
            return hidden_RPD
        hidden_ND = hidden_RPD.reshape(-1, hidden_RPD.shape[-1])
        return hidden_ND.at[batch['places']].get(mode='fill', fill_value=0)


class ClassHead(nn.Module):
    """classifier(act(dense(x))) of vectors [..., D], with dropout before each; without
    `act` there is no dense layer, and with 'gelu_norm' a LayerNorm after it, as in
    ModernBERT."""

    width: int
    classes: int
    act: str = 'gelu'
    dropout: float = 0.0
    norm_eps: float = 1e-5
    norm_bias: bool = False

    def example(self):
        return (jnp.zeros((1, self.width)),)

    @nn.compact
    def __call__(self, x):
        x = nn.Dropout(self.dropout, deterministic=not self.has_rng('dropout'))(x)
        if self.act:
            act, _, norm = self.act.partition('_')
            x = ACTIVATIONS[act](layers.Linear(self.width, True, name='dense')(x))
            if norm:
                x = layers.LayerNorm(self.norm_eps, self.norm_bias, name='norm')(x)
            x = nn.Dropout(self.dropout, deterministic=not self.has_rng('dropout'))(x)
        return layers.Linear(self.classes, True, name='classifier')(x)


def head(encoder, classes, act, dropout):
    """{HEAD: the ClassHead on an encoder}, its norm as those of the encoder. Raises
    ValueError for an unknown act."""
    if act not in ACTS:
        known = ', '.join(map(repr, ACTS))
        raise ValueError(f'act={act!r} does not exist; there are: {known}.')
    norm = encoder.norm_eps, getattr(encoder, 'norm_bias', True)
    return {HEAD: ClassHead(encoder.width, classes, act, dropout, *norm)}


def cross_entropy(logits_NC, labels_N):
    """(sum, count) of -log softmax over the labels that are not IGNORED, float32."""
    flat_NC = logits_NC.reshape(-1, logits_NC.shape[-1]).astype(jnp.float32)
    flat_N = labels_N.reshape(-1)
    counts_N = flat_N != IGNORED
    log_NC = jax.nn.log_softmax(flat_NC)
    index_N1 = jnp.where(counts_N, flat_N, 0)[:, None]
    picked_N = jnp.take_along_axis(log_NC, index_N1, axis=1)[:, 0]
    return -jnp.sum(jnp.where(counts_N, picked_N, 0.0)), jnp.sum(counts_N)


def collate(rows, size, length, pad_id):
    """A batch of `size` rows of `length`: tokens, segment_ids (1 in a row, 0 in what
    fills it), positions, and each target; those of what fills are IGNORED."""
    batch = {
        'tokens': np.full((size, length), pad_id, np.int32),
        'segment_ids': np.zeros((size, length), np.int32),
        'positions': np.tile(np.arange(length, dtype=np.int32), (size, 1)),
    }
    for key, value in rows[0].targets.items():
        value = np.asarray(value)
        shape = (size, length) if value.ndim else (size,)
        batch[key] = np.full(shape, IGNORED, value.dtype)
    if rows[0].types is not None:
        batch['types'] = np.zeros((size, length), np.int32)
    if rows[0].features is not None:
        shape = (size, *[length] * (rows[0].features.ndim - 1))
        batch['features'] = np.zeros((*shape, rows[0].features.shape[-1]), np.float32)
    for index, row in enumerate(rows):
        count = len(row.tokens)
        if row.features is not None:
            place = index if row.features.ndim == 1 else (index, slice(count))
            batch['features'][place] = row.features
        batch['tokens'][index, :count] = row.tokens
        if row.types is not None:
            batch['types'][index, :count] = row.types
        batch['segment_ids'][index, :count] = 1
        for key, value in row.targets.items():
            if np.ndim(value):
                batch[key][index, :count] = value
            else:
                batch[key][index] = value
    return batch


def softmax(logits_C):
    """exp(x) / sum exp(x) over the last axis, in numpy, float64."""
    logits_C = np.asarray(logits_C, np.float64)
    shares_C = np.exp(logits_C - logits_C.max(axis=-1, keepdims=True))
    return shares_C / shares_C.sum(axis=-1, keepdims=True)
