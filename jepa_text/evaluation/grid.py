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
import optax

from jepa_text import losses
from jepa_text.evaluation import partition
from jepa_text.kinds import base, predicting
from jepa_text.models import transformer
from jepa_text.models.network import Network, key_of
from jepa_text.optim import optimizers

PRECISIONS = ('float32', 'bfloat16', 'paper_bf16')
MEMBERS = 'members'  # the axis of a mesh


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
        return predicting.with_features(*given)

    def train(self, rows, members, width=1, tell=None):
        """Yields (Member, params, losses_T) of each member; `params` are those of the
        model as it was given, with the head. NaN losses are a member's own: the rest go
        on. `tell` is called with the number of steps done and of all.
        """
        recipe, rows = self.recipe, self.read(rows)
        for start in range(0, len(members), width):
            group = list(members[start : start + width])
            # A group has one shape: what fills it is not yielded.
            full = group + [group[-1]] * (width - len(group) if width > 1 else 0)
            index_STB = np.stack(
                [orders(len(rows), m.seed, recipe.steps, recipe.batch_size) for m in full]
            )
            state = self._begin(full)
            rate_S = np.array([m.learning_rate for m in full], np.float32)
            losses = []
            for number, factor in enumerate(recipe.factors()):
                batch = self._batch(rows, index_STB[:, number])
                state, loss_S = self._step(len(full))(
                    state, self.frozen, rate_S * factor, batch
                )
                losses.append(loss_S)
                if tell is not None:
                    tell(start * recipe.steps + (number + 1) * len(group))
            losses_ST = np.stack(jax.device_get(losses), axis=1)
            for place, member in enumerate(group):
                trained = jax.tree.map(lambda x, i=place: x[i], state[0])
                params = partition.merged(trained, self.frozen)
                if self._unrolled:
                    params['encoder'] = transformer.stack_layers(params['encoder'])
                yield member, params, losses_ST[place]

    def lowered(self, rows, count):
        """The step of so many members on the longest of the rows, to be compiled."""
        lengths = [self.kind.row_length([row]) for row in rows]
        longest, size = int(np.argmax(lengths)), self.recipe.batch_size
        batch = self._batch(rows, np.full((count, size), longest))
        members = [Member(0.0, 0)] * count
        state = jax.eval_shape(functools.partial(self._fresh, members))
        rate_S = jax.ShapeDtypeStruct((count,), np.float32)
        state = _spread(state, count, _as_shape)
        return self._step(count).lower(state, self.frozen, rate_S, batch)

    def _begin(self, members):
        return _spread(self._fresh(members), len(members))

    def _fresh(self, members):
        """(params_S, opt_state_S, key_S, step) of a group."""
        heads = [self.head(member.seed) for member in members]
        count = len(members)
        params = {
            **jax.tree.map(lambda x: jnp.stack([x] * count), self.trained),
            base.HEAD: jax.tree.map(lambda *x: jnp.stack(x), *heads),
        }
        key_S = jnp.stack(
            [jax.random.key_data(key_of(member.seed)) for member in members]
        )
        return params, jax.vmap(self.tx.init)(params), key_S, jnp.zeros((), jnp.int32)

    def _batch(self, rows, index_SB):
        chosen = [[rows[i] for i in index_B if i >= 0] for index_B in index_SB]
        longest = max(map(self.kind.row_length, chosen))
        length, size = base.bucket(longest, self.maximum), index_SB.shape[1]
        parts = [self.kind.collate(part, size, length, self.pad_id) for part in chosen]
        return _spread(
            {key: np.stack([part[key] for part in parts]) for key in parts[0]}, len(parts)
        )

    def _compiled(self, count):
        """The step of a group of so many members."""
        network = self.network
        if self._unrolled:
            network = Network(network.encoder.clone(scan=False), self.kind)
        step = functools.partial(_step, network, self.kind, self.tx, self.recipe)
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


def _step(network, kind, optimizer, recipe, state, frozen, rate, batch):
    """One update of one member: (state, loss before it)."""
    params, opt_state, key, number = state
    dropout = jax.random.fold_in(jax.random.wrap_key_data(key), number)
    loss, grads = gradients(network, kind, recipe, params, frozen, batch, dropout)
    norm = optax.tree.norm(grads)
    scale = jnp.minimum(1.0, recipe.clip_norm / (norm + 1e-6))
    grads = jax.tree.map(lambda g: (g * scale).astype(g.dtype), grads)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = jax.tree.map(
        lambda p, u: (p - rate.astype(p.dtype) * u).astype(p.dtype), params, updates
    )
    return (params, opt_state, key, number + 1), loss


def gradients(network, kind, recipe, params, frozen, batch, dropout):
    """(loss of a batch, its gradient by what is trained)."""

    def outputs(params, part):
        rows, key = part
        return kind.outputs(
            network, partition.merged(params, frozen), rows, {'dropout': key}
        )

    def loss_of(outputs):
        total, count = kind.loss(outputs, batch)
        return total / jnp.maximum(count, 1)

    inputs = {name: batch[name] for name in base.INPUTS if name in batch}
    if recipe.microbatches == 1:
        return jax.value_and_grad(
            lambda params: loss_of(outputs(params, (inputs, dropout)))
        )(params)
    shape = recipe.microbatches, -1
    parts = jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), inputs)
    keys = jax.random.split(dropout, recipe.microbatches)
    return losses.cached_value_and_grad(outputs, loss_of, params, (parts, keys))


def _unrolls(encoder):
    """Are the layers of a scanned encoder trained one by one? On CPUs each step of a scan
    moves its part of all gradients and activations: a quarter of the time (LOG.md)."""
    return encoder.scan and jax.default_backend() == 'cpu'


def _spread(tree, count, place=jax.device_put):
    """Members over the devices that are here, where each gets as many as the others."""
    devices = jax.devices()
    if len(devices) == 1 or count % len(devices):
        return tree
    mesh = jax.sharding.Mesh(np.array(devices), (MEMBERS,))
    spec = jax.sharding.PartitionSpec

    def put(x):
        axes = spec(MEMBERS) if np.ndim(x) else spec()
        return place(x, jax.sharding.NamedSharding(mesh, axes))

    return jax.tree.map(put, tree)


def _as_shape(x, sharding):
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)
