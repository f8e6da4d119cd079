"""From phase to phase: one switch, and all of a run tried on shapes before it starts.

A switch that fails does so when the run begins, and not when its turn comes.
"""

import itertools
import re

import flax
import jax

from jepa_text.training import programs
from jepa_text.training import recipe as recipes
from jepa_text.training import state as states

# What Adam keeps of a parameter: none of it makes sense without the others.
OF_ADAM = r'(^|/)(age|mu|nu)/'


def enter(recipe, phase, state):
    """The state at the first step of a phase, laid out for it."""
    shardings = recipes.shardings(recipe, phase)
    return jax.jit(recipes.entering(recipe, phase), out_shardings=shardings)(state)


def begun_anew(recipe, phase):
    """Names of the modules that a phase has in other shapes than the phase before, and so
    begins anew; none for the first."""
    if not phase.index:
        return []
    before, after = (
        recipes.shapes(recipe, one).params
        for one in recipe.phases[phase.index - 1 : phase.index + 1]
    )
    return states.anew(jax.eval_shape(states.with_head, before, after), after)


def check(recipe):
    """Raises ValueError, which names both phases, where one cannot follow the other.

    On shapes: each switch, and a step of each phase that comes after one.
    """
    for before, phase in itertools.pairwise(recipe.phases):
        try:
            _try(recipe, before, phase)
        except (ValueError, TypeError, KeyError, flax.errors.FlaxError) as error:
            raise ValueError(
                f'phase {phase.index} ({phase.name}) cannot follow phase '
                f'{before.index} ({before.name}): {error}'
            ) from error


def _try(recipe, before, phase):
    state = recipes.abstract_state(recipe, before)
    found = jax.eval_shape(recipes.entering(recipe, phase), state)
    wanted = recipes.abstract_state(recipe, phase)
    _same('the switch', found, wanted)
    if phase.reset:
        _check_reset(phase.reset, wanted.opt_state)
    with jax.set_mesh(recipe.mesh):
        step = programs.jitted(recipe, phase)
        after, _ = step.eval_shape(wanted, recipes.abstract_batch(recipe, phase))
    _same('a step', after, wanted)


def _same(what, found, wanted):
    found, wanted = _described(found), _described(wanted)
    if found != wanted:
        names = sorted(found.items() ^ wanted.items())
        raise ValueError(
            f'{what} would leave {len(names)} arrays of the state in other shapes: '
            f'{", ".join(f"{name} {kind}" for name, kind in names[:4])}.'
        )


def _described(state):
    return {
        name: f'{leaf.dtype}{list(leaf.shape)}'
        for name, leaf in states.named(state).items()
    }


def _check_reset(pattern, opt_state):
    """Raises ValueError for a pattern of nothing, and of a part of what Adam keeps."""
    names = list(states.named(opt_state))
    chosen = {name for name in names if re.search(pattern, name)}
    if not chosen:
        listed = ' and '.join(map(repr, names[:1] + names[-1:])) or 'none'
        raise ValueError(
            f'at_switch.reset={pattern!r} matches nothing that the optimizer keeps. Its '
            f'names are as {listed}.'
        )
    parts = {re.sub(OF_ADAM, r'\1*/', name) for name in chosen}
    for name in sorted(set(names) - chosen):
        if re.search(OF_ADAM, name) and re.sub(OF_ADAM, r'\1*/', name) in parts:
            raise ValueError(
                f'at_switch.reset={pattern!r} matches a part of what Adam keeps of a '
                f'parameter, but not {name!r}: name parameters, as /lm_head/ or .*'
            )
