"""Checks that an objective and an encoder of the user's own keep their contracts.

They are traced once, before a run starts: on shapes, so that nothing is computed. What is
expected of an objective is documented in objectives/base.py. Those of the package are
checked by its tests instead.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.config import own_code
from jepa_text.models.network import Network
from jepa_text.objectives.base import Objective, TokenObjective
from jepa_text.training import recipe as recipes
from jepa_text.training import step as steps

# Methods without a default in the base classes.
REQUIRED = {Objective: ('corrupt', 'counts', 'loss'), TokenObjective: ('scorings',)}
ENCODER = ('width', 'depth', 'attention')  # fields of an encoder that others read


def check_objective(section, objective):
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


def check_encoder(section, encoder):
    """Raises OwnCodeError unless an encoder of a user's module has the needed fields."""
    missing = [name for name in ENCODER if not hasattr(encoder, name)]
    if '.' in section['name'] and missing:
        own_code.reject(
            section['name'],
            f'make returned {type(encoder).__name__}, which must be a Linen module with '
            f'the fields {", ".join(ENCODER)}; it has no {missing[0]}.',
        )


def check(recipe, phase, model):
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
    params = recipes.shapes(recipe, phase).params
    ids_BL = jax.ShapeDtypeStruct((2, phase.length), jnp.int32)

    def run(params, ids_BL):
        variables = {'params': params['encoder']}
        given = ids_BL, ids_BL, ids_BL, None
        hidden_BLD = encoder.apply(variables, *given, causal=False)
        _, layers = encoder.apply(variables, *given, causal=False, every_layer=True)
        return hidden_BLD, *layers

    found = _shapes(jax.eval_shape(run, params, ids_BL))
    expected = ((2, phase.length, encoder.width),) * (2 + encoder.depth)
    if found != expected:
        own_code.reject(
            model['name'],
            f'the encoder returned hidden_BLD and, with every_layer=True, layers of the '
            f'shapes {found}, not {expected}.',
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
        state = recipes.shapes(self.recipe, self.phase)
        batch = recipes.abstract_batch(self.recipe, self.phase)
        counts = jax.eval_shape(self.objective.counts, batch)
        if not isinstance(counts, dict) or 'tokens' not in counts:
            self.reject('counts', counts, "{'tokens': their number, ...}")
        metrics, seen = self.check_loss(state, batch)
        self.check_updates(state, batch, metrics, seen)

    def reject(self, method, value, expected):
        own_code.reject(self.name, f'{method} returned {_shapes(value)}, not {expected}.')

    def check_corrupt(self):
        rng = np.random.default_rng(0)
        row = recipes.random_row(self.recipe, self.phase, rng)
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

        found = jax.eval_shape(loss, state.params, state, batch)
        expected = '(loss, metrics, seen): a float32 scalar, {name: scalar}, a pytree'
        if not isinstance(found, tuple) or len(found) != 3:
            self.reject('loss', found, expected)
        value, metrics, seen = found
        if not _is_scalar(value) or value.dtype != jnp.float32:
            self.reject('loss', found, expected)
        if not isinstance(metrics, dict) or not all(map(_is_scalar, metrics.values())):
            self.reject('loss', found, expected)
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
