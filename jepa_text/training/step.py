"""The update: `(state, batch) -> (state, metrics)`, pure.

terms -> weights -> gradients (over parts of the batch) -> clip -> optimizer -> EMA
target -> memory -> guard
"""

import functools

import jax
import jax.numpy as jnp
import optax
from einops import rearrange

from jepa_text.cost import flops
from jepa_text.models.network import Network
from jepa_text.objectives.base import View
from jepa_text.training import state as states


def make_step(
    network,
    objective,
    optimizer,
    schedule,
    *,
    phase_start,
    clip_norm,
    accumulate=1,
    look_every=100,
):
    """A train step for one phase.

    `schedule` gives the learning rate at a global step; `phase_start` is the first
    step of the phase, from which the objective counts. Metrics are float32 scalars
    of the whole batch. `accumulate` parts give the same gradient as one, but for InfoNCE
    and regularisers, which compare the vectors of one part at a time. Every `look_every`
    steps (0: never), or more often for its balance, the objective is looked at closely
    (its `look`), on the first part.
    """

    def step(state, batch):
        phase_step = state.step - phase_start
        view = _view(network, objective, state, batch, phase_step)
        look, fresh, state, view = _look(objective, state, view, look_every, accumulate)
        (loss, (metrics, seen)), grads = _gradients(
            objective, state.params, view, accumulate
        )
        grad_norm = optax.tree.norm(grads)
        grads = _clipped(grads, grad_norm, clip_norm)
        learning_rate = schedule(state.step)
        params, opt_state = _update(optimizer, grads, state, learning_rate)
        memory = objective.remember(state.memory, seen, fresh)
        new = state.replace(
            params=params,
            target=_move_target(objective, params, state.target, phase_step),
            opt_state=opt_state,
            memory={**memory, 'look': look},
        )
        new = _guard(new, state, jnp.isfinite(loss) & jnp.isfinite(grad_norm))
        own = {
            'train/tokens': jnp.sum(batch['segment_ids'] > 0),
            'train/masked_tokens': view.counts['tokens'],
            'train/loss': loss,
            'train/grad_norm': grad_norm,
            'train/learning_rate': learning_rate,
            'train/skipped': new.skipped,
            'train/skipped_in_row': new.skipped_in_row,
        }
        look = look if objective.look_every(look_every) else {}
        metrics = _named(metrics) | look | objective.derived(metrics, look)
        return new, metrics | own

    return step


def _named(metrics):
    return {name if '/' in name else f'train/{name}': x for name, x in metrics.items()}


def _look(objective, state, view, look_every, accumulate):
    """The last closer look, taken now if it is due; the same, NaN if it was not; the
    state and the view, for what comes after it."""
    last = state.memory['look']
    nothing = jax.tree.map(lambda value: jnp.full_like(value, jnp.nan), last)
    look_every = objective.look_every(look_every)
    if not look_every:
        return last, nothing, state, view
    # One part: two gradients of the whole batch would need the memory that parts save.
    batch = _first(_parts(view.batch, accumulate))
    part = view.replace(batch=batch, counts=objective.counts(batch))
    look, fresh = jax.lax.cond(
        view.step % look_every == 0,
        lambda: (objective.look(state.params, part),) * 2,
        lambda: (last, nothing),
    )
    # The gradients wait for it: at once they would need the memory of both.
    look, fresh, state = jax.lax.optimization_barrier((look, fresh, state))
    return look, fresh, state, view.replace(target=state.target, memory=state.memory)


def loss_of(objective, params, view):
    """The loss of a batch, or a part's share; and (metrics, what was seen)."""
    with jax.named_scope('loss'):
        loss, metrics, seen = objective.loss(params, view)
    return loss, (metrics, seen)


def cost(network, objective, batch):
    """flops.Count of the loss of a batch and its gradients, traced with XLA's attention,
    whatever the encoder attends by; `batch` may be shapes."""
    plain = Network(network.encoder.clone(attention='xla'), objective)
    create = functools.partial(states.create, plain, objective, optax.identity(), 0)
    state = jax.eval_shape(create)

    def run(params, state, batch):
        view = _view(plain, objective, state, batch, state.step)
        return loss_of(objective, params, view)

    gradients = jax.value_and_grad(run, has_aux=True)
    return flops.traced(gradients, state.params, state, batch)


def _view(network, objective, state, batch, step):
    return View(
        apply=network.apply,
        target=state.target,
        memory=state.memory,
        batch=batch,
        step=step,
        counts=objective.counts(batch),
    )


def _gradients(objective, params, view, accumulate):
    """Loss, extras and gradients of the batch: the sum over its parts."""

    def value_and_grad(batch):
        return jax.value_and_grad(loss_of, argnums=1, has_aux=True)(
            objective, params, view.replace(batch=batch)
        )

    if accumulate == 1:
        return value_and_grad(view.batch)
    parts = _parts(view.batch, accumulate)

    def add(total, part):
        return jax.tree.map(jnp.add, total, value_and_grad(part)), None

    shapes = jax.eval_shape(value_and_grad, _first(parts))
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    total, _ = jax.lax.scan(add, zeros, parts)
    return total


def _parts(batch, accumulate):
    """The batch in parts, [A, B / A, ...]; each takes rows from every device, so that
    none idles."""
    return {
        key: rearrange(rows, '(b a) ... -> a b ...', a=accumulate)
        for key, rows in batch.items()
    }


def _first(parts):
    return {key: rows[0] for key, rows in parts.items()}


def _clipped(grads, grad_norm, clip_norm):
    clip = jnp.minimum(1.0, clip_norm / jnp.maximum(grad_norm, 1e-12))
    return jax.tree.map(lambda g: g * clip, grads)


@jax.named_scope('optimizer')
def _update(optimizer, grads, state, learning_rate):
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    moved = jax.tree.map(lambda p, u: p - learning_rate * u, state.params, updates)
    return moved, opt_state


@jax.named_scope('ema')
def _move_target(objective, params, target, phase_step):
    """target <- m target + (1 - m) encoder, after the update."""
    if not objective.has_target:
        return target
    return objective.follow(target, params['encoder'], phase_step)


def _guard(new, old, finite):
    """`new` if the step was finite; else `old`, but for the counters."""
    kept = jax.tree.map(lambda n, o: jnp.where(finite, n, o), new, old)
    return kept.replace(
        step=old.step + 1,
        skipped=old.skipped + ~finite,
        skipped_in_row=jnp.where(finite, 0, old.skipped_in_row + 1),
    )
