"""Members (learning rate x seed) of one fine-tuning, trained by one program.

    members   model --fresh head--> params_S --steps--> params_S, losses_ST

The learning rate is an array, and every member has its own order of the data, its own
head and its own dropout. `width` members go at once under vmap, spread over the devices
that are here; what is frozen is shared. With a width of 1 they go one after the other
through the same compiled step: on CPUs that is faster.
"""

import dataclasses
import functools
import zlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.data import batching
from jepa_text.evaluation.members import packed, partition, placement, vocabulary
from jepa_text.evaluation.members import step as member_step
from jepa_text.kinds import base, prediction
from jepa_text.models import transformer
from jepa_text.models.attention import attend
from jepa_text.models.network import Network, key_of
from jepa_text.optim import optimizers

PRECISIONS = ('float32', 'bfloat16', 'paper_bf16')


class Member(NamedTuple):
    """What tells one from another."""

    learning_rate: float
    seed: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """How every member is trained.

    steps, batch_size   of rows; the last batch of an epoch may be smaller
    warmup              share of the steps in which the rate rises from 0, before it
                        falls to 0 in a line
    layers              how many of the last ones are trained; None: all, and embeddings
    microbatches        into so many parts a batch is cut, of which one is in memory; the
                        same numbers for one more forward pass (losses/cached.py)
    precision           float32: all; bfloat16: products, with float32 parameters;
                        paper_bf16: parameters, moments and updates, too, which leaves
                        small updates without effect (2507.00994's fine-tuning)
    """

    steps: int
    batch_size: int = 32
    warmup: float = 0.1
    layers: int | None = None
    microbatches: int = 1
    precision: str = 'float32'
    b1: float = 0.9
    b2: float = 0.95
    eps: float = 1e-5
    weight_decay: float = 0.1
    clip_norm: float = 1.0

    def optimizer(self):
        """AdamW without its rate: optim/optimizers.py."""
        low = self.precision == 'paper_bf16'
        return optimizers.adamw(
            b1=self.b1,
            b2=self.b2,
            eps=self.eps,
            weight_decay=self.weight_decay,
            momentum_dtype='bfloat16' if low else 'float32',
        )

    def factors(self):
        """factor_T, float32: of the rate at each step, 0 at the first where it rises."""
        warm = round(self.warmup * self.steps)
        step_T = np.arange(self.steps, dtype=np.float64)
        rise_T = step_T / max(1, warm)
        fall_T = (self.steps - step_T) / max(1, self.steps - warm)
        return np.where(step_T < warm, rise_T, fall_T).astype(np.float32)


def orders(count, seed, steps, batch_size):
    """index_TB: rows of each batch, all of them once an epoch in an order of the seed's;
    -1 where the last batch of an epoch is not full.

    >>> orders(3, seed=0, steps=2, batch_size=2).tolist()
    [[2, 0], [1, -1]]
    """
    per_epoch = -(-count // batch_size)
    rows = []
    for epoch in range(-(-steps // per_epoch)):
        order = np.random.default_rng([seed, epoch]).permutation(count)
        filled = np.full(per_epoch * batch_size, -1)
        filled[:count] = order
        rows.append(filled.reshape(per_epoch, batch_size))
    return np.concatenate(rows)[:steps]


def shape_of(encoder, kind, recipe, maximum, rows):
    """packed.Shape of the batches of these rows, the same for all members; None where
    padded rows cost no more, an encoder read them before, or the parts of a batch go one
    by one."""
    if rows[0].features is not None or recipe.microbatches > 1:
        return None
    given = recipe.steps, recipe.batch_size
    index_TB = np.concatenate([orders(len(rows), seed, *given) for seed in range(5)])
    lengths_N = list(map(kind.lengths, rows))
    return packed.shape_of(lengths_N, index_TB, maximum, encoder.width)


class Grid:
    """The program of all members: made once for a model, a kind and a recipe."""

    def __init__(self, model, kind, recipe, max_length=None):
        self.kind, self.recipe = kind, recipe
        self.maximum = min(max_length or model.length, model.length)
        self.pad_id = model.tokenizer.pad_id
        self.tx = recipe.optimizer()
        encoder, params = model.network.encoder, model.params['encoder']
        encoder, params = partition.arranged(encoder, params, recipe)
        self.network = Network(encoder, kind)
        partition.check_head(self.network, recipe)
        self._unrolled = recipe.layers is None and _unrolls(encoder)
        if self._unrolled:
            params = transformer.unstack_layers(params)
        self.trained, self.frozen = partition.split(params, recipe.layers)
        self._step = functools.lru_cache(self._compiled)

    def head(self, seed):
        """The fresh parameters of the head, of the seed; {} of a kind without one."""
        module = self.network.modules.get(base.HEAD)
        if module is None:
            return {}
        key = jax.random.fold_in(key_of(seed), zlib.crc32(base.HEAD.encode()))
        return partition.cast(module.init(key, *module.example())['params'], self.recipe)

    def read(self, rows):
        """The rows, with what the head reads of them where no layer is trained."""
        if self.recipe.layers != 0 or rows[0].features is not None:
            return rows
        given = self.network, self.kind, self.frozen, rows, self.pad_id, self.maximum
        return prediction.with_features(*given)

    def train(self, rows, members, width=1, tell=None):
        """Yields (Member, params, losses_T) of each member; `params` are those of the
        model as it was given, with the head. NaN losses are a member's own: the rest go
        on. `tell` is called with the number of steps done and of all.
        """
        recipe, rows = self.recipe, self.read(rows)
        words, shape = self._words(rows), self.shape(rows)
        for start in range(0, len(members), width):
            group = list(members[start : start + width])
            # A group has one shape: what fills it is not yielded.
            full = group + [group[-1]] * (width - len(group) if width > 1 else 0)
            index_STB = np.stack(
                [orders(len(rows), m.seed, recipe.steps, recipe.batch_size) for m in full]
            )
            state = self._begin(full, words)
            step = self.program(len(full), words, shape)
            rate_S = np.array([m.learning_rate for m in full], np.float32)
            losses = []
            for number, factor in enumerate(recipe.factors()):
                batch = self._batch(rows, index_STB[:, number], words, shape)
                state, loss_S = step(state, self.frozen, rate_S * factor, batch)
                losses.append(loss_S)
                if tell is not None:
                    tell(start * recipe.steps + (number + 1) * len(group))
            losses_ST = np.stack(jax.device_get(losses), axis=1)
            for place, member in enumerate(group):
                trained = jax.tree.map(lambda x, i=place: x[i], state[0])
                yield member, self._ended(trained, member, words), losses_ST[place]

    def lowered(self, rows, count):
        """The step of so many members on the longest of the rows, to be compiled."""
        lengths = [self.kind.row_length([row]) for row in rows]
        longest, size = int(np.argmax(lengths)), self.recipe.batch_size
        words, shape = self._words(rows), self.shape(rows)
        batch = self._batch(rows, np.full((count, size), longest), words, shape)
        members = [Member(0.0, 0)] * count
        state = jax.eval_shape(functools.partial(self._fresh, members, words))
        rate_S = jax.ShapeDtypeStruct((count,), np.float32)
        state = placement.shapes(state, count)
        step = self.program(count, words, shape)
        return step.lower(state, self.frozen, rate_S, batch)

    def shape(self, rows):
        """packed.Shape of what the encoder reads of a batch; None where it reads that as
        it is."""
        return shape_of(self.network.encoder, self.kind, self.recipe, self.maximum, rows)

    def _words(self, rows):
        """vocabulary.InUse of the rows; None if the embedding is not trained. In pure
        bfloat16 decay is rounded at each step, and the whole table is trained."""
        table_VD = self.trained['encoder'].get(vocabulary.EMBEDDING)
        if table_VD is None or self.recipe.precision == 'paper_bf16':
            return None
        size = self.recipe.batch_size
        parts = (rows[start : start + size] for start in range(0, len(rows), size))
        batches = (
            self.kind.collate(part, len(part), self.kind.row_length(part), self.pad_id)
            for part in parts
        )
        return vocabulary.in_use(batches, len(table_VD))

    def _ended(self, trained, member, words):
        """The parameters of a member in the layout of the model that was given."""
        params = partition.merged(trained, self.frozen)
        if words is not None:
            recipe, whole_VD = self.recipe, self.trained['encoder'][vocabulary.EMBEDDING]
            given = member.learning_rate, recipe.factors(), recipe.weight_decay
            params['encoder'] = words.restored(
                params['encoder'], whole_VD, vocabulary.kept(*given)
            )
        if self._unrolled:
            params['encoder'] = transformer.stack_layers(params['encoder'])
        return params

    def _begin(self, members, words=None):
        return placement.arrays(self._fresh(members, words), len(members))

    def _fresh(self, members, words=None):
        """(params_S, opt_state_S, key_S, step) of a group."""
        heads = [self.head(member.seed) for member in members]
        count, trained = len(members), self.trained
        if words is not None:
            trained = {'encoder': words.cut(trained['encoder'])}
        params = {
            **jax.tree.map(lambda x: jnp.stack([x] * count), trained),
            base.HEAD: jax.tree.map(lambda *x: jnp.stack(x), *heads),
        }
        key_S = jnp.stack(
            [jax.random.key_data(key_of(member.seed)) for member in members]
        )
        return params, jax.vmap(self.tx.init)(params), key_S, jnp.zeros((), jnp.int32)

    def _batch(self, rows, index_SB, words=None, shape=None):
        chosen = [[rows[i] for i in index_B if i >= 0] for index_B in index_SB]
        longest = max(map(self.kind.row_length, chosen))
        length, size = batching.padded(longest, self.maximum), index_SB.shape[1]
        if shape is not None:
            length = shape.length
        parts = [self.kind.collate(part, size, length, self.pad_id) for part in chosen]
        if words is not None:
            parts = list(map(words.read, parts))
        if shape is not None:
            parts = packed.batches(parts, shape)
        return placement.arrays(
            {key: np.stack([part[key] for part in parts]) for key in parts[0]}, len(parts)
        )

    def program(self, count, words, shape):
        """The step of so many members, for vocabulary.InUse and packed.Shape, or None."""
        tokens, texts = words and len(words.used_U), shape.texts if shape else 1
        return self._step(count, tokens, texts)

    def _compiled(self, count, tokens, texts):
        """The step of a group of so many members, of so many tokens, or all (None), and
        of so many texts in a row."""
        encoder = self.network.encoder
        if self._unrolled:
            encoder = encoder.clone(scan=False)
        if tokens is not None:
            encoder = encoder.clone(vocab_size=tokens)
        network = Network(encoder, self.kind)
        given = network, self.kind, self.tx, self.recipe
        step = attend.of_documents(texts, functools.partial(member_step.step, *given))
        axes = dict(in_axes=((0, 0, 0, None), None, 0, 0), out_axes=((0, 0, 0, None), 0))
        if count > 1:
            return jax.jit(jax.vmap(step, **axes), donate_argnums=0)

        def alone(state, frozen, rate_1, batch):
            first = functools.partial(jax.tree.map, lambda x: x[0])
            *own, number = state
            made, loss = step((*first(own), number), frozen, rate_1[0], first(batch))
            again = functools.partial(jax.tree.map, lambda x: x[None])
            return (*again(list(made[:3])), made[3]), loss[None]

        return jax.jit(alone, donate_argnums=0)


def _unrolls(encoder):
    """Are the layers of a scanned encoder trained one by one? On CPUs each step of a scan
    moves its part of all gradients and activations: a quarter of the time (LOG.md)."""
    return encoder.scan and jax.default_backend() == 'cpu'
