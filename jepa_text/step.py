"""The update: `(state, batch) -> (state, metrics)`, pure.

gradients (over parts of the batch) -> guard -> clip -> optimizer -> EMA target
"""

import jax
import jax.numpy as jnp
import optax
from einops import rearrange


def make_step(
    network, objective, optimizer, schedule, *, phase_start, clip_norm, accumulate=1
):
    """A train step for one phase.

    `schedule` gives the learning rate at a global step; `phase_start` is the first
    step of the phase, from which the objective counts. Metrics are float32 scalars
    of the whole batch. `accumulate` parts give the same gradient as one.
    """

    def step(state, batch):
        counts = objective.counts(batch)
        phase_step = state.step - phase_start

        def loss_of(params, part):
            return objective.loss(
                network.apply, params, state.target, part, phase_step, counts
            )

        loss, metrics, grads = _gradients(loss_of, state.params, batch, accumulate)
        grad_norm = optax.tree.norm(grads)
        finite = jnp.isfinite(loss) & jnp.isfinite(grad_norm)
        clip = jnp.minimum(1.0, clip_norm / jnp.maximum(grad_norm, 1e-12))
        grads = jax.tree.map(lambda g: g * clip, grads)
        learning_rate = schedule(state.step)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params = jax.tree.map(lambda p, u: p - learning_rate * u, state.params, updates)
        target = state.target
        if objective.has_target:
            momentum = objective.momentum(phase_step)
            target = optax.incremental_update(params['encoder'], target, 1 - momentum)
        new = state.replace(params=params, target=target, opt_state=opt_state)
        # A step that is not finite changes nothing but the counters.
        new = jax.tree.map(lambda n, o: jnp.where(finite, n, o), new, state)
        new = new.replace(
            step=state.step + 1,
            skipped=state.skipped + ~finite,
            skipped_in_row=jnp.where(finite, 0, state.skipped_in_row + 1),
        )
        metrics = {
            name if '/' in name else f'train/{name}': x for name, x in metrics.items()
        }
        return new, metrics | {
            'train/loss': loss,
            'train/grad_norm': grad_norm,
            'train/learning_rate': learning_rate,
            'train/skipped': new.skipped,
            'train/skipped_in_row': new.skipped_in_row,
        }

    return step


def _gradients(loss_of, params, batch, accumulate):
    """loss, metrics and gradients of the batch: the sum over its parts."""
    value_and_grad = jax.value_and_grad(loss_of, has_aux=True)
    if accumulate == 1:
        (loss, metrics), grads = value_and_grad(params, batch)
        return loss, metrics, grads
    # Every part takes rows from every device, so that none idles.
    parts = {
        k: rearrange(x, '(b a) ... -> a b ...', a=accumulate) for k, x in batch.items()
    }

    def add(total, part):
        (loss, metrics), grads = value_and_grad(params, part)
        return jax.tree.map(jnp.add, total, (loss, metrics, grads)), None

    shapes = jax.eval_shape(value_and_grad, params, jax.tree.map(lambda x: x[0], parts))
    (loss, metrics), grads = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    total, _ = jax.lax.scan(add, (loss, metrics, grads), parts)
    return total
