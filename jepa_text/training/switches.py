"""From one phase to the next: the state at the switch, and what is checked before a run:
on shapes only, so that a run that cannot end well fails when it begins."""

import itertools
import re

import flax
import jax
import jax.numpy as jnp

from jepa_text.models import memo
from jepa_text.models.network import key_from
from jepa_text.parallel import leaves, sharding
from jepa_text.running import restore
from jepa_text.settings import resolve
from jepa_text.training import state as states
from jepa_text.training import step as steps


def enter_phase(state, network, objective, optimizer, seed, forgotten=()):
    """Returns the state at the start of the next phase.

    params      Modules that the objective needs and the state lacks are created, and
                those that it does not need are dropped. A head that was tied and gets a
                kernel of its own starts as the embedding. A module whose shapes differ
                from those of the module of the same name, such as a predictor of another
                kind, is reinitialized (`reshaped_modules`).
    target      A copy of the encoder, unless the previous phase had a target.
    opt_state   Leaves stay as they are, except those of new parameters.
    memory      Entries stay as they are, except diagnostics and those in `forgotten`.

    Raises ValueError if trained weights of encoder or head would be lost.
    """
    fresh = states.create(network, objective, optimizer, seed)
    old = with_head(state.params, fresh.params)
    reshaped = reshaped_modules(old, fresh.params)
    params = {
        name: old[name] if name in old and name not in reshaped else module
        for name, module in fresh.params.items()
    }
    target = None
    if objective.has_target:
        target = states.copy(params['encoder']) if state.target is None else state.target
    # Names of modules are parts of the paths of their moments.
    patterns = [f'(^|/){re.escape(name)}/' for name in reshaped]
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
    kinds = restore.describe
    both = [name for name in after if name in before]
    changed = [name for name in both if kinds(before[name]) != kinds(after[name])]
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


def _carry(old, new, reset):
    """Returns `new` with the leaves of `old` that have the same path and shape.

    Paths that match the regular expression `reset` (if not empty) are not carried over.
    """
    carried = leaves.by_name(old)

    def choose(name, leaf):
        if name not in carried or (reset and re.search(reset, name)):
            return leaf
        same_shape = jnp.shape(carried[name]) == jnp.shape(leaf)
        return carried[name] if same_shape else leaf

    return leaves.mapped(choose, new)


def entered(recipe, phase, state):
    """Returns the state at the first step of a phase."""
    return _enter(recipe, phase)(state, states.key_data(recipe))


def _enter(recipe, phase):
    before = recipe.phases[max(phase.index - 1, 0)].objective
    return _entering(
        phase.network,
        phase.objective,
        recipe.optimizer,
        phase.objective.forgotten(before),
        recipe.shardings(phase),
    )


@memo.memoize
def _entering(network, objective, optimizer, forgotten, shardings):
    def enter(state, data):
        new = network, objective, optimizer, key_from(data)
        return enter_phase(state, *new, forgotten)

    return jax.jit(enter, out_shardings=shardings)


def check(recipe):
    """Raises ValueError if the step of a phase cannot be traced, as for rows that the
    model cannot read, or, naming both phases, if one phase cannot follow the other.

    Evaluates, on shapes only, a step of each phase and each transition.
    """
    for phase in recipe.phases:
        with resolve.user_faults(resolve.user_modules(phase.section)):
            _check_step(recipe, phase)
    for before, phase in itertools.pairwise(recipe.phases):
        try:
            given = recipe.abstract_state(before), states.key_data(recipe)
            after = _enter(recipe, phase).eval_shape(*given)
            _check_shapes('the switch', after, recipe.abstract_state(phase))
        except (ValueError, TypeError, KeyError, flax.errors.FlaxError) as error:
            raise ValueError(
                f'phase {phase.index} ({phase.name}) cannot follow phase '
                f'{before.index} ({before.name}): {error}'
            ) from error


def _check_step(recipe, phase):
    wanted = recipe.abstract_state(phase)
    layout = sharding.batch_sharding(recipe.mesh)
    # With its sharding, so that the step is traced once, here, and not when it runs.
    batch = {
        key: jax.ShapeDtypeStruct(rows.shape, rows.dtype, sharding=layout)
        for key, rows in recipe.abstract_batch(phase).items()
    }
    with jax.set_mesh(recipe.mesh):
        after, _ = steps.jitted(recipe, phase).eval_shape(wanted, batch)
    _check_shapes('a step', after, wanted)


def _check_shapes(what, *abstract):
    """Raises ValueError if two abstract states differ in shapes or dtypes."""
    if found := restore.mismatches(*map(restore.describe, abstract), f'after {what}'):
        raise ValueError(f'{what} would change the shapes of the state: {found}.')
