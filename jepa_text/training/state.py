"""The training state: one pytree, its first value, and its transition between phases.

    create, enter_phase      pure functions
    first, entered           the same, compiled for the phases of a recipe and its mesh

Phases with equal parts have the same programs, also if they belong to different runs of
this process, as the members of a study: each is traced and compiled once
(models/memo.py).
"""

import functools
import re
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax

from jepa_text.models import memo
from jepa_text.models.network import Network, key_from, key_of
from jepa_text.optim.leaves import path_name


@flax.struct.dataclass
class TrainState:
    """Everything that changes during training.

    step              batches consumed
    params            {module: parameters}
    target            EMA of params['encoder'], or None
    memory            what the objective and its last diagnostics carry from step to step,
                      outside the gradient, and the random key of the seed
    opt_state         state of the optimizer
    skipped           updates left out because they were not finite
    skipped_in_row    the same, since the last finite update
    """

    step: jax.Array
    params: dict
    target: Any
    memory: dict
    opt_state: Any
    skipped: jax.Array
    skipped_in_row: jax.Array


def create(network, objective, optimizer, seed):
    """Returns the state before the first step, given a seed or its key.

    Pure: jit it with output shardings to create the state on its devices.
    """
    params = network.init(seed)
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        target=_copy(params['encoder']) if objective.has_target else None,
        memory={
            **objective.memory(),
            # In the state, so that one program serves all seeds.
            'key': jax.random.key_data(key_of(seed)),
            # NaN until measured: zero would be a value.
            'diagnostics': {
                name: jnp.float32(jnp.nan) for name in objective.diagnostic_names
            },
        },
        opt_state=optimizer.init(params),
        skipped=jnp.zeros((), jnp.int32),
        skipped_in_row=jnp.zeros((), jnp.int32),
    )


def _copy(params):
    """A copy in buffers of its own, as one buffer cannot be donated twice."""
    return jax.tree.map(jnp.copy, params)


def abstract(encoder, objective):
    """Returns shapes and dtypes of a state without those of an optimizer.

    They depend neither on the attention backend nor on rematerialization.
    """
    plain = {'attention': 'xla', 'remat': 'none'}
    plain = {name: value for name, value in plain.items() if hasattr(encoder, name)}
    return _abstract(encoder.clone(**plain), objective)


@memo.memoize
def _abstract(encoder, objective):
    inputs = Network(encoder, objective), objective, optax.identity(), 0
    return jax.eval_shape(functools.partial(create, *inputs))


def enter_phase(state, network, objective, optimizer, seed, reset=None, forgotten=()):
    """Returns the state at the start of the next phase.

    params      Modules that the objective needs and the state lacks are created, and
                those that it does not need are dropped. A head that was tied and gets a
                kernel of its own starts as the embedding. A module whose shapes differ
                from those of the module of the same name, such as a predictor of another
                kind, is reinitialized (`reshaped_modules`).
    target      A copy of the encoder, unless the previous phase had a target.
    opt_state   Leaves stay as they are, except those of new parameters and those whose
                path matches the regular expression `reset` ('.*': all, '/lm_head/': the
                head's moments and ages), which are new.
    memory      Entries stay as they are, except diagnostics and those in `forgotten`.

    Raises ValueError if trained weights of encoder or head would be lost.
    """
    fresh = create(network, objective, optimizer, seed)
    old = with_head(state.params, fresh.params)
    reshaped = reshaped_modules(old, fresh.params)
    params = {
        name: old[name] if name in old and name not in reshaped else module
        for name, module in fresh.params.items()
    }
    target = None
    if objective.has_target:
        target = _copy(params['encoder']) if state.target is None else state.target
    patterns = [reset] if reset else []
    # Names of modules are parts of the paths of their moments.
    patterns += [f'(^|/){re.escape(name)}/' for name in reshaped]
    known = {name: x for name, x in state.memory.items() if name not in forgotten}
    return state.replace(
        params=params,
        target=target,
        memory=_carry(known, fresh.memory, '^diagnostics/'),
        opt_state=_carry(state.opt_state, optimizer.init(params), '|'.join(patterns)),
    )


def reshaped_modules(before, after):
    """Returns the names of modules in both trees of parameters whose shapes differ.

    Raises ValueError if the encoder is one of them, or if the head is, or would lose its
    own kernel.
    """
    changed = [n for n in after if n in before and shapes(before[n]) != shapes(after[n])]
    if 'lm_head' in changed and 'output' in before['lm_head']:
        raise ValueError(
            'the head has a kernel of its own, which tied=True would discard. Set tied '
            'to the same value in both phases.'
        )
    if lost := {'encoder', 'lm_head'} & set(changed):
        raise ValueError(f'the shapes of {" and ".join(sorted(lost))} would change.')
    return changed


def with_head(params, shapes):
    """Returns params with an untied head if `shapes` has one and `params` has not.

    The new kernel starts as the transposed embedding.
    """
    head, wanted = params.get('lm_head'), shapes.get('lm_head', {})
    if head is None or 'output' not in wanted or 'output' in head:
        return params
    kernel_DV = params['encoder']['embedding'].T
    return {**params, 'lm_head': {**head, 'output': {'kernel': kernel_DV}}}


def named(tree):
    """Returns {path such as 'encoder/embedding': leaf}."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {path_name(path): leaf for path, leaf in leaves}


def shapes(tree):
    """Returns {path: shape} of the leaves of a tree."""
    return {name: jnp.shape(leaf) for name, leaf in named(tree).items()}


def _carry(old, new, reset):
    """Returns `new` with the leaves of `old` that have the same path and shape.

    Paths that match the regular expression `reset` (if not empty) are not carried over.
    """
    carried = named(old)

    def choose(path, leaf):
        name = path_name(path)
        if name not in carried or (reset and re.search(reset, name)):
            return leaf
        same_shape = jnp.shape(carried[name]) == jnp.shape(leaf)
        return carried[name] if same_shape else leaf

    return jax.tree_util.tree_map_with_path(choose, new)


def first(recipe, phase):
    """Returns the first state of a run that begins with a phase, on its devices."""
    return _creating(
        phase.network,
        phase.objective,
        recipe.optimizer,
        recipe.shardings(phase),
    )(_key_data(recipe))


@memo.memoize
def _creating(network, objective, optimizer, shardings):
    def created(data):
        # An argument, so that one program serves all seeds.
        return create(network, objective, optimizer, key_from(data))

    return jax.jit(created, out_shardings=shardings)


def entered(recipe, phase, state):
    """Returns the state at the first step of a phase, with the shardings of the phase."""
    return _enter(recipe, phase)(state, _key_data(recipe))


def entered_shapes(recipe, phase, state):
    """Returns shapes and dtypes of what `entered` returns, given those of the state."""
    return _enter(recipe, phase).eval_shape(state, _key_data(recipe))


def _enter(recipe, phase):
    before = recipe.phases[max(phase.index - 1, 0)].objective
    return _entering(
        phase.network,
        phase.objective,
        recipe.optimizer,
        phase.reset,
        phase.objective.forgotten(before),
        recipe.shardings(phase),
    )


@memo.memoize
def _entering(network, objective, optimizer, reset, forgotten, shardings):
    def enter(state, data):
        key = key_from(data)
        new = network, objective, optimizer, key
        return enter_phase(state, *new, reset, forgotten)

    return jax.jit(enter, out_shardings=shardings)


def _key_data(recipe):
    """Returns the random key of the run's seed as numbers, the same on all processes."""
    return np.asarray(jax.random.key_data(key_of(recipe.seed)))
