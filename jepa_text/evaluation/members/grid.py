"""Training of a grid of members (learning rate x seed) by one compiled program.

    members    model --fresh head--> params_S --steps--> params_S, losses_ST

The learning rate is an array, and each member has its own data order, head and dropout.
`width` members are trained at once under vmap, spread over the available devices. With a
width of 1, members are trained one after another by the same compiled step, which is
faster on CPUs.

Only embedding rows that occur in the training set are trained. Other rows have no
gradient and only decay, by a factor known in advance. So a member trains a table of the
tokens in use, usually a tenth of the vocabulary or less, and its moments, gradients and
updates are that much smaller, with the same results.
"""

import functools
import zlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jepa_text import losses
from jepa_text.data import batching
from jepa_text.evaluation.members import fitting, packed
from jepa_text.models import memo, transformer
from jepa_text.models.attention import attend
from jepa_text.models.network import Network, key_from, key_of
from jepa_text.pretrained import base
from jepa_text.report import progress
from jepa_text.running import numerics

EMBEDDING = 'embedding'


class Member(NamedTuple):
    """The learning rate and seed that identify a member."""

    learning_rate: float
    seed: int


def orders(count, seed, steps, batch_size):
    """Returns index_TB, the rows of each batch: a random permutation per epoch, drawn by
    the seed. The last batch of an epoch is padded with -1.

    >>> orders(3, seed=0, steps=2, batch_size=2).tolist()
    [[2, 0], [1, -1]]
    """
    per_epoch = -(-count // batch_size)
    index_EN = np.full((-(-steps // per_epoch), per_epoch * batch_size), -1)
    for epoch, index_N in enumerate(index_EN):
        index_N[:count] = np.random.default_rng([seed, epoch]).permutation(count)
    return index_EN.reshape(-1, batch_size)[:steps]


class Grid:
    """The training program of all members of one model and kind; `recipe` is the
    config.Finetuning that they share."""

    def __init__(self, model, kind, recipe, max_length=None):
        numerics.check()
        self.kind, self.recipe = kind, recipe
        self.maximum = min(max_length or model.length, model.length)
        self.pad_id = model.tokenizer.pad_id
        encoder, params = model.network.encoder, model.params['encoder']
        if recipe.precision != 'float32':
            encoder = encoder.clone(dtype='bfloat16')
        self.network = Network(encoder, kind)
        # On CPUs each step of a scan copies its part of all gradients and activations,
        # which takes a quarter of the time (LOG.md).
        # A ModernBERT of one layer has none to unroll: its first differs from others.
        is_cpu = jax.default_backend() == 'cpu'
        self._unrolled = is_cpu and getattr(encoder, 'scan', False) and 'layers' in params
        if self._unrolled:
            params = transformer.unstack_layers(params)
        if recipe.unit_norm:
            params = with_unit_norm(params)
        self.encoder_params = self._cast(params)

    def head(self, seed):
        """Initializes the head's parameters from a seed; {} for a kind without head."""
        module = self.network.modules.get(base.HEAD)
        if module is None:
            return {}
        key = jax.random.fold_in(key_of(seed), zlib.crc32(base.HEAD.encode()))
        return self._cast(module.init(key, *module.example())['params'])

    def _cast(self, params):
        is_low = self.recipe.precision == 'paper_bf16'
        dtype = jnp.bfloat16 if is_low else jnp.float32
        return jax.tree.map(lambda x: jnp.asarray(x, dtype), params)

    def train(self, rows, members, width=1):
        """Yields (Member, params, losses_T) of each member.

        `params` has the layout of the given model, plus the head. A member whose losses
        are NaN does not affect the others. A bar shows the steps of all members.
        """
        recipe, used, shape = self.recipe, self._used_tokens(rows), self.shape(rows)
        with progress.Progress('fine-tune', len(members) * recipe.steps) as bar:
            for start in range(0, len(members), width):
                group = list(members[start : start + width])
                # All groups have one compiled shape; copies that pad it are not yielded.
                full = group + [group[-1]] * (width - len(group))
                sizes = recipe.steps, recipe.batch_size
                index_STB = np.stack([orders(len(rows), m.seed, *sizes) for m in full])
                state = fitting.spread(self._fresh(full, used), len(full))
                update = self.program(len(full), used, shape)
                rate_S = np.array([m.learning_rate for m in full], np.float32)
                loss_TS = []
                for number, factor in enumerate(recipe.factors()):
                    batch = self._batch(rows, index_STB[:, number], used, shape)
                    state, loss_S = update(state, rate_S * factor, batch)
                    loss_TS.append(loss_S)
                    if number:
                        # A step is dispatched while the one before it still runs.
                        jax.block_until_ready(loss_TS[number - 1])
                        bar.update(start * recipe.steps + number * len(group))
                losses_ST = np.stack(jax.device_get(loss_TS), axis=1)
                bar.update((start + len(group)) * recipe.steps)
                for index, member in enumerate(group):
                    trained = jax.tree.map(lambda x, i=index: x[i], state[0])
                    trained = self._final_params(trained, member, used)
                    yield member, trained, losses_ST[index]

    def lowered(self, rows, count):
        """Lowers the step of `count` members on the longest of the rows."""
        lengths = [self.kind.row_length([row]) for row in rows]
        longest, size = int(np.argmax(lengths)), self.recipe.batch_size
        used, shape = self._used_tokens(rows), self.shape(rows)
        batch = self._batch(rows, np.full((count, size), longest), used, shape)
        members = [Member(0.0, 0)] * count
        state = jax.eval_shape(functools.partial(self._fresh, members, used))
        rate_S = jax.ShapeDtypeStruct((count,), np.float32)
        state = fitting.spread(state, count)
        return self.program(count, used, shape).lower(state, rate_S, batch)

    def shape(self, rows):
        """Returns the packed.Shape of the batches of these rows, for all members; None if
        padding costs no more, or batches are in microbatches."""
        steps, size = self.recipe.steps, self.recipe.batch_size
        if self.recipe.microbatches > 1:
            return None
        index_TB = np.concatenate([orders(len(rows), s, steps, size) for s in range(5)])
        lengths_N = list(map(self.kind.lengths, rows))
        width = self.network.encoder.width
        return packed.shape_of(lengths_N, index_TB, self.maximum, width)

    def _used_tokens(self, rows):
        """Returns the InUse of the rows; None to train the table as it is, as in
        paper_bf16, whose decay is rounded at each step."""
        if self.recipe.precision == 'paper_bf16':
            return None
        kind, size = self.kind, self.recipe.batch_size
        used_V = np.zeros(len(self.encoder_params[EMBEDDING]), bool)
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            batch = kind.collate(part, len(part), kind.row_length(part), self.pad_id)
            used_V[batch['tokens']] = True
        index_V = np.maximum(np.cumsum(used_V) - 1, 0).astype(np.int32)
        return InUse(np.flatnonzero(used_V), index_V)

    def _final_params(self, params, member, used):
        """Returns the parameters of a trained member in the layout of the given model."""
        if used is not None:
            whole_VD = self.encoder_params[EMBEDDING]
            schedule = self.recipe.factors(), self.recipe.weight_decay
            decayed_VD = whole_VD * decay_factor(member.learning_rate, *schedule)
            trained_UD = params['encoder'][EMBEDDING]
            params['encoder'][EMBEDDING] = decayed_VD.at[used.used_U].set(trained_UD)
        if self._unrolled:
            params['encoder'] = transformer.stack_layers(params['encoder'])
        return params

    def _fresh(self, members, used=None):
        """Returns the initial (params_S, opt_state_S, key_S, step) of a group."""
        heads = [self.head(member.seed) for member in members]
        encoder = self.encoder_params
        if used is not None:
            encoder = encoder | {EMBEDDING: encoder[EMBEDDING][used.used_U]}
        params = {
            'encoder': jax.tree.map(lambda x: jnp.stack([x] * len(members)), encoder),
            base.HEAD: jax.tree.map(lambda *x: jnp.stack(x), *heads),
        }
        key_S = jnp.stack([jax.random.key_data(key_of(m.seed)) for m in members])
        return (
            params,
            jax.vmap(self.recipe.optimizer().init)(params),
            key_S,
            jnp.zeros((), jnp.int32),
        )

    def _batch(self, rows, index_SB, used=None, shape=None):
        chosen = [[rows[i] for i in index_B if i >= 0] for index_B in index_SB]
        longest = max(map(self.kind.row_length, chosen))
        length, size = batching.padded(longest, self.maximum), index_SB.shape[1]
        if shape is not None:
            length = shape.length
        parts = [self.kind.collate(part, size, length, self.pad_id) for part in chosen]
        if used is not None:
            parts = [part | {'tokens': used.index_V[part['tokens']]} for part in parts]
        if shape is not None:
            parts = packed.batches(parts, shape)
        return fitting.spread(
            {key: np.stack([part[key] for part in parts]) for key in parts[0]}, len(parts)
        )

    def program(self, count, used, shape):
        """Returns the compiled step of `count` members; `used`, `shape` may be None."""
        encoder = self.network.encoder
        if self._unrolled:
            encoder = encoder.clone(scan=False)
        if used is not None:
            encoder = encoder.clone(vocab_size=len(used.used_U))
        network, texts = Network(encoder, self.kind), shape.texts if shape else 1
        return program(network, self.kind, self.recipe, count, texts)


@memo.memoize
def program(network, kind, recipe, count, texts):
    """Returns the compiled step of `count` members, with at most `texts` per row; grids
    of models with equal networks share it."""
    one = functools.partial(step, network, kind, recipe)
    one = attend.with_max_documents(texts, one)
    axes = dict(in_axes=((0, 0, 0, None), 0, 0), out_axes=((0, 0, 0, None), 0))
    mapped = jax.vmap(one, **axes) if count > 1 else _without_vmap(one)
    return jax.jit(mapped, donate_argnums=0)


def _without_vmap(step):
    """Returns a step that removes and re-adds a member axis of size 1."""

    def single(state, rate_1, batch):
        squeeze = functools.partial(jax.tree.map, lambda x: x[0])
        *member, number = state
        state = (*squeeze(member), number)
        (*member, number), loss = step(state, rate_1[0], squeeze(batch))
        expand = functools.partial(jax.tree.map, lambda x: x[None])
        return (*expand(member), number), loss[None]

    return single


def step(network, kind, recipe, state, rate, batch):
    """Updates a member by the clipped gradient; returns (state, loss before it)."""
    params, opt_state, key, number = state
    dropout = jax.random.fold_in(key_from(key), number)
    loss, grads = gradients(network, kind, recipe, params, batch, dropout)
    norm = optax.tree.norm(grads)
    scale = jnp.minimum(1.0, recipe.clip_norm / (norm + 1e-6))
    grads = jax.tree.map(lambda g: (g * scale).astype(g.dtype), grads)
    updates, opt_state = recipe.optimizer().update(grads, opt_state, params)
    if base.HEAD in updates:
        head = jax.tree.map(lambda u: recipe.head_rate * u, updates[base.HEAD])
        updates = updates | {base.HEAD: head}
    params = jax.tree.map(
        lambda p, u: (p + rate.astype(p.dtype) * u).astype(p.dtype), params, updates
    )
    return (params, opt_state, key, number + 1), loss


def gradients(network, kind, recipe, params, batch, dropout):
    """Returns (loss of a batch, its gradient with respect to the parameters)."""

    def outputs(params, part):
        rows, key = part
        return kind.outputs(network, params, rows, {'dropout': key})

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


def with_unit_norm(params):
    """Returns an encoder's parameters with the last norm, if any, scaled to unit size.

    A tied LM head makes it small, here 0.1. Vectors of that size would take the head of a
    task, which starts at random, ten times as many steps (LOG.md).

    >>> with_unit_norm({'norm': {'scale': jnp.array([1.0, 7.0])}})['norm']['scale'] * 5
    Array([1., 7.], dtype=float32)
    """
    if 'norm' not in params:
        return params
    size = jnp.sqrt(jnp.mean(jnp.square(params['norm']['scale'])))
    return {**params, 'norm': jax.tree.map(lambda x: x / size, params['norm'])}


class InUse(NamedTuple):
    """The ids of the tokens that occur in the training set, in order, and the index among
    these of each token of the vocabulary, arbitrary for unused ones."""

    used_U: np.ndarray
    index_V: np.ndarray


def decay_factor(rate, factors, weight_decay):
    """Returns the factor by which weight decay alone scales a parameter over all steps:
    the product of 1 - rate * factors[t] * weight_decay (Loshchilov & Hutter 2019,
    algorithm 2)."""
    steps_T = 1 - float(rate) * np.asarray(factors, np.float64) * weight_decay
    with np.errstate(over='ignore'):  # such a member is reported as not finite
        return np.float32(np.prod(steps_T))
