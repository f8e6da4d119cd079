"""A model out of training, with what it can do: `encode`, `fill`, `predict`."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.data import batching, tokenizers, truncation
from jepa_text.kinds import base, prediction
from jepa_text.models import pooling
from jepa_text.models.network import Network
from jepa_text.parallel import sharding

# Tokens of a batch. On a CPU larger ones leave the cache, and from 32 MiB on the kernel
# clears every array anew.
BATCH_TOKENS, MANY = {'cpu': 1024}, 32_768


@dataclasses.dataclass(frozen=True, eq=False)
class Pretrained:
    """An encoder with its tokenizer. params: {'encoder': ..., 'lm_head': ...}.

    causal         a token sees only those before it
    begin, end     ids around a text; <bos> and <eos> if None
    pool           how it makes one vector of a text, which is what is exported; scaled
                   to length 1 if `normalize`
    shift          a masked token is told by the position this far before it
    record         how it was imported, for JSON; None for models of our own
    kind           of what it was fine-tuned to answer (kinds/base.py), or None
    """

    network: Network
    params: dict
    tokenizer: tokenizers.Tokenizer
    length: int
    name: str = ''
    causal: bool = False
    begin: tuple | None = None
    end: tuple | None = None
    pool: str = 'mean'
    normalize: bool = False
    shift: int = 0
    record: dict | None = None
    kind: Any = None

    def encode(self, texts, layer=-1, pool=None, batch_tokens=None):
        """One vector a text, [N, D] float32 in numpy.

        `layer` counts as in Python: -1 is the last, after its norm; 0 the embedding,
        before the first. Texts are cut at `length` tokens, with a warning of how many.
        `pool` is one of pooling.POOLINGS, over all tokens, special ones among them, or
        without these with '-specials' after its name; None is the model's own way, as
        `pool` and `normalize` say. `batch_tokens` is how many tokens, filling among them,
        the device has at a time; None: BATCH_TOKENS. Parameters that lie on a mesh have
        the rows of a batch split over it. Raises ValueError for a text without tokens,
        for 'cls' where no special token begins a text, an unknown pool or layer.
        """
        normalize = self.normalize and pool is None
        pool = self.pool if pool is None else pool
        if pooling.base(pool) not in pooling.POOLINGS:
            known = ', '.join(pooling.POOLINGS)
            raise ValueError(f'pool={pool!r} does not exist; there are: {known}.')
        depth = self.network.encoder.depth + 1
        if not -depth <= layer < depth:
            raise ValueError(
                f'layer={layer}: there are {depth}, -{depth} to {depth - 1}.'
            )
        rows = self.rows(texts)
        pooling.check(pool, self.ends()[0], rows, self.tokenizer.special_ids)
        encode, devices = sharding.on_rows(self._encode(layer % depth, pool), self.params)
        if batch_tokens is None:
            batch_tokens = usual_tokens()
        lengths_N, found = [len(row) for row in rows], []
        shapes = batching.batches(lengths_N, batch_tokens, self.length, devices)
        for index_M, *shape in shapes:
            batch = self.pad([rows[i] for i in index_M], *shape)
            found.append((index_M, encode(self.params, *batch)))
            # The device works on one while the next is made, and holds no third.
            jax.block_until_ready(found[-2:-1])
        vectors_ND = np.zeros((len(rows), self.network.encoder.width), np.float32)
        for index_M, pooled_BD in found:
            vectors_ND[index_M] = np.asarray(pooled_BD)[: len(index_M)]
        if normalize:
            lengths_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
            vectors_ND /= np.maximum(lengths_N1, 1e-12)
        return vectors_ND

    def fill(self, text, top=3):
        """The `top` likeliest tokens for each '<mask>': [[(token, share), ...], ...].

        Raises ValueError when the text has no '<mask>' or is longer than a row, and for
        a model without mask token or without LM head.
        """
        tokenizer, (begin, end) = self.tokenizer, self.ends()
        check_fills(self.name, tokenizer, 'lm_head' in self.params)
        if '<mask>' not in text:
            raise ValueError(f'{text!r} has no <mask> to fill.')
        ids = np.array([*begin, *tokenizer.encode_masked(text), *end], np.int32)
        if len(ids) > self.length:
            raise ValueError(f'{len(ids)} tokens, but the model reads {self.length}.')
        probabilities_BLV = self._probabilities(self.params, *self.pad([ids], 1))
        answers = []
        for position in np.flatnonzero(ids == tokenizer.mask_id):
            probabilities_V = np.asarray(probabilities_BLV)[0, position - self.shift]
            best = np.argsort(-probabilities_V, kind='stable')[:top]
            answers.append(
                [(tokenizer.decode([i]), float(probabilities_V[i])) for i in best]
            )
        return answers

    def check_fills(self):
        """Raises ValueError for a model that never learned to name a masked word: without
        mask token or LM head, or causal."""
        has_head = 'lm_head' in self.params
        check_fills(self.name, self.tokenizer, has_head, self.causal)

    def predict(self, first, second=None, max_length=None):
        """What a fine-tuned model answers to each text, or pair of texts: a label, a
        score, tags or a span, with probabilities; each kind says what (kinds/).

        For tags a text is a list of words. Raises ValueError for a model that was not
        fine-tuned, for a text without tokens, and for texts that are not as the kind
        reads them.
        """
        if self.kind is None:
            raise ValueError(
                f'{self.name or "The model"} was fine-tuned to answer nothing: '
                'jepa-text finetune makes such a model.'
            )
        asked = base.asked(self.kind, first, second)
        return prediction.answers(self, self.kind, asked, max_length)

    def ends(self):
        """The ids before and after a text, each a tuple."""
        begin = (self.tokenizer.bos_id,) if self.begin is None else self.begin
        end = (self.tokenizer.eos_id,) if self.end is None else self.end
        return tuple(begin), tuple(end)

    def row(self, text):
        """int32 ids of a text with its specials, cut at `length`; ValueError if empty."""
        return self._row(text, self.tokenizer.encode(text))

    def rows(self, texts):
        """`row` of every text, tokenized together; warns whoever called a method that
        calls this of texts that are cut."""
        texts = list(texts)
        ids = self.tokenizer.encode_many(texts)
        truncation.warn(self, [len(each) for each in ids])
        return [self._row(text, each) for text, each in zip(texts, ids)]

    def _row(self, text, ids):
        begin, end = self.ends()
        ids = ids[: self.length - len(begin) - len(end)]
        if not len(ids):
            raise ValueError(f'the text {text!r} has no tokens to encode.')
        return np.concatenate([begin, ids, end]).astype(np.int32)

    def cut_at(self, text):
        """How many characters of a text its row holds; None if it holds all tokens."""
        maximum = self.length - sum(map(len, self.ends()))
        return truncation.stop(self.tokenizer, text, maximum)

    def pad(self, rows, batch_size, length=None):
        """tokens, segment_ids, positions [B, L]; segment 1 is a row, 0 its filling.

        `length` None is that of the longest row, as a multiple of 32.
        """
        if length is None:
            longest = max(map(len, rows))
            length = max(min(self.length, -(-longest // 32) * 32), longest)
        tokens_BL = np.full((batch_size, length), self.tokenizer.pad_id, np.int32)
        segments_BL = np.zeros((batch_size, length), np.int32)
        for index, row in enumerate(rows):
            tokens_BL[index, : len(row)] = row
            segments_BL[index, : len(row)] = 1
        positions_BL = np.broadcast_to(np.arange(length, dtype=np.int32), tokens_BL.shape)
        return tokens_BL, segments_BL, positions_BL

    @functools.cached_property
    def _encode(self):
        """(layer, pool) -> a compiled function, kept with this model and gone with it."""
        reading = self.network, self.causal, tuple(self.tokenizer.special_ids)
        return functools.cache(functools.partial(_encoding, *reading))

    @functools.cached_property
    def _probabilities(self):
        return _naming(self.network, self.causal)


def usual_tokens():
    """Tokens of a batch of `encode`, on the devices that are here."""
    return BATCH_TOKENS.get(jax.default_backend(), MANY)


def check_fills(name, tokenizer, has_head, causal=False):
    """Raises ValueError for a model that cannot name a masked word."""
    if tokenizer.mask_id is None or not has_head:
        lacks = 'mask token' if tokenizer.mask_id is None else 'LM head'
        raise ValueError(
            f'{name} has no {lacks}, so it can fill nothing. A fine-tuned model keeps '
            'none: load the model that it was made of. A decoder of others gets what it '
            'lacks by load(..., adapt=dict()).'
        )
    if causal:
        raise ValueError(
            f'{name} reads causally, so it names no masked word by what follows: take a '
            'model that was trained with masks, or train this one on.'
        )


def _encoding(network, causal, special_ids, layer, pool):
    """(params, *batch) -> vectors; without the model, whose parameters would stay."""
    last = layer == network.encoder.depth

    def encode(params, *batch):
        given = dict(causal=causal, every_layer=not last)
        hidden = network.apply('encoder', params, *batch, **given)
        hidden_BLD = hidden if last else hidden[1][layer]
        valid_BL = pooling.counted(pool, batch[1] > 0, batch[0], special_ids)
        return pooling.POOLINGS[pooling.base(pool)](hidden_BLD, valid_BL)

    return jax.jit(encode)


def _naming(network, causal):
    def probabilities(params, *batch):
        hidden_BLD = network.apply('encoder', params, *batch, causal=causal)
        embedding_VD = params['encoder']['embedding']
        logits_BLV = network.apply('lm_head', params, hidden_BLD, embedding_VD)
        return jax.nn.softmax(logits_BLV.astype(jnp.float32))

    return jax.jit(probabilities)
