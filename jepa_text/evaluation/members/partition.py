"""What of a model a member trains, and what stays as it is and is shared by all.

arranged   the encoder and its parameters, as precision and layers need them
split      {'encoder': what is trained}, {'encoder': what is frozen}
merged     both, as the network takes them
"""

import jax
import jax.numpy as jnp

from jepa_text.kinds import base
from jepa_text.models import transformer


def check_head(network, recipe):
    """Raises ValueError for a head to be trained alone of a kind that has none."""
    if recipe.layers == 0 and base.HEAD not in network.modules:
        raise ValueError(
            f'finetuning.layers=0 trains the head alone, but {network.objective.name} '
            'has none: give 1 or more.'
        )


def arranged(encoder, params, recipe):
    """(encoder, its parameters) as the recipe's precision and layers need them."""
    if recipe.precision != 'float32':
        encoder = encoder.clone(dtype='bfloat16')
    if recipe.layers is not None and encoder.scan:
        # Unrolled, the backward pass ends where what is frozen begins.
        encoder, params = encoder.clone(scan=False), transformer.unstack_layers(params)
    return encoder, cast(params, recipe)


def cast(params, recipe):
    """The parameters in the precision that they have in a grid.Recipe."""
    dtype = jnp.bfloat16 if recipe.precision == 'paper_bf16' else jnp.float32
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), params)


def split(params, layers):
    """({'encoder': what is trained}, {'encoder': what is frozen}); ValueError for more
    layers than there are."""
    if layers is None:
        return {'encoder': params}, {'encoder': {}}
    stack = [name for name in params if name.startswith('layer_')]
    stack.sort(key=lambda name: int(name.removeprefix('layer_')))
    # ModernBERT's first is not one of the stack.
    stack = [name for name in ('first',) if name in params] + stack
    if layers > len(stack):
        raise ValueError(
            f'layers={layers}: the encoder has {len(stack)}. Give at most as many, or '
            'None to train the embeddings, too.'
        )
    names = set(stack[len(stack) - layers :])
    if layers:
        names |= {name for name in params if 'norm' in name and 'embed' not in name}
    trained = {name: value for name, value in params.items() if name in names}
    frozen = {name: value for name, value in params.items() if name not in names}
    return {'encoder': trained}, {'encoder': frozen}


def merged(trained, frozen):
    """The parameters of the model, of what is trained and what is not."""
    return {**trained, 'encoder': {**frozen['encoder'], **trained['encoder']}}
