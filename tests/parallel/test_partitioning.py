"""Partitioning of a step by XLA: communication, and memory per device.

The partitioner may shard activations over their width, like a parameter. Then every
device has all rows of the batch, and communicates them in every layer.
"""

import collections
import os

import children
import communication
import draws
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from jepa_text.parallel import activations, leaves, sharding
from jepa_text.planning import memory
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes
from jepa_text.training import step as steps

# All sizes below differ, so that an axis of rows is identified by its length.
ROWS, LENGTH, WORDS, WIDTH, FFN, DEPTH, MASKS = 24, 40, 1000, 64, 208, 2, 3
MESHES = {
    4: (dict(fsdp=4), dict(fsdp=2, tensor=2), dict(fsdp=2)),
    8: (dict(fsdp=8), dict(fsdp=4, tensor=2), dict(data=4, fsdp=2)),
}[jax.device_count()]
MODELS = {
    'transformer': dict(kv_heads=4),
    'bert': dict(positions=LENGTH),
    'modernbert': dict(local_window=8),
}
SMALL = dict(predictor_width=32, predictor_depth=1)
# (section, encoder passes with gradients, passes without).
OBJECTIVES = {
    'clm': (dict(), 1, 0),
    'mlm': (dict(), 1, 0),
    'mntp': (dict(), 1, 0),
    'mixture': (dict(parts=[dict(name='clm'), dict(name='mlm')]), 1, 0),
    'hybrid': (dict(predictor='transformer', **SMALL), 1, 1),
    'ijepa': (dict(masks=MASKS, **SMALL), 2, 1),
}


def section(model='transformer', attention='xla', **changes):
    """Returns the section of a small model."""
    sizes = dict(width=WIDTH, depth=DEPTH, heads=4, ffn_width=FFN)
    named = dict(name=model, attention=attention)
    return named | sizes | MODELS[model] | changes


def outline(objective, sizes, words=WORDS, **changes):
    """Returns the outline of an objective on a mesh; without sizes, on one device."""
    config = tiny.SETTINGS | dict(
        model=section(),
        phases=[dict(objective=dict(name=objective, **OBJECTIVES[objective][0]))],
        data=dict(folder='', row_length=LENGTH, batch_size=ROWS),
        mesh=sizes,
        telemetry=dict(every_steps=0),
    )
    config = settings.plain(config | changes)
    mesh = sharding.make_mesh(devices=jax.devices()[: None if sizes else 1], **sizes)
    return recipes.outline(config, mesh, words)


def compiled(*given, **changes):
    """Returns the compiled step of an `outline`, and the outline."""
    made = outline(*given, **changes)
    return lower(made).compile(), made


def lower(made):
    (phase,) = made.phases
    rows = made.abstract_batch(phase)
    place = sharding.batch_sharding(made.mesh)
    batch = {
        key: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place)
        for key, leaf in rows.items()
    }
    with jax.set_mesh(made.mesh):
        return steps.jitted(made, phase).lower(made.abstract_state(phase), batch)


def parameters(made):
    """Returns the bytes of the parameters per device if sharded over `tensor` only.

    These are (layers of the encoder, its tables, all others).
    """
    state = made.abstract_state(made.phases[0])
    ways, parts = made.mesh.shape['tensor'], collections.Counter()
    for name, leaf in leaves.by_name(state.params).items():
        part = 'tables' if 'embedding' in name.split('/')[-1] else name.split('/')[0]
        own = sharding.spec(name, leaf.shape, made.mesh)
        parts[part] += leaf.size * 4 // (ways if 'tensor' in own else 1)
    encoder, tables = parts.pop('encoder'), parts.pop('tables')
    return encoder, tables, parts.total()


def bounds(made, objective, looks=0, parts=1):
    """Returns the maximum number of bytes that a step may send, by kind.

    Layers are gathered where they are used, forward and backward, and their gradients are
    summed over `fsdp`, then over `data`. Tables are not sent, only the looked-up vectors.
    Over `tensor`, every layer sums its two outputs and, in the backward pass, the
    gradients of the inputs of q, k, v, gate and up.
    """
    _, pulled, read = OBJECTIVES[objective]
    (phase,), shape = made.phases, made.mesh.shape
    encoder = phase.network.encoder
    layers, tables, others = parameters(made)
    # Diagnostics need another pass, with two gradients.
    backward = pulled * (1 + 2 * looks)
    passes = backward + (pulled + read) * (1 + looks)
    # The contexts of I-JEPA have more positions than the row.
    positions = phase.tokens_per_step * (MASKS if objective == 'ijepa' else 1)
    rows = positions * encoder.width * 4 // sharding.ways(made.mesh)
    bounds = {
        'all-gather': parts * (passes * layers + (2 + 3 * looks) * others),
        'all-reduce': 2 * parts * backward * (layers + tables + others),
        # Of the head, the device's part of its gradient.
        'reduce-scatter': parts * backward * others // shape['fsdp'],
        'all-to-all': 2 * passes * rows,
        'collective-permute': 0,
    }
    if shape['tensor'] > 1:
        # The two outputs of each layer and of the table, and the predictor's, if any.
        depth, predictor = encoder.depth, others > tables
        forward = (passes - backward) * (2 * depth + 1)
        maximum = forward + backward * (5 * depth + 1) + 7 * predictor
        bounds['all-reduce'] += maximum * rows
        bounds['all-gather'] += predictor * rows // 2
        if objective == 'ijepa':
            # Its predictor sorts contexts and queries by document, whole vectors of each,
            # and their gradients back.
            vectors = phase.objective.kept + phase.objective.hidden
            own = phase.batch_size * MASKS * vectors // sharding.ways(made.mesh)
            bounds['all-gather'] += 2 * own * SMALL['predictor_width'] * 4
    return {kind: 1.1 * maximum + 2**15 for kind, maximum in bounds.items()}


def check(step, made, objective, **options):
    """Asserts that a step sends no more than `bounds`, and has only its own rows."""
    sent, text = collections.Counter(), step.as_text()
    for each in communication.collectives(text):
        sent[each.kind] += each.bytes * each.times
    maximum = bounds(made, objective, **options)
    assert sent['all-gather'] > 0 and set(sent) <= set(maximum), sent
    over = {kind: (n, maximum[kind]) for kind, n in sent.items() if n > maximum[kind]}
    assert not over, f'bytes sent, and allowed: {over}'
    assert not wide(communication.arrays(text), made, objective)


def wide(shapes, made, objective):
    """Returns the shapes with all rows that are larger than one device's share."""
    (phase,) = made.phases
    rows, lengths = {phase.batch_size}, {phase.length}
    if objective == 'ijepa':
        kept, hidden = phase.objective.kept, phase.objective.hidden
        rows.add(phase.batch_size * MASKS)
        lengths |= {kept, hidden, kept + hidden}
    whole = rows | {row * length for row in rows for length in lengths}
    held = max(rows) * max(lengths) * phase.network.encoder.width
    maximum = held // sharding.ways(made.mesh)
    return {s for s in shapes if whole & set(s) and np.prod(s) > maximum}


def each_objective():
    """Yields objectives with a mesh by turns; other meshes are long, and objectives of
    which others contain all."""
    for number, objective in enumerate(OBJECTIVES):
        for turn, sizes in enumerate(MESHES, start=2):
            is_due = (turn - number) % len(MESHES) == 0
            is_slow = is_due and objective in ('clm', 'hybrid', 'ijepa')
            mark = pytest.mark.slow if is_slow else pytest.mark.long
            # The meshes of eight devices are those of four with one axis twice as long.
            if is_due or jax.device_count() == 4:
                yield pytest.param(objective, sizes, marks=mark)


@pytest.mark.parametrize('objective, sizes', [*each_objective()])
def test_activations_stay_with_their_rows_for_every_objective(objective, sizes, capfd):
    check(*compiled(objective, sizes), objective)
    assert 'full rematerialization' not in capfd.readouterr().err


@pytest.mark.parametrize(
    'objective, sizes, changes, options',
    draws.in_stages(
        ('mlm', MESHES[2], dict(model=section('modernbert', 'blockwise')), {}),
        ('mlm', MESHES[0], dict(accumulate=3), dict(parts=3)),
        ('hybrid', MESHES[0], dict(telemetry=dict(every_steps=2)), dict(looks=1)),
        ('mlm', MESHES[1], dict(model=section(attention='blockwise')), {}),
        ('mlm', MESHES[1], dict(model=section('bert')), {}),
        ('mlm', MESHES[2], dict(model=section('bert', 'blockwise')), {}),
        ('mlm', MESHES[1], dict(model=section('modernbert')), {}),
        ('mlm', MESHES[0], dict(model=section(scan=False, remat='full')), {}),
        slow=2,
    ),
)
def test_activations_stay_with_their_rows(objective, sizes, changes, options, capfd):
    """For every trunk, in diagnostics, in microbatches and if computed again."""
    check(*compiled(objective, sizes, **changes), objective, **options)
    assert 'full rematerialization' not in capfd.readouterr().err


@pytest.fixture
def optimized():
    jax.config.update('jax_disable_most_optimizations', False)
    yield
    jax.config.update('jax_disable_most_optimizations', True)


@pytest.mark.slow
@pytest.mark.skipif(jax.device_count() < 8, reason='a part of the test below')
def test_a_model_of_210m_fits_where_its_plan_says(optimized):
    model = dict(name='transformer', preset='210m', attention='xla', remat='names')
    data = dict(folder='', row_length=512, batch_size=16)
    step, made = compiled('mlm', dict(fsdp=8), 128_256, model=model, data=data)
    check(step, made, 'mlm')
    taken = step.memory_analysis().temp_size_in_bytes
    (phase,) = made.phases
    plan = memory.estimate(made, phase, microbatches=1, fused=False)
    rows = phase.batch_size // made.mesh.size
    # The head is gathered, and its gradient is complete before it is summed.
    head = 2 * 128_256 * phase.network.encoder.width * 4
    planned = plan.gradients + rows * plan.activations + plan.workspace(rows) + head
    assert taken < 1.15 * planned, f'{taken / 2**20:,.0f} MiB of {planned / 2**20:,.0f}'


@pytest.mark.long
@pytest.mark.skipif(jax.device_count() > 4, reason='it is this one')
def test_activations_stay_with_their_rows_on_eight_devices():
    # The number of devices is fixed when jax is initialized.
    flags = os.environ['XLA_FLAGS'].replace('device_count=4', 'device_count=8')
    files = (__file__, __file__.replace('partitioning', 'context'))
    words = ('-m', 'pytest', '-n', '0', '-k', 'every_objective or 210m', *files)
    done = children.run(*words, env={'XLA_FLAGS': flags}, timeout=590)
    assert f'{2 * len(OBJECTIVES) + 2} passed' in done.stdout


def test_rows_are_constrained_if_they_can_be_divided():
    """Also within vmap; within shard_map they are divided already."""
    x_BLD = jnp.arange(8 * 3 * 4.0).reshape(8, 3, 4)

    def split(x):
        spec = jax.sharding.PartitionSpec(sharding.ROWS)
        own = jax.shard_map(activations.by_rows, in_specs=spec, out_specs=spec)
        return own(x)

    mapped = jax.vmap(activations.by_rows, in_axes=1, out_axes=1)
    with jax.set_mesh(sharding.make_mesh(data=2, fsdp=2)):
        for way in (activations.by_rows, mapped, split):
            for rows, own in ((8, 2), (6, 6))[: 1 if way is split else 2]:
                made = jax.jit(way)(x_BLD[:rows])
                assert made.sharding.shard_shape(made.shape) == (own, 3, 4), way
                assert (made == x_BLD[:rows]).all(), way
