"""What is checked before a run starts, on shapes only: nothing is computed.

    switches           one phase can follow the other, and a step keeps the state's shapes
    batch_size, context, lr_multipliers     the sizes fit the mesh
    returned_*, user_code_of       an objective or encoder of the user's module can be
                                  trained

A run that cannot end well fails when it begins, not hours later.
"""

import itertools
import re

import flax
import jax

from jepa_text.config import resolve
from jepa_text.objectives.base import Objective
from jepa_text.optim import multipliers
from jepa_text.parallel import sharding
from jepa_text.training import heldout
from jepa_text.training import state as states
from jepa_text.training import step as steps

# Leaves of Adam's state of one parameter, which can only be reset together.
OF_ADAM = r'(^|/)(age|mu|nu)/'


def reinitialized(recipe, phase):
    """Returns the names of modules whose shapes differ from those in the previous phase.

    These modules are reinitialized when the phase begins. Empty for the first phase.
    """
    if not phase.index:
        return []
    before, after = (
        recipe.shapes(one).params
        for one in recipe.phases[phase.index - 1 : phase.index + 1]
    )
    before = jax.eval_shape(states.with_head, before, after)
    return states.reshaped_modules(before, after)


def switches(recipe):
    """Raises ValueError, naming both phases, if one phase cannot follow the other.

    Evaluates, on shapes only, each transition and one step of the phase after it; also a
    step of the first phase if it is of a user's objective.
    """
    for phase in recipe.phases:
        if modules := resolve.user_modules(phase.section):
            with resolve.user_faults(modules):
                _check_step(recipe, phase)
    for before, phase in itertools.pairwise(recipe.phases):
        try:
            _check_switch(recipe, before, phase)
            _check_step(recipe, phase)
        except (ValueError, TypeError, KeyError, flax.errors.FlaxError) as error:
            raise ValueError(
                f'phase {phase.index} ({phase.name}) cannot follow phase '
                f'{before.index} ({before.name}): {error}'
            ) from error


def _check_switch(recipe, before, phase):
    state = recipe.abstract_state(before)
    entered = states.entered_shapes(recipe, phase, state)
    wanted = recipe.abstract_state(phase)
    _check_shapes('the switch', entered, wanted)
    if phase.reset:
        _check_reset(phase.reset, wanted.opt_state)


def _check_step(recipe, phase):
    wanted = recipe.abstract_state(phase)
    with jax.set_mesh(recipe.mesh):
        step = steps.jitted(recipe, phase)
        after, _ = step.eval_shape(wanted, _batch(recipe, phase))
    _check_shapes('a step', after, wanted)


def _batch(recipe, phase):
    """Returns an abstract batch on the mesh: with its sharding, so that the step is
    traced once, here, and not again when it runs."""
    return {
        key: jax.ShapeDtypeStruct(
            rows.shape, rows.dtype, sharding=sharding.batch_sharding(recipe.mesh)
        )
        for key, rows in recipe.abstract_batch(phase).items()
    }


def _check_shapes(what, after, wanted):
    """Raises ValueError if two abstract states differ in shapes or dtypes."""
    after, wanted = _described(after), _described(wanted)
    if after != wanted:
        names = sorted(after.items() ^ wanted.items())
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


def lr_multipliers(recipe, section):
    """Raises ValueError if a pattern of the section `optimizer` matches no parameter."""
    trees = [recipe.shapes(phase).params for phase in recipe.phases]
    multipliers.check(section, trees)


def batch_size(recipe, accumulate):
    """Raises ValueError if devices and microbatches cannot share the batch equally."""
    ways = recipe.mesh.shape['data'] * recipe.mesh.shape['fsdp']
    for phase in recipe.phases:
        if phase.batch_size % (ways * accumulate):
            prefix = f'phases[{phase.index}].' if phase.section.get('data') else ''
            raise ValueError(
                f'{prefix}data.batch_size={phase.batch_size} is not a multiple of {ways} '
                f'(mesh data x fsdp) x {accumulate} (accumulate). Change one of them.'
            )


def context(recipe):
    """Raises ValueError if the mesh axis `context` cannot split the rows or the heads."""
    tensor, context = (recipe.mesh.shape[axis] for axis in sharding.HEADS)
    if context == 1:
        return
    for phase in recipe.phases:
        for name, module in phase.network.modules.items():
            heads = getattr(module, 'heads', 0)
            if phase.length % context or heads % (context * tensor):
                raise ValueError(
                    f'mesh.context={context} must divide rows of {phase.length} tokens, '
                    f'and context x tensor = {context * tensor} must divide the {heads} '
                    f'heads of the {name}. Change one of them.'
                )


ENCODER = ('width', 'depth', 'attention')  # fields of an encoder that others read


def returned_objective(section, objective):
    """Raises UserCodeError unless `make` of a user's module returned an Objective."""
    if '.' in section['name'] and not isinstance(objective, Objective):
        base = f'{Objective.__module__}.{Objective.__name__}'
        resolve.reject_user_code(
            section['name'],
            f'make returned {objective!r}, no instance of a subclass of {base}.',
        )


def returned_encoder(section, encoder):
    """Raises UserCodeError unless an encoder of a user's module has the needed fields."""
    missing = [name for name in ENCODER if not hasattr(encoder, name)]
    if '.' in section['name'] and missing:
        resolve.reject_user_code(
            section['name'],
            f'make returned {type(encoder).__name__}, which must be a Linen module with '
            f'the fields {", ".join(ENCODER)}; it has no {missing[0]}.',
        )


def user_code_of(recipe, phase, model):
    """Raises UserCodeError if the loss of a phase, which a user's objective or encoder
    takes part in, cannot be differentiated, or the phase cannot say how it is scored.
    `model` is the section of the encoder."""
    modules = resolve.user_modules([phase.section['objective'], model])
    if modules:
        with resolve.user_faults(modules):
            recipe.cost(phase)
            heldout.scorings([phase.network])
            if '.' in model['name']:
                _check_layers(recipe, phase, model['name'])


def _check_layers(recipe, phase, name):
    """Layers are counted from the embedding, by analyses and some targets."""
    encoder, params = phase.network.encoder, recipe.shapes(phase).params['encoder']
    ids_BL = jax.ShapeDtypeStruct((3, phase.length), 'int32')

    def run(params, *ids):
        given = dict(causal=False, every_layer=True)
        hidden_BLD, layers_NBLD = encoder.apply({'params': params}, *ids, **given)
        return hidden_BLD, *layers_NBLD

    shapes = [x.shape for x in jax.eval_shape(run, params, ids_BL, ids_BL, ids_BL)]
    if shapes != [(*ids_BL.shape, encoder.width)] * (encoder.depth + 2):
        resolve.reject_user_code(
            name,
            'with every_layer=True, the encoder must return hidden_BLD and depth + 1 '
            f'layers of its shape, of which the first is the embedding, not {shapes}.',
        )
