"""The interface of task kinds (`Kind`), and conversion of texts to rows of tokens."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

import flax.linen as nn
import jax.numpy as jnp
import numpy as np

from jepa_text import losses
from jepa_text.data import tokenizers
from jepa_text.models import layers
from jepa_text.settings import resolve

# The entries of a batch from which outputs are computed.
_READ = ('tokens', 'segment_ids', 'positions')
INPUTS = (*_READ, 'places', *(f'packed_{name}' for name in _READ))
TOGETHER = 1024  # texts that are tokenized at once
IGNORED = -1  # a target that does not count in the loss
HEAD = 'task_head'
ACTIVATIONS = {'gelu': layers.ACTIVATIONS['gelu'], 'tanh': jnp.tanh}
ACTS = ('gelu', 'tanh', 'gelu_norm', '', 'unbiased')


@dataclasses.dataclass(frozen=True, eq=False)
class Reader:
    """Tokenizes texts into rows.

    `begin` and `end` are the ids around a text, and `length` is the maximum number of
    tokens per row including these. `counts` has the number of `texts` that were put into
    rows, and of those that were `cut`.
    """

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
        """Maximum number of tokens of a text in a row."""
        return self.length - len(self.begin) - len(self.end)

    def encode(self, texts, allow_empty=False):
        """Yields (ids [n], offsets [n, 2]) of whole texts, without special tokens.

        Offsets count characters. Raises ValueError for a text without tokens, unless
        `allow_empty` and a row has special tokens.
        """
        backend, texts = self.tokenizer.backend, list(texts)
        # In parts, as encodings take several times the memory of the texts.
        for start in range(0, len(texts), TOGETHER):
            part = texts[start : start + TOGETHER]
            with tokenizers.valid_unicode(texts):
                encodings = backend.encode_batch(part, add_special_tokens=False)
            for number, (text, item) in enumerate(zip(part, encodings), start):
                if not item.ids and not (allow_empty and self.begin + self.end):
                    raise ValueError(
                        f'text {number} of {len(texts)}, from 0: the text {text!r} has '
                        'no tokens to encode: leave it out.'
                    )
                yield np.array(item.ids, np.int32), np.array(item.offsets).reshape(-1, 2)

    def with_specials(self, ids):
        """The ids of a row: `ids`, truncated to fit, between the special tokens."""
        self.counts.update(texts=1, cut=int(len(ids) > self.room))
        parts = self.begin, ids[: self.room], self.end
        return np.concatenate([np.asarray(part, np.int32) for part in parts])


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """A row of tokens.

    tokens    [L], with special tokens
    targets   {name: number or array [L]} for the loss
    example   index of the example that it belongs to
    notes     what answers need
    """

    tokens: np.ndarray
    targets: dict
    example: int
    notes: Any = None


class Unlabeled(NamedTuple):
    """Texts, or pairs of texts: examples without targets."""

    first: list
    second: list | None = None
    target: None = None


def listed(texts):
    """Returns a list of texts; raises ValueError for one text, a table, or a set."""
    is_ordered = isinstance(texts, Iterable) and getattr(texts, 'ndim', 1) == 1
    if not is_ordered or isinstance(texts, str | bytes | Mapping | Set):
        raise ValueError(
            f'Expected a list of texts, but got a {type(texts).__name__}: put texts '
            'in [], and give one column of a table.'
        )
    return list(texts)


def unlabeled(kind, first, second=None):
    """The Unlabeled examples for a kind.

    Raises ValueError for a single text instead of a list, lists of different lengths, and
    texts of a type that the kind does not accept.
    """
    first, second = listed(first), None if second is None else listed(second)
    if second is not None and len(first) != len(second):
        raise ValueError(
            f'{len(first)} first texts, but {len(second)} second texts: pairs need the '
            'same number of both.'
        )
    if kind.name == 'spans' and second is None:
        raise ValueError('Spans need contexts: give the questions, then the contexts.')
    if kind.name == 'retrieval':
        raise ValueError(
            'The model produces vectors of queries and documents: use '
            'model.encode(texts), not predict, and compare them by cosine similarity.'
        )
    if kind.name == 'tags' and second is not None:
        raise ValueError('Tags are for lists of words, without second texts.')
    for number, text in (*enumerate(first), *enumerate(second or ())):
        is_valid = isinstance(text, str)
        if kind.name == 'tags':
            is_list = isinstance(text, list | tuple | np.ndarray)
            is_valid = is_list and all(isinstance(word, str) for word in text)
        if not is_valid:
            wanted = 'list of words' if kind.name == 'tags' else 'text'
            raise ValueError(
                f'{kind.name} need a {wanted} per example, not {text!r}, as example '
                f'{number}, from 0.'
            )
    return Unlabeled(first, second)


class Kind:
    """The interface; a kind is a frozen dataclass whose fields are JSON values.

    name            of tasks of this kind: evaluation/sets/task.py
    rows(reader, examples)      [Row] of Examples, whose targets may be None
    modules(encoder)            {'task_head': module on the hidden states}; may be empty
    outputs(network, params, batch, rngs)  the head's outputs, a float array [B, ...]
    loss(outputs, batch)        (sum, count), float32; the loss is their quotient
    answers(outputs, rows, examples)  one answer per example, from the outputs of each row
    """

    name: str

    def lengths(self, row):
        """The number of tokens of each text in a row."""
        return (len(row.tokens),)

    def row_length(self, rows):
        """The number of tokens of the longest text in some rows."""
        return max(max(self.lengths(row)) for row in rows)

    def collate(self, rows, size, length, pad_id):
        """A batch of `size` examples, padded."""
        return collate(rows, size, length, pad_id)

    def features(self, network, params, batch):
        """The inputs of the head: hidden_BLD."""
        return hidden(network, params, batch)

    def outputs(self, network, params, batch, rngs=None):
        """The outputs of the head."""
        features = self.features(network, params, batch)
        return self.postprocess(network.apply(HEAD, params, features, rngs=rngs), batch)

    def postprocess(self, outputs, batch):
        """Converts outputs of the head for use in the loss and in answers."""
        return outputs

    def folded(self, params):
        """(kind, parameters) that give the same answers, with the scale of the targets in
        the parameters, for classes that have no place for it."""
        return self, params


def hidden(network, params, batch):
    """hidden_BLD of a batch, with bidirectional attention whatever the pretraining.

    Uses packed rows of several texts if the batch has them.
    """
    packed = 'packed_' if 'places' in batch else ''
    inputs = (batch[packed + key] for key in _READ)
    hidden_RPD = network.apply('encoder', params, *inputs, causal=False)
    if not packed:
        return hidden_RPD
    hidden_ND = hidden_RPD.reshape(-1, hidden_RPD.shape[-1])
    return hidden_ND.at[batch['places']].get(mode='fill', fill_value=0)


class ClassHead(nn.Module):
    """classifier(act(dense(x))) of vectors [..., D], with dropout before each layer.

    Without `act` there is no dense layer, with 'unbiased' neither that nor a bias; with
    'gelu_norm' a LayerNorm follows the dense layer, as in ModernBERT.
    """

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
        if self.act not in ('', 'unbiased'):
            act, _, norm = self.act.partition('_')
            x = ACTIVATIONS[act](layers.Linear(self.width, True, name='dense')(x))
            if norm:
                x = layers.LayerNorm(self.norm_eps, self.norm_bias, name='norm')(x)
            x = nn.Dropout(self.dropout, deterministic=not self.has_rng('dropout'))(x)
        has_bias = self.act != 'unbiased'
        return layers.Linear(self.classes, has_bias, name='classifier')(x)


def head(encoder, classes, act, dropout):
    """{HEAD: ClassHead for an encoder}, with a norm like that of the encoder.

    Raises ValueError for an unknown act.
    """
    resolve.check_choice('act', act, ACTS)
    norm = getattr(encoder, 'norm_eps', 1e-5), getattr(encoder, 'norm_bias', True)
    return {HEAD: ClassHead(encoder.width, classes, act, dropout, *norm)}


def label_index(labels, label):
    """The index of a label, or of its text; raises ValueError if it is unknown."""
    texts = list(map(str, labels))
    if str(label) not in texts:
        known = ', '.join(map(repr, labels))
        raise ValueError(f'The label {label!r} is unknown; the model has: {known}.')
    return texts.index(str(label))


def cross_entropy(logits_NC, labels_N):
    """(sum, count) of -log softmax over the labels that are not IGNORED, float32."""
    where_N = labels_N != IGNORED
    loss_N = losses.cross_entropy(logits_NC, jnp.where(where_N, labels_N, 0))
    return losses.masked_sum(loss_N, where_N), jnp.sum(where_N)


def collate(rows, size, length, pad_id):
    """A batch of `size` rows of `length`.

    It has tokens, segment_ids (1 in a row, 0 in padding), positions, and each target,
    which is IGNORED in padding.
    """
    batch = {
        'tokens': np.full((size, length), pad_id, np.int32),
        'segment_ids': np.zeros((size, length), np.int32),
        'positions': np.tile(np.arange(length, dtype=np.int32), (size, 1)),
    }
    for key, value in rows[0].targets.items():
        shape = (size, length) if np.ndim(value) else (size,)
        batch[key] = np.full(shape, IGNORED, np.asarray(value).dtype)
    for index, row in enumerate(rows):
        part = index, slice(len(row.tokens))
        batch['segment_ids'][part] = 1
        for key, value in {'tokens': row.tokens, **row.targets}.items():
            batch[key][part if np.ndim(value) else index] = value
    return batch


def softmax(logits_C):
    """Softmax over the last axis, in float64 on the host."""
    # Not scipy.special's, whose import would slow down loading a model.
    logits_C = np.asarray(logits_C, np.float64)
    shares_C = np.exp(logits_C - logits_C.max(axis=-1, keepdims=True))
    return shares_C / shares_C.sum(axis=-1, keepdims=True)
