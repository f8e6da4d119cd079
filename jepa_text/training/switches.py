"""Transitions between phases, all checked on shapes before a run starts.

An impossible transition raises when the run begins, not hours later.
"""

import itertools
import re

import flax
import jax

from jepa_text.parallel import sharding
from jepa_text.training import programs
from jepa_text.training import recipe as recipes
from jepa_text.training import state as states

# Leaves of Adam's state of one parameter, which can only be reset together.
OF_ADAM = r'(^|/)(age|mu|nu)/'


def reinitialized(recipe, phase):
    """Returns the names of modules whose shapes differ from those in the previous phase.

    These modules are reinitialized when the phase begins. Empty for the first phase.
    """
    if not phase.index:
        return []
    before, after = (
        recipes.shapes(recipe, one).params
        for one in recipe.phases[phase.index - 1 : phase.index + 1]
    )
    before = jax.eval_shape(states.with_head, before, after)
    return states.reshaped_modules(before, after)


def check(recipe):
    """Raises ValueError, naming both phases, if one phase cannot follow the other.

    Evaluates, on shapes only, each transition and one step of the phase after it.
    """
    for before, phase in itertools.pairwise(recipe.phases):
        try:
            _check_switch(recipe, before, phase)
        except (ValueError, TypeError, KeyError, flax.errors.FlaxError) as error:
            raise ValueError(
                f'phase {phase.index} ({phase.name}) cannot follow phase '
                f'{before.index} ({before.name}): {error}'
            ) from error


def _check_switch(recipe, before, phase):
    state = recipes.abstract_state(recipe, before)
    found = programs.entered_shapes(recipe, phase, state)
    wanted = recipes.abstract_state(recipe, phase)
    _check_shapes('the switch', found, wanted)
    if phase.reset:
        _check_reset(phase.reset, wanted.opt_state)
    with jax.set_mesh(recipe.mesh):
        step = programs.jitted(recipe, phase)
        after, _ = step.eval_shape(wanted, _batch(recipe, phase))
    _check_shapes('a step', after, wanted)


def _batch(recipe, phase):
    """Returns an abstract batch on the mesh: with its sharding, so that the step is
    traced once, here, and not again when it runs."""
    return {
        key: jax.ShapeDtypeStruct(
            rows.shape, rows.dtype, sharding=sharding.batch_sharding(recipe.mesh)
        )
        for key, rows in recipes.abstract_batch(recipe, phase).items()
    }


def _check_shapes(what, found, wanted):
    """Raises ValueError if two abstract states differ in shapes or dtypes."""
    found, wanted = _described(found), _described(wanted)
    if found != wanted:
        names = sorted(found.items() ^ wanted.items())
        raise ValueError(
            f'{what} would change the shapes of {len(names)} arrays of the state: '
            f'{", ".join(f"{name} {kind}" for name, kind in names[:4])}.'
        )


def _described(state):
    """Returns {path: dtype and shape} of a state."""
    return {
        name: f'{leaf.dtype}{list(leaf.shape)}'
        for name, leaf in states.named(state).items()
    }


def _check_reset(pattern, opt_state):
    """Raises ValueError if a pattern matches nothing, or only a part of Adam's state of a
    parameter."""
    names = list(states.named(opt_state))
    matched = {name for name in names if re.search(pattern, name)}
    if not matched:
        listed = ' and '.join(map(repr, names[:1] + names[-1:])) or 'none'
        raise ValueError(
            f'at_switch.reset={pattern!r} matches nothing in the optimizer state, whose '
            f'names are like {listed}.'
        )
    parameters = {re.sub(OF_ADAM, r'\1*/', name) for name in matched}
    for name in sorted(set(names) - matched):
        if re.search(OF_ADAM, name) and re.sub(OF_ADAM, r'\1*/', name) in parameters:
            raise ValueError(
                f"at_switch.reset={pattern!r} matches a part of Adam's state of a "
                f'parameter, but not {name!r}. Match whole parameters, for example '
                'with /lm_head/ or .*'
            )
