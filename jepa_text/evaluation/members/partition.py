"""The split of a model's parameters into those a member trains and shared, frozen ones.

prepare    the encoder and its parameters, as precision and layers need them
split      {'encoder': trained parameters}, {'encoder': frozen parameters}
merged     both together, as the network takes them
"""

import jax
import jax.numpy as jnp

from jepa_text.models import transformer
from jepa_text.pretrained import base


def check_head(network, recipe):
    """Raises ValueError if only the head is to be trained, but the kind has none."""
    if recipe.layers == 0 and base.HEAD not in network.modules:
        raise ValueError(
            f'finetuning.layers=0 trains only the head, but {network.objective.name} '
            'has none: set 1 or more.'
        )


def prepare(encoder, params, recipe):
    """Returns (encoder, parameters) as the recipe's precision and layers need them."""
    if recipe.precision != 'float32':
        encoder = encoder.clone(dtype='bfloat16')
    if recipe.layers is not None and encoder.scan:
        # If layers are unrolled, the backward pass stops at the frozen layers.
        encoder, params = encoder.clone(scan=False), transformer.unstack_layers(params)
    return encoder, cast(params, recipe)


def cast(params, recipe):
    """Casts parameters to the dtype they have under a grid.Recipe."""
    dtype = jnp.bfloat16 if recipe.precision == 'paper_bf16' else jnp.float32
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), params)


def unrolls(encoder):
    """Returns whether to unroll a scanned encoder's layers: on CPUs.

    There each step of a scan copies its part of all gradients and activations, which
    takes a quarter of the time (LOG.md).
    """
    return encoder.scan and jax.default_backend() == 'cpu'


def split(params, layers):
    """Returns ({'encoder': trained parameters}, {'encoder': frozen parameters}).

    Raises ValueError for more layers than the encoder has.
    """
    if layers is None:
        return {'encoder': params}, {'encoder': {}}
    stack = [name for name in params if name.startswith('layer_')]
    stack.sort(key=lambda name: int(name.removeprefix('layer_')))
    # ModernBERT's first layer is not part of the stack.
    stack = [name for name in ('first',) if name in params] + stack
    if layers > len(stack):
        raise ValueError(
            f'layers={layers}, but the encoder has {len(stack)}. Set at most '
            f'{len(stack)}, or None to train the embeddings, too.'
        )
    names = set(stack[len(stack) - layers :])
    if layers:
        names |= {name for name in params if 'norm' in name and 'embed' not in name}
    trained = {name: value for name, value in params.items() if name in names}
    frozen = {name: value for name, value in params.items() if name not in names}
    return {'encoder': trained}, {'encoder': frozen}


def merged(trained, frozen):
    """Merges the trained and the frozen parameters of a model."""
    return {**trained, 'encoder': {**frozen['encoder'], **trained['encoder']}}
