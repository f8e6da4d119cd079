"""Descriptions of a recipe, printed when a run or a phase begins, and at the end."""

import functools
import itertools
import logging

import jax
import jax.numpy as jnp
from clu import parameter_overview

from jepa_text.data import data_position
from jepa_text.models.attention import attend
from jepa_text.report import frequencies
from jepa_text.running import metrics


def introduction(recipe):
    """Returns lines about the network and the budget of a run; with --verbose also about
    devices and data, and a table of all parameters."""
    devices = jax.devices()
    params, counts = _params(recipe), sizes(recipe)
    parts = ', '.join(f'{name} {count:,}' for name, count in counts.items())
    total, embedding = sum(counts.values()), params['encoder']['embedding'].size
    axes = ', '.join(f'{axis} {size}' for axis, size in recipe.mesh.shape.items())
    lines = [
        f'network  {total:,} parameters, {total - embedding:,} without the embedding, on '
        f'{len(devices)} x {devices[0].device_kind}',
        *_budget(recipe),
    ]
    if _is_verbose():
        lines += (
            f'modules  {parts}',
            f'devices  mesh {axes}, processes {jax.process_count()}',
            *itertools.chain(*map(data_position.lines, recipe.phases)),
            parameter_overview.get_parameter_overview(params, include_stats=False),
        )
    return [*lines, *_unreached(recipe)]


def sizes(recipe):
    """Returns {module: number of its parameters}."""
    return {
        name: sum(leaf.size for leaf in jax.tree.leaves(tree))
        for name, tree in _params(recipe).items()
    }


def _is_verbose():
    """Whether --verbose is given: it sets the logger of the package to INFO."""
    return logging.getLogger('jepa_text').isEnabledFor(logging.INFO)


def costs(recipe):
    """Returns [(steps, FLOPs of one)] of the phases; those of a single one are equal."""
    if len(recipe.phases) == 1:
        return [(recipe.steps, 1.0)]
    return [(phase.steps, recipe.cost(phase).model) for phase in recipe.phases]


def _unreached(recipe):
    settings = recipe.settings
    for key, steps in (
        ('checkpoint.keep_at_steps', settings.checkpoint.keep_at_steps),
        ('profile_steps', settings.profile_steps),
    ):
        if beyond := [step for step in steps if step > recipe.steps]:
            listed = ', '.join(f'{step:,}' for step in beyond)
            yield f'{key}: {listed} lies beyond step {recipe.steps:,}.'


def conclusion(recipe, workdir):
    """Returns lines that compare the last evaluation with token frequencies."""
    if jax.process_index():
        return []
    _, values = metrics.newest(workdir, frequencies.PREFIX)
    with_head = [phase for phase in recipe.phases if 'lm_head' in phase.network.modules]
    kind = with_head[-1].objective.judged_by if with_head else None
    return frequencies.sentences(values, kind)


def _params(recipe):
    """Returns shapes of the parameters of all modules, such as a later phase's head."""
    params = {}
    for phase in recipe.phases:
        params |= recipe.shapes(phase).params
    return params


def _budget(recipe):
    """Yields steps and tokens of the run, or of each phase if their batches differ."""
    uniform = len({(phase.batch_size, phase.length) for phase in recipe.phases}) == 1
    total = f'{recipe.positions_until(recipe.steps):,} tokens'
    for phase in recipe.phases[:1] if uniform else recipe.phases:
        steps = recipe.steps if uniform else phase.steps
        yield (
            f'budget   {phase.batch_size} rows x {phase.length} = '
            f'{phase.tokens_per_step:,} tokens per step, {steps:,} steps, '
            + (total if uniform else f'of {total}')
        )


def program(recipe, phase):
    """Returns lines about the step of a phase: that it compiles and, with --verbose, its
    model FLOPs by module, and its attention."""
    if not _is_verbose():
        return ['compiling the training step']
    parts = recipe.cost(phase).parts
    shares = ', '.join(f'{name} {count:.3g}' for name, count in parts.items() if count)
    total = f'FLOPs    {sum(parts.values()):.3g} per step: {shares}'
    attention = [attend.explain(*pair) for pair in requests(recipe, phase).items()]
    return [total, *attention, 'compiling the training step']


def requests(recipe, phase):
    """Returns {attend.Request of a phase's encoder: the backend that it names}."""
    token = phase.objective.token_objective
    attends = token.attends if token else 'bidirectional'
    shape = (phase.batch_size, phase.length)
    ids_BL = jax.ShapeDtypeStruct(shape, jnp.int32)
    order_BL = ids_BL if attends == 'rows' else None
    params = recipe.shapes(phase).params
    call = functools.partial(phase.network.apply, 'encoder', causal=attends == 'causal')
    mesh = recipe.mesh.abstract_mesh
    with jax.sharding.use_abstract_mesh(mesh), attend.record_requests() as record:
        jax.eval_shape(call, params, ids_BL, ids_BL, ids_BL, order_BL)
    return record
