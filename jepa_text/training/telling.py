"""What of a recipe a person is told when a run or a phase begins, in lines."""

import functools

import jax
import jax.numpy as jnp
from clu import parameter_overview

from jepa_text.models.attention import attend
from jepa_text.training import recipe as recipes


def introduction(recipe):
    """What runs where."""
    devices, rows = jax.devices(), recipe.batch_size
    params = recipes.shapes(recipe, recipe.phases[0]).params
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    axes = ', '.join(f'{axis} {size}' for axis, size in recipe.mesh.shape.items())
    processes, tokens = jax.process_count(), recipe.tokens_per_step
    return (
        f'devices  {len(devices)} x {devices[0].device_kind}, mesh {axes}, '
        f'{processes} process{"es" if processes > 1 else ""}',
        f'network  {count:,} parameters',
        f'budget   {rows} rows x {recipe.length} = {tokens:,} tokens a step, '
        f'{recipe.steps:,} steps, {recipe.steps * tokens:,} tokens',
        parameter_overview.get_parameter_overview(params, include_stats=False),
    )


def attending(recipe, phase):
    """By which backend the encoder of a phase attends."""
    token = phase.objective.token_objective
    attends = token.attends if token else 'bidirectional'
    shape = (recipe.batch_size, recipe.length)
    ids_BL = jax.ShapeDtypeStruct(shape, jnp.int32)
    order_BL = ids_BL if attends == 'rows' else None
    params = recipes.shapes(recipe, phase).params
    call = functools.partial(phase.network.apply, 'encoder', causal=attends == 'causal')
    with jax.set_mesh(recipe.mesh):
        lines = attend.explain_call(call, params, ids_BL, ids_BL, ids_BL, order_BL)
    # The rest says of each other backend why it was not taken.
    return [line for line in lines if line.startswith('attention')]
