"""The update: `(state, batch) -> (state, metrics)`, pure.

terms -> weights -> gradients (over microbatches) -> clip -> optimizer -> EMA
target -> memory -> guard
"""

import jax
import jax.numpy as jnp
import optax
from einops import rearrange

from jepa_text.cost import flops
from jepa_text.models.network import Network
from jepa_text.objectives.base import View
from jepa_text.training import memo
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
    diagnostics_every=100,
):
    """A train step for one phase.

    `schedule` gives the learning rate at a global step; `phase_start` is the first
    step of the phase, from which the objective counts. Metrics are float32 scalars
    of the whole batch. `accumulate` microbatches give the same gradient as one, but for
    InfoNCE and regularizers, which compare the vectors of one microbatch at a time. Every
    `diagnostics_every` steps (0: never), or as its balance asks, the objective runs its
    `diagnostics` on the first microbatch.
    """

    def step(state, batch):
        phase_step = state.step - phase_start
        view = view_of(network, objective, state, batch, phase_step)
        measured, fresh, state, view = _diagnose(
            objective, state, view, diagnostics_every, accumulate
        )
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
            memory={**memory, 'diagnostics': measured},
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
        measured = measured if objective.diagnostics_every(diagnostics_every) else {}
        metrics = _named(metrics) | measured | objective.derived(metrics, measured)
        return new, metrics | own

    return step


def _named(metrics):
    return {name if '/' in name else f'train/{name}': x for name, x in metrics.items()}


def _diagnose(objective, state, view, diagnostics_every, accumulate):
    """The last diagnostics, taken now if they are due; the same, NaN if they were not;
    the state and the view, for what comes after it."""
    last = state.memory['diagnostics']
    nothing = jax.tree.map(lambda value: jnp.full_like(value, jnp.nan), last)
    diagnostics_every = objective.diagnostics_every(diagnostics_every)
    if not diagnostics_every:
        return last, nothing, state, view
    # One microbatch: two gradients of the whole batch would need the memory that
    # microbatches save.
    batch = _first(_microbatches(view.batch, accumulate))
    microbatch = view.replace(batch=batch, counts=objective.counts(batch))
    measured, fresh = jax.lax.cond(
        view.step % diagnostics_every == 0,
        lambda: (objective.diagnostics(state.params, microbatch),) * 2,
        lambda: (last, nothing),
    )
    # The gradients wait for it: at once they would need the memory of both.
    measured, fresh, state = jax.lax.optimization_barrier((measured, fresh, state))
    return measured, fresh, state, view.replace(target=state.target, memory=state.memory)


def loss_of(objective, params, view):
    """The loss of a batch, or a part's share; and (metrics, what was seen)."""
    with jax.named_scope('loss'):
        loss, metrics, seen = objective.loss(params, view)
    return loss, (metrics, seen)


def cost(network, objective, batch):
    """flops.Count of the loss of a batch and its gradients, traced with XLA's attention,
    whatever the encoder attends by; `batch` may be shapes."""
    shapes = {k: jax.ShapeDtypeStruct(x.shape, x.dtype) for k, x in batch.items()}
    return _cost(network.encoder.clone(attention='xla'), objective, shapes)


@memo.once
def _cost(encoder, objective, batch):
    state = states.abstract(encoder, objective)
    gradients = jax.value_and_grad(
        loss(Network(encoder, objective), objective), has_aux=True
    )
    return flops.traced(gradients, state.params, state, batch)


def loss(network, objective):
    """(params, state, batch) -> (the loss of a step, (metrics, what was seen)); `state`
    gives all but parameters."""

    def run(params, state, batch):
        view = view_of(network, objective, state, batch, state.step)
        return loss_of(objective, params, view)

    return run


def view_of(network, objective, state, batch, step):
    """What the objective looks at in a step of the phase."""
    return View(
        apply=network.apply,
        target=state.target,
        memory=state.memory,
        batch=batch,
        step=step,
        counts=objective.counts(batch),
    )


def _gradients(objective, params, view, accumulate):
    """Loss, extras and gradients of the batch: the sum over its microbatches."""

    def value_and_grad(batch):
        return jax.value_and_grad(loss_of, argnums=1, has_aux=True)(
            objective, params, view.replace(batch=batch)
        )

    if accumulate == 1:
        return value_and_grad(view.batch)
    microbatches = _microbatches(view.batch, accumulate)

    def add(total, microbatch):
        return jax.tree.map(jnp.add, total, value_and_grad(microbatch)), None

    shapes = jax.eval_shape(value_and_grad, _first(microbatches))
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    total, _ = jax.lax.scan(add, zeros, microbatches)
    return total


def _microbatches(batch, accumulate):
    """The batch in microbatches, [A, B / A, ...]; each takes rows from every device, so
    that none idles."""
    return {
        key: rearrange(rows, '(b a) ... -> a b ...', a=accumulate)
        for key, rows in batch.items()
    }


def _first(microbatches):
    return {key: rows[0] for key, rows in microbatches.items()}


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
