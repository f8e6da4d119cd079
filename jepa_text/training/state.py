"""All that changes in training is one tree; a phase begins by changing its keys."""

import functools
import re
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax

from jepa_text.models.network import Network, key_of
from jepa_text.optim.optimizers import path_name
from jepa_text.training import memo


@flax.struct.dataclass
class TrainState:
    """step: batches consumed. target: EMA of params['encoder'], or None. memory: what
    the objective and its last diagnostics carry from step to step, outside the gradient,
    and the key of the seed.
    skipped, skipped_in_row: updates left out because they were not finite."""

    step: jax.Array
    params: dict
    target: Any
    memory: dict
    opt_state: Any
    skipped: jax.Array
    skipped_in_row: jax.Array


def create(network, objective, optimizer, seed):
    """The state before the first step. Pure: jit it with shardings to make it there."""
    params = network.init(seed)
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        # A copy: two donated arguments must not be one buffer.
        target=jax.tree.map(jnp.copy, params['encoder'])
        if objective.has_target
        else None,
        memory={
            **objective.memory(),
            # In the state, so that one program serves all seeds.
            'key': jax.random.key_data(key_of(seed)),
            # Not measured yet: a zero would be a value.
            'diagnostics': {
                name: jnp.float32(jnp.nan) for name in objective.diagnostic_names
            },
        },
        opt_state=optimizer.init(params),
        skipped=jnp.zeros((), jnp.int32),
        skipped_in_row=jnp.zeros((), jnp.int32),
    )


def abstract(encoder, objective):
    """Shapes and dtypes of a state without an optimizer's, whatever attends and whatever
    is computed again."""
    plain = {'attention': 'xla', 'remat': 'none'}
    plain = {name: value for name, value in plain.items() if hasattr(encoder, name)}
    return _abstract(encoder.clone(**plain), objective)


@memo.once
def _abstract(encoder, objective):
    made = Network(encoder, objective), objective, optax.identity(), 0
    return jax.eval_shape(functools.partial(create, *made))


def enter_phase(state, network, objective, optimizer, seed, reset=None):
    """The state as the next phase starts it.

    Modules that the objective needs and the state lacks are created, those that it
    does not need are dropped, and the target is copied from the encoder unless the
    last phase had one. A head that was tied and gets a kernel of its own starts as the
    embedding; a module of other shapes than its namesake before, such as a predictor of
    another kind, begins anew (`anew`). Optimizer leaves stay as they are, except the ones
    whose path matches the regular expression `reset` ('.*': all, '/lm_head/': the head's
    moments and ages); those of parameters that are new are new, too. Raises ValueError
    where trained weights of encoder or head would be thrown away.
    """
    fresh = create(network, objective, optimizer, seed)
    had = with_head(state.params, fresh.params)
    changed = anew(had, fresh.params)
    params = {
        **fresh.params,
        **{n: had[n] for n in fresh.params if n in had and n not in changed},
    }
    if objective.has_target:
        target = state.target
        if target is None:
            target = jax.tree.map(jnp.copy, params['encoder'])
    else:
        target = None
    # Of modules, in the paths of their moments.
    begun = [reset] if reset else []
    begun += [f'(^|/){re.escape(name)}/' for name in changed]
    return state.replace(
        params=params,
        target=target,
        memory=_carry(state.memory, fresh.memory, '^diagnostics/'),
        opt_state=_carry(state.opt_state, optimizer.init(params), '|'.join(begun)),
    )


def anew(before, after):
    """Names of the modules in both trees of parameters whose shapes differ.

    Raises ValueError for the encoder, and for a head that would lose its own kernel.
    """
    changed = [n for n in after if n in before and shapes(before[n]) != shapes(after[n])]
    if 'lm_head' in changed and 'output' in before['lm_head']:
        raise ValueError(
            'the head has a kernel of its own, which tied=True would throw away: set '
            'tied to the same in both.'
        )
    if lost := {'encoder', 'lm_head'} & set(changed):
        raise ValueError(f'{" and ".join(sorted(lost))} would have other shapes.')
    return changed


def with_head(params, shapes):
    """The params with a head of its own where `shapes` has one and they have none."""
    head, wanted = params.get('lm_head'), shapes.get('lm_head', {})
    if head is None or 'output' not in wanted or 'output' in head:
        return params
    kernel_DV = params['encoder']['embedding'].T
    return {**params, 'lm_head': {**head, 'output': {'kernel': kernel_DV}}}


def named(tree):
    """{path as 'encoder/embedding': leaf}."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {path_name(path): leaf for path, leaf in leaves}


def shapes(tree):
    """{path: shape} of the leaves of a tree."""
    return {name: jnp.shape(leaf) for name, leaf in named(tree).items()}


def _carry(old, new, reset):
    """`new` with the leaves of `old` wherever one of the same path and shape exists, but
    for paths that match `reset`, a regular expression or ''."""
    kept = named(old)

    def choose(path, leaf):
        name = path_name(path)
        if name not in kept or (reset and re.search(reset, name)):
            return leaf
        return kept[name] if jnp.shape(kept[name]) == jnp.shape(leaf) else leaf

    return jax.tree_util.tree_map_with_path(choose, new)
