"""A loaded model with its methods `encode`, `fill` and `predict`."""

import contextlib
import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.data import batching, tokenizers, truncation
from jepa_text.models import heads, memo, pooling
from jepa_text.models.network import Network
from jepa_text.parallel import sharding
from jepa_text.pretrained import base, prediction, saved
from jepa_text.report import progress as bars
from jepa_text.settings import ranges, resolve


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True, eq=False)
class Pretrained:
    """An encoder with its tokenizer. params: {'encoder': ..., 'lm_head': ...}.

    It is a pytree whose leaves are the parameters, so jax.jit, jax.tree.map and
    jax.device_put take it; a function of a reloaded copy is not compiled again.

    causal         tokens attend only to those before them
    begin, end     ids around a text; <bos> and <eos> if None
    pool           default pooling of `encode`, also exported; vectors are scaled to
                   length 1 if `normalize`
    shift          a masked token is predicted at the position this far before it
    record         how it was imported, as JSON values; None for models trained here
    facts          () -> what the card of its export says of its training, or None
    kind           the task that it was fine-tuned for (pretrained/base.py), or None
    """

    network: Network
    params: dict = dataclasses.field(repr=False)
    tokenizer: tokenizers.Tokenizer = dataclasses.field(repr=False)
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
    facts: Callable | None = None

    def tree_flatten_with_keys(self):
        return [(jax.tree_util.GetAttrKey('params'), self.params)], _Rest(self)

    @classmethod
    def tree_unflatten(cls, rest, children):
        return dataclasses.replace(rest.model, params=children[0])

    def __getstate__(self):
        """What is pickled and copied: not the compiled functions, nor what else than
        tokens its objective predicts, as a schedule cannot be pickled."""
        state = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self)
        }
        if token := getattr(self.network.objective, 'token_objective', None):
            state['network'] = Network(self.network.encoder, token)
        return state

    def encode(
        self,
        texts: str | Iterable[str],
        layer: int = -1,
        pool: str | None = None,
        normalize: bool | None = None,
        batch_size: int | None = None,
        progress: bool = False,
    ) -> np.ndarray:
        """One vector per text, float32 in numpy: [D] of a string, [N, D] of several.

        texts        a string, or any iterable of strings, as a list or a pandas Series.
                     They are truncated to `length` tokens; a warning says how many
        layer        as in Python: -1 (or depth) is the last, after its norm; 0 the
                     embedding, before the first
        pool         one of pooling.POOLINGS, over all tokens including special ones, or
                     without these if its name ends in '-specials'; None: that of the
                     model
        normalize    whether vectors have length 1; None: as the model, and False for
                     another `pool` than its own
        batch_size   texts of `length` tokens per batch, or more shorter ones; None: what
                     has prediction.usual_tokens()
        progress     shows a progress bar

        If the parameters are on a mesh, the rows of a batch are sharded over it. Raises
        ValueError for a text without tokens, an unknown layer or pool, 'cls' if no
        special token begins a text, and a batch_size below 1.
        """
        if normalize is None:
            normalize = self.normalize and pool in (None, self.pool)
        pool = self.pool if pool is None else pool
        resolve.check_choice('pool', pooling.base(pool), pooling.POOLINGS)
        count = self.network.encoder.depth + 1
        layer = ranges.whole('layer', layer, minimum=-count, maximum=count - 1)
        is_one = isinstance(texts, str)
        rows = self.rows([texts] if is_one else texts)
        pooling.check(pool, self.ends()[0], rows, self.tokenizer.special_ids)
        encode, devices = sharding.on_rows(self._encode(layer % count, pool), self.params)
        tokens = prediction.usual_tokens()
        if batch_size is not None:
            tokens = ranges.whole('batch_size', batch_size, minimum=1) * self.length
        lengths_N, computed = [len(row) for row in rows], []
        vectors_ND = np.zeros((len(rows), self.network.encoder.width), np.float32)
        shown = bars.Progress('encode', len(rows)) if progress else None
        with shown or contextlib.nullcontext():
            split = batching.batches(lengths_N, tokens, self.length, devices)
            for index_M, *shape in split:
                batch = self.pad([rows[i] for i in index_M], *shape)
                computed.append((index_M, encode(self.params, *batch)))
                # The next batch is prepared while the device computes; two exist.
                jax.block_until_ready(computed[-2:-1])
                if shown:
                    shown.update(shown.step + len(index_M))
        for index_M, pooled_BD in computed:
            vectors_ND[index_M] = np.asarray(pooled_BD)[: len(index_M)]
        if normalize:
            lengths_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
            vectors_ND /= np.maximum(lengths_N1, 1e-12)
        return vectors_ND[0] if is_one else vectors_ND

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text as the model reads them, as text, with special tokens.

        Raises ValueError for a text without tokens.
        """
        return [_shown(self.tokenizer, i) for i in self.row(text)]

    def fill(self, text: str, top: int = 3) -> list[list[tuple[str, float]]]:
        """The `top` likeliest tokens for each '<mask>', with their probabilities.

        Raises ValueError if the text has no '<mask>' or is longer than a row; if nothing
        is before a '<mask>' that is predicted from the token before it; if `top` is below
        1; and as `check_fills`.
        """
        tokenizer, (begin, end) = self.tokenizer, self.ends()
        self.check_fills()
        _check_text('text', text)
        top = ranges.whole('top', top, minimum=1)
        if '<mask>' not in text:
            raise ValueError(f'{text!r} has no <mask> to fill.')
        ids = np.array([*begin, *tokenizer.encode_masked(text), *end], np.int32)
        if len(ids) > self.length:
            raise ValueError(f'{len(ids)} tokens, but the model reads {self.length}.')
        if np.any(ids[: self.shift] == tokenizer.mask_id):
            raise ValueError(
                f'{text!r} begins with <mask>, which {self.name or "the model"} predicts '
                'from the token before it: put some text before it.'
            )
        encoder, head = self.network.encoder, self.network.modules['lm_head']
        run = heads.compiled_logits(encoder, head, self.causal)
        run, devices = sharding.on_rows(run, self.params)
        logits_BLV = run(self.params, *self.pad([ids], devices))
        answers = []
        for position in np.flatnonzero(ids == tokenizer.mask_id):
            logits_V = logits_BLV[0, position - self.shift].astype(jnp.float32)
            probabilities_V = np.asarray(jax.nn.softmax(logits_V))
            order_V = np.argsort(-probabilities_V, kind='stable')
            # An embedding may have more rows than there are tokens.
            known = (i for i in order_V if tokenizer.backend.id_to_token(int(i)))
            answers.append(
                [
                    (_shown(tokenizer, i), float(probabilities_V[i]))
                    for i in itertools.islice(known, top)
                ]
            )
        return answers

    def check_fills(self):
        """Raises ValueError for a model that cannot predict masked tokens: without mask
        token or LM head, or trained by an objective without masks."""
        name, has_head = self.name or 'The model', 'lm_head' in self.params
        if self.tokenizer.mask_id is None or not has_head:
            lacks = 'mask token' if self.tokenizer.mask_id is None else 'LM head'
            raise ValueError(
                f'{name} has no {lacks}, so it cannot fill masks. Fine-tuned models have '
                'no LM head: load the model before fine-tuning. For an imported decoder, '
                'use load(..., adapt=dict()).'
            )
        token = getattr(self.network.objective, 'token_objective', None)
        if token is None or not token.fills:
            raise ValueError(
                f'{name} was not trained to predict masked tokens, but others, such as '
                'the next one: load a step of a phase with masks, use another model, or '
                "continue training this one with 'mlm' or 'mntp'."
            )

    def predict(
        self,
        first: Iterable,
        second: Iterable | None = None,
        max_length: int | None = None,
    ) -> list[dict]:
        """The answers of a fine-tuned model to texts or pairs of texts.

        They are labels, scores, tags or spans, with probabilities, depending on the kind
        of task. For tags a text is a list of words. Raises ValueError for a model that
        was not fine-tuned, for a text without tokens, and for texts that are not in the
        format of the kind.
        """
        if self.kind is None:
            raise ValueError(
                f'{self.name or "The model"} was not fine-tuned, or has a head that is '
                'not supported, such as one of a causal model, so it cannot predict: '
                'fine-tune it with jepa-text finetune.'
            )
        examples = base.unlabeled(self.kind, first, second)
        return prediction.answers(self, self.kind, examples, max_length)

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the model to a folder, from which `load` gives it back to the bit.

        The folder appears at the end, whole. One that has such a model is replaced.
        Raises FileExistsError for any other that is not empty.
        """
        saved.replace(folder, self)

    def push_to_hub(
        self,
        name: str,
        private: bool | None = None,
        family: str | None = None,
        license: str | None = None,
    ) -> str:
        """Exports the model to the Hugging Face Hub (extra `hf`); returns the URL.

        name       'USER/NAME' or 'NAME', a new one or one whose files are replaced
        private    whether others cannot read it; None: as it is, or a new one as the
                   owner's settings say
        family     as for `jepa-text export`
        license    for the model card

        `load('hf:NAME')` and transformers read it. Raises ModuleNotFoundError without
        huggingface_hub, OSError without a token that may write there, and ValueError if
        no family expresses the model, or if it is public against `private`.
        """
        from jepa_text.pretrained import export

        return export.push(self, name, private, family=family, license=license)

    def ends(self):
        """The ids before and after a text, each a tuple."""
        begin = (self.tokenizer.bos_id,) if self.begin is None else self.begin
        end = (self.tokenizer.eos_id,) if self.end is None else self.end
        return tuple(begin), tuple(end)

    def row(self, text):
        """int32 ids of a text with special tokens, truncated to `length`.

        Raises ValueError for a text without tokens.
        """
        _check_text('text', text)
        reader = prediction.reader(self)
        ((ids, _),) = reader.encode([text])
        return reader.with_specials(ids)

    def rows(self, texts):
        """`row` of each text, tokenized together.

        Warns of truncated texts, at the caller of the method that calls this.
        """
        texts = base.listed(texts)
        for number, text in enumerate(texts):
            # The tokenizer would read a tuple of two texts as a single row.
            _check_text(f'texts[{number}]', text)
        reader = prediction.reader(self)
        rows = [reader.with_specials(ids) for ids, _ in reader.encode(texts)]
        truncation.warn(self.name, reader.counts['cut'], len(rows), self.length)
        return rows

    def cut_at(self, text):
        """The number of characters of a text that its row contains; None if all."""
        encoding = self.tokenizer.backend.encode(text, add_special_tokens=False)
        room = prediction.reader(self).room
        return encoding.offsets[room - 1][1] if len(encoding.ids) > room else None

    def pad(self, rows, batch_size, length=None):
        """tokens, segment_ids, positions [B, L]; segment 1 is a row, 0 padding.

        `length` None is that of the longest row, rounded up to a multiple of 32.
        """
        if length is None:
            longest = max(map(len, rows))
            length = max(min(self.length, -(-longest // 32) * 32), longest)
        rows = [base.Row(row, {}, 0) for row in rows]
        batch = base.collate(rows, batch_size, length, self.tokenizer.pad_id)
        return tuple(batch[key] for key in ('tokens', 'segment_ids', 'positions'))

    @functools.cached_property
    def _encode(self):
        """(layer, pool) -> a compiled function; the cache lives as long as the model."""
        encoder, special_ids = self.network.encoder, tuple(self.tokenizer.special_ids)
        reading = encoder, self.causal, special_ids
        return functools.cache(functools.partial(_encoding, *reading))


class _Rest:
    """A model without its parameters; equal for models that compute the same."""

    def __init__(self, model):
        self.model = dataclasses.replace(model, params=None)
        names = {f.name for f in dataclasses.fields(model)} - {
            *('params', 'network', 'tokenizer', 'name', 'record', 'facts')
        }
        self._parts = [
            model.network,
            model.tokenizer.fingerprint,
            {name: getattr(model, name) for name in sorted(names)},
        ]

    def __eq__(self, other):
        return isinstance(other, _Rest) and memo.equal(self._parts, other._parts)

    def __hash__(self):
        # Not of the encoder, as one may have fields that cannot be hashed.
        return hash(self.model.tokenizer.fingerprint)


def _check_text(name, text):
    if not isinstance(text, str):
        kind = type(text).__name__
        raise ValueError(f'{name}={text!r} is not a text, but a {kind}: give a string.')


def _shown(tokenizer, i):
    """The text of a token; the name of one without text, such as `<reserved_1>`."""
    return tokenizer.decode([i]) or tokenizer.backend.id_to_token(int(i))


# Models with the same encoder, such as those of several seeds, share their programs.
@memo.memoize
def _encoding(encoder, causal, special_ids, layer, pool):
    """(params, *batch) -> vectors; holds no reference to the model and its parameters."""
    last = layer == encoder.depth

    def encode(params, *batch):
        given = dict(causal=causal, every_layer=not last)
        with jax.named_scope('encoder'):
            hidden = encoder.apply({'params': params['encoder']}, *batch, **given)
        hidden_BLD = hidden if last else hidden[1][layer]
        valid_BL = pooling.valid_mask(pool, batch[1] > 0, batch[0], special_ids)
        return pooling.POOLINGS[pooling.base(pool)](hidden_BLD, valid_BL)

    return jax.jit(encode)
