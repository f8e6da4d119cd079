"""The training step: a pure function `(state, batch) -> (state, metrics)`.

diagnostics, if they are due
loss and gradients, summed over microbatches
gradient clipping, optimizer update, EMA target, memory of the objective
guard: a step whose loss or gradient is not finite leaves the state as it was
"""

import jax
import jax.numpy as jnp
import optax
from einops import rearrange

from jepa_text.models import memo
from jepa_text.models.attention import attend
from jepa_text.objectives.base import View
from jepa_text.parallel import sharding


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
    """Returns the step of one phase. Its metrics are float32 scalars of the whole batch.

    Args:
      optimizer: an optax.GradientTransformation, without a learning rate.
      schedule: the learning rate as a function of the step of the run.
      phase_start: the first step of the phase; objectives count steps from it.
      clip_norm: the largest global norm of the gradients.
      accumulate: microbatches per batch. The gradient does not depend on it, except with
        InfoNCE and regularizers, which compare the vectors of one microbatch.
      diagnostics_every: steps between runs of the objective's `diagnostics` on the first
        microbatch (0: never); its balance may change it.
    """
    every = objective.diagnostics_every(diagnostics_every)

    def step(state, batch):
        phase_step = state.step - phase_start
        view = view_of(network, objective, state, batch, phase_step)
        latest, fresh, state, view = _diagnose(objective, state, view, every, accumulate)
        (loss, (metrics, seen)), grads = _gradients(
            objective, state.params, view, accumulate
        )
        grad_norm = optax.tree.norm(grads)
        clip = jnp.minimum(1.0, clip_norm / jnp.maximum(grad_norm, 1e-12))
        grads = jax.tree.map(lambda gradient: gradient * clip, grads)
        learning_rate = schedule(state.step)
        params, opt_state = _update(optimizer, grads, state, learning_rate)
        memory = objective.update_memory(state.memory, seen, fresh)
        new = state.replace(
            params=params,
            target=objective.update_target(state.target, params['encoder'], phase_step),
            opt_state=opt_state,
            memory={**memory, 'diagnostics': latest},
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
        measured = latest if every else {}
        named = {k if '/' in k else f'train/{k}': x for k, x in metrics.items()}
        return new, named | measured | objective.derived(metrics, seen, measured) | own

    return step


def _diagnose(objective, state, view, every, accumulate):
    """Runs the objective's diagnostics if they are due.

    Returns (the latest diagnostics, those of this step or NaN, state, view). What follows
    must use the returned state and view, which order the computation.
    """
    last = state.memory['diagnostics']
    missing = jax.tree.map(lambda value: jnp.full_like(value, jnp.nan), last)
    if not every:
        return last, missing, state, view
    # On one microbatch: two gradients of the whole batch would need the memory that
    # microbatches save.
    batch = jax.tree.map(lambda x: x[0], _microbatches(view.batch, accumulate))
    microbatch = view.replace(batch=batch, counts=objective.counts(batch))
    measured, fresh = jax.lax.cond(
        view.step % every == 0,
        lambda: (objective.diagnostics(state.params, microbatch),) * 2,
        lambda: (last, missing),
    )
    # The gradients wait for the diagnostics: running both at once needs memory for both.
    measured, fresh, state = jax.lax.optimization_barrier((measured, fresh, state))
    return measured, fresh, state, view.replace(target=state.target, memory=state.memory)


def loss_of(objective, params, view):
    """Returns (loss, (metrics, what the objective remembers)) of a (micro)batch."""
    with jax.named_scope('loss'):
        loss, metrics, seen = objective.loss(params, view)
    return loss, (metrics, seen)


def view_of(network, objective, state, batch, step):
    """Returns what the objective sees in a step of the phase."""
    return View(
        apply=network.apply,
        target=state.target,
        memory=state.memory,
        batch=batch,
        step=step,
        counts=objective.counts(batch),
        run_step=state.step,
    )


def _gradients(objective, params, view, accumulate):
    """Returns ((loss, aux), gradients) of the batch: sums over its microbatches."""

    def value_and_grad(batch):
        return jax.value_and_grad(loss_of, argnums=1, has_aux=True)(
            objective, params, view.replace(batch=batch)
        )

    if accumulate == 1:
        return value_and_grad(view.batch)
    microbatches = _microbatches(view.batch, accumulate)

    def add(total, microbatch):
        return jax.tree.map(jnp.add, total, value_and_grad(microbatch)), None

    first = jax.tree.map(lambda rows: rows[0], microbatches)
    shapes = jax.eval_shape(value_and_grad, first)
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    total, _ = jax.lax.scan(add, zeros, microbatches)
    return total


def _microbatches(batch, accumulate):
    """Splits the batch into microbatches [A, B / A, ...].

    Each has rows of every device, so that no device idles.
    """
    return {
        key: rearrange(rows, '(b a) ... -> a b ...', a=accumulate)
        for key, rows in batch.items()
    }


@jax.named_scope('optimizer')
def _update(optimizer, grads, state, learning_rate):
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    scaled = jax.tree.map(lambda u: learning_rate * u, updates)
    return optax.apply_updates(state.params, scaled), opt_state


def _guard(new, old, finite):
    """Returns `new` if the step was finite, else `old` with updated counters."""

    def chosen(n, o):
        before, after = (f'{x.dtype}{list(x.shape)}' for x in (o, n))
        if after != before:  # `where` would broadcast
            raise ValueError(f'a step would turn a {before} of the state into {after}.')
        return jnp.where(finite, n, o)

    state = jax.tree.map(chosen, new, old)
    return state.replace(
        step=old.step + 1,
        skipped=old.skipped + ~finite,
        skipped_in_row=jnp.where(finite, 0, old.skipped_in_row + 1),
    )


def compiled(recipe, phase):
    """Returns the compiled step of a phase: `(state, batch) -> (state, metrics)`.

    On CPUs, a call waits until the previous step has ended
    (`sharding.synchronous_on_cpu`).
    """
    step = sharding.with_mesh(recipe.mesh, jitted(recipe, phase))
    return sharding.synchronous_on_cpu(recipe.mesh, step)


def jitted(recipe, phase):
    """Returns the jitted step, to be called or lowered inside the context of the mesh.

    The state is donated.
    """
    shardings = recipe.shardings(phase)
    return _jitted(phase.step, shardings, recipe.mesh, phase.max_documents)


@memo.memoize
def _jitted(step, shardings, mesh, max_documents):
    return jax.jit(
        attend.with_max_documents(max_documents, step),
        in_shardings=(shardings, sharding.batch_sharding(mesh)),
        out_shardings=(shardings, sharding.replicated(mesh)),
        donate_argnums=0,
    )
