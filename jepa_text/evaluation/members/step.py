"""One training step of one member: gradient, clipping and parameter update.

state = params, opt_state, dropout key, step number
"""

import functools

import jax
import jax.numpy as jnp
import optax

from jepa_text import losses
from jepa_text.models import memo
from jepa_text.models.attention import attend
from jepa_text.models.network import key_from
from jepa_text.pretrained import base


@memo.memoize
def program(network, kind, recipe, count, texts):
    """Returns the compiled step of `count` members, with at most `texts` per row.

    Grids of models with equal networks share it.
    """
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
