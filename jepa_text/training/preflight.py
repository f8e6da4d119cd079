"""What is checked and counted before a run starts, on shapes only: nothing is computed.

A run that cannot end well fails when it begins, not hours later.
"""

import jax

from jepa_text.models import flops, memo
from jepa_text.models.network import Network
from jepa_text.objectives.base import Objective
from jepa_text.optim import optimizers
from jepa_text.parallel import sharding
from jepa_text.settings import resolve
from jepa_text.training import heldout
from jepa_text.training import state as states
from jepa_text.training import step as steps


def parameter_paths(recipe):
    """Raises ValueError if a pattern of the section `optimizer` matches no parameter."""
    trees = [recipe.shapes(phase).params for phase in recipe.phases]
    optimizers.check_paths(recipe.settings.optimizer, trees)


def batch_size(recipe):
    """Raises ValueError if devices and microbatches cannot share the batch equally."""
    accumulate, ways = recipe.settings.accumulate, sharding.ways(recipe.mesh)
    for phase in recipe.phases:
        if phase.batch_size % (ways * accumulate):
            prefix = f'phases[{phase.index}].' if phase.section.get('data') else ''
            raise ValueError(
                f'{prefix}data.batch_size={phase.batch_size} is not a multiple of {ways} '
                f'(mesh data x fsdp) x {accumulate} (accumulate). Change one of '
                'them, or the number of devices.'
            )


def rows(recipe, folder, length):
    """Raises ValueError if rows of a length, to be prepared in a folder, do not fit."""
    for phase in recipe.phases:
        if phase.data['folder'] == folder and phase.length != length:
            raise ValueError(
                f'data.row_length={phase.length}, but prepare.row_length={length}: rows '
                f'of {length} tokens would be prepared in {folder}. Make them equal.'
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


# Fields of an encoder that heads, losses and plans read.
ENCODER = ('width', 'depth', 'attention', 'vocab_size', 'head', 'dtype', 'remat')


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


def user_code_of(recipe, phase):
    """Raises UserCodeError if the loss of a phase, which a user's objective or encoder
    takes part in, cannot be differentiated, or the phase cannot say how it is scored."""
    model = recipe.settings.model
    modules = resolve.user_modules([phase.section['objective'], model])
    if modules:
        with resolve.user_faults(modules):
            if '.' in model['name']:
                _check_layers(recipe, phase, model['name'])
            recipe.cost(phase)
            heldout.scorings([phase.network])


def _check_layers(recipe, phase, name):
    """Layers are counted from the embedding, by analyses and some targets."""
    encoder, params = phase.network.encoder, recipe.shapes(phase).params['encoder']
    if not hasattr(params.get('embedding'), 'shape'):
        resolve.reject_user_code(
            name,
            "the encoder must have a self.param('embedding', ...), [vocab_size, width], "
            'which plans, heads and controls read.',
        )
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


def cost(network, objective, batch):
    """Returns the flops.Count of the loss of a batch and its gradients.

    Traced with XLA's attention, whichever backend the encoder uses. `batch` may hold
    shapes instead of arrays.
    """
    shapes = {k: jax.ShapeDtypeStruct(x.shape, x.dtype) for k, x in batch.items()}
    return _cost(network.encoder.clone(attention='xla'), objective, shapes)


@memo.memoize
def _cost(encoder, objective, batch):
    state = states.abstract(encoder, objective)
    gradients = jax.value_and_grad(
        loss(Network(encoder, objective), objective), has_aux=True
    )
    return flops.count(gradients, state.params, state, batch)


def loss(network, objective):
    """Returns a function (params, state, batch) -> (loss, (metrics, remembered)).

    `state` gives everything except the parameters.
    """

    def run(params, state, batch):
        view = steps.view_of(network, objective, state, batch, state.step)
        return steps.loss_of(objective, params, view)

    return run
