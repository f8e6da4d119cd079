"""What is checked before a run starts, on shapes only: nothing is computed.

    switches           one phase can follow the other, and a step keeps the state's shapes
    batch_size, memory, context, lr_multipliers        the sizes fit mesh and machine
    returned_*, own_code_of       an objective or encoder of the user's own module keeps
                                  its contract (objectives/base.py)

A run that cannot end well fails when it begins, not hours later.
"""

import itertools
import re

import flax
import jax
import jax.numpy as jnp
import numpy as np
import psutil

from jepa_text.config import own_code
from jepa_text.models.network import Network
from jepa_text.objectives.base import Objective, TokenObjective
from jepa_text.optim import multipliers
from jepa_text.parallel import sharding
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
    state = recipe.abstract_state(before)
    entered = states.entered_shapes(recipe, phase, state)
    wanted = recipe.abstract_state(phase)
    _check_shapes('the switch', entered, wanted)
    if phase.reset:
        _check_reset(phase.reset, wanted.opt_state)
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


def memory(recipe, accumulate):
    """Raises ValueError if a step cannot fit in the memory of a machine without GPUs.

    What it needs at least is the state, and for the backward pass the input of each layer
    whatever is rematerialized. `plan` estimates what it needs in fact.
    """
    if jax.default_backend() != 'cpu' or jax.process_count() > 1:
        return
    memory = psutil.virtual_memory().total
    for phase in recipe.phases:
        encoder, rows = phase.network.encoder, phase.batch_size // accumulate
        dtype = getattr(encoder, 'dtype', 'bfloat16')
        hidden = phase.length * encoder.width * jnp.dtype(dtype).itemsize
        leaves = jax.tree.leaves(recipe.shapes(phase))
        state = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
        needed = state + rows * hidden * encoder.depth
        if needed > memory:
            raise ValueError(
                f'phase {phase.index}: a step of {rows:,} rows of {phase.length} tokens '
                f'needs more than {needed / 2**30:,.1f} GiB, but this machine has '
                f'{memory / 2**30:,.1f} GiB. Lower data.batch_size, or raise accumulate '
                f'(now {accumulate}); `jepa-text plan` shows what fits.'
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


# Methods without a default in the base classes.
REQUIRED = {Objective: ('corrupt', 'counts', 'loss'), TokenObjective: ('scorings',)}
ENCODER = ('width', 'depth', 'attention')  # fields of an encoder that others read


def returned_objective(section, objective):
    """Raises OwnCodeError unless `make` of a user's module returned a whole Objective."""
    if '.' not in (name := section['name']):
        return
    if not isinstance(objective, Objective):
        base = f'{Objective.__module__}.{Objective.__name__}'
        own_code.reject(
            name, f'make returned {objective!r}, no instance of a subclass of {base}.'
        )
    kind = type(objective)
    for base, methods in REQUIRED.items():
        for method in methods:
            if getattr(kind, method, None) is getattr(base, method):
                own_code.reject(name, f'{kind.__name__} must define `{method}`.')


def returned_encoder(section, encoder):
    """Raises OwnCodeError unless an encoder of a user's module has the needed fields."""
    missing = [name for name in ENCODER if not hasattr(encoder, name)]
    if '.' in section['name'] and missing:
        own_code.reject(
            section['name'],
            f'make returned {type(encoder).__name__}, which must be a Linen module with '
            f'the fields {", ".join(ENCODER)}; it has no {missing[0]}.',
        )


def own_code_of(recipe, phase, model):
    """Raises OwnCodeError if a phase's objective or encoder does not keep its contract.

    `model` is the section of the encoder. Only what a module of the user's own takes part
    in is checked.
    """
    modules = own_code.names([phase.section['objective'], model])
    if not modules:
        return
    with own_code.faults(modules):
        _check_encoder(recipe, phase, model)
        _Traced(recipe, phase, modules[0]).check()


def _check_encoder(recipe, phase, model):
    """Traces the encoder of a user's module alone."""
    if '.' not in model['name']:
        return
    encoder = phase.network.encoder
    params = recipe.shapes(phase).params
    ids_BL = jax.ShapeDtypeStruct((2, phase.length), jnp.int32)

    def run(params, ids_BL):
        variables = {'params': params['encoder']}
        given = ids_BL, ids_BL, ids_BL, None
        hidden_BLD = encoder.apply(variables, *given, causal=False)
        _, layers = encoder.apply(variables, *given, causal=False, every_layer=True)
        return hidden_BLD, *layers

    shapes = _shapes(jax.eval_shape(run, params, ids_BL))
    expected = ((2, phase.length, encoder.width),) * (2 + encoder.depth)
    if shapes != expected:
        own_code.reject(
            model['name'],
            f'the encoder returned hidden_BLD and, with every_layer=True, layers of the '
            f'shapes {shapes}, not {expected}.',
        )


class _Traced:
    """The methods of an objective, each traced on the shapes of a phase."""

    def __init__(self, recipe, phase, name):
        self.recipe, self.phase, self.name = recipe, phase, name
        self.objective = phase.objective
        encoder = phase.network.encoder.clone(attention='xla')
        self.network = Network(encoder, phase.objective)

    def check(self):
        self.check_corrupt()
        state = self.recipe.shapes(self.phase)
        batch = self.recipe.abstract_batch(self.phase)
        counts = jax.eval_shape(self.objective.counts, batch)
        if not isinstance(counts, dict) or 'tokens' not in counts:
            self.reject('counts', counts, "{'tokens': their number, ...}")
        metrics, seen = self.check_loss(state, batch)
        self.check_updates(state, batch, metrics, seen)

    def reject(self, method, value, expected):
        own_code.reject(self.name, f'{method} returned {_shapes(value)}, not {expected}.')

    def check_corrupt(self):
        rng = np.random.default_rng(0)
        row = self.recipe.random_row(self.phase, rng)
        made = self.phase.corrupt(row, rng, self.phase.start)
        expected = f'the row with arrays added: {", ".join(row)}, ...'
        if not isinstance(made, dict) or not row.keys() <= made.keys():
            self.reject('corrupt', made, expected)
        for key, value in made.items():
            if not isinstance(value, np.ndarray):
                self.reject('corrupt', {key: value}, expected)

    def check_loss(self, state, batch):
        """Returns shapes of the metrics and of what the objective remembers."""

        def loss(params, state, batch):
            view = steps.view_of(self.network, self.objective, state, batch, state.step)
            return self.objective.loss(params, view)

        returned = jax.eval_shape(loss, state.params, state, batch)
        expected = '(loss, metrics, seen): a float32 scalar, {name: scalar}, a pytree'
        if not isinstance(returned, tuple) or len(returned) != 3:
            self.reject('loss', returned, expected)
        value, metrics, seen = returned
        if not _is_scalar(value) or value.dtype != jnp.float32:
            self.reject('loss', returned, expected)
        if not isinstance(metrics, dict) or not all(map(_is_scalar, metrics.values())):
            self.reject('loss', returned, expected)
        return metrics, seen

    def check_updates(self, state, batch, metrics, seen):
        """Traces what follows the loss of a step."""
        objective, step = self.objective, jax.ShapeDtypeStruct((), jnp.int32)
        number = jax.ShapeDtypeStruct((), jnp.float32)
        look = dict.fromkeys(objective.diagnostic_names, number)
        after = jax.eval_shape(objective.update_memory, state.memory, seen, look)
        kept = {key: state.memory[key] for key in objective.memory()}
        if isinstance(after, dict):
            after = {key: after.get(key) for key in kept}
        if _shapes(after) != _shapes(kept):
            self.reject('update_memory', after, f'values for those of memory(): {kept}')
        derived = jax.eval_shape(objective.derived, metrics, seen, look)
        if not isinstance(derived, dict) or not all(map(_is_scalar, derived.values())):
            self.reject('derived', derived, '{name: scalar}')
        if objective.has_target:
            encoder = state.params['encoder']
            target = jax.eval_shape(objective.update_target, state.target, encoder, step)
            if _shapes(target) != _shapes(state.target):
                self.reject('update_target', target, 'the shapes of the target')


def _is_scalar(value):
    return getattr(value, 'shape', None) == ()


def _shapes(tree):
    """Returns a tree with the shape of each array, to be printed and compared."""
    return jax.tree.map(lambda leaf: getattr(leaf, 'shape', leaf), tree)
