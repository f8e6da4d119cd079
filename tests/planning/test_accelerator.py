"""Checks of the devices of this machine: `pytest -m accelerator`.

Called by launch/accelerator.sh. Skipped without an accelerator, unless ACCELERATOR=cpu
asks for the same checks of the CPU, so that they are tested. Kernels are compared with
the reference, small programs with numpy, training with the CPU in float32, and the memory
of a step with its plan.
"""

import itertools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from jepa_text.models.attention import attend, trial, xla
from jepa_text.parallel import sharding
from jepa_text.planning import memory, worker
from jepa_text.running import compilation, self_test
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes
from jepa_text.training import state as states
from jepa_text.training import step as steps

WANTED = os.environ.get('ACCELERATOR') == 'cpu'
PLATFORM = jax.default_backend()
pytestmark = [
    pytest.mark.accelerator,
    pytest.mark.slow,
    pytest.mark.skipif(
        PLATFORM == 'cpu' and not WANTED,
        reason='jax finds no accelerator; ACCELERATOR=cpu checks the CPU',
    ),
]
# Nats. On a CPU, bfloat16 differs from float32 by 0.002, and other rows by 0.4.
ALLOWED = 0.02
# (dtype, row length, head width, causal, window); each on a packed row with padding and
# on a full row.
REQUESTS = (
    ('bfloat16', trial.LENGTH, 64, False, None),
    ('bfloat16', trial.LENGTH, 64, True, None),
    ('bfloat16', trial.LENGTH, 64, False, 20),
    ('bfloat16', trial.LENGTH, 64, True, 20),
    ('bfloat16', trial.LENGTH, 128, False, None),
    ('bfloat16', 8 * trial.LENGTH, 64, False, None),
    ('float32', trial.LENGTH, 64, False, None),
)


def test_small_programs_agree_with_numpy():
    for name, off in self_test.deviations(tuple(jax.local_devices())).items():
        assert off <= 1, name


@pytest.mark.parametrize('backend', attend.FASTEST.get(PLATFORM, ()))
@pytest.mark.parametrize('request_', REQUESTS, ids=str)
def test_attention_agrees_with_the_reference(backend, request_):
    """Forward and backward."""
    dtype, length, head_width, causal, window = request_
    kernel = attend.BACKENDS[backend]
    q_BLHK, k_BLGK = (
        jax.ShapeDtypeStruct((2, length, heads, head_width), dtype) for heads in (4, 2)
    )
    request = attend.request_of(q_BLHK, k_BLGK, causal=causal, window=window)
    if reason := attend.unsupported(kernel, request):
        pytest.skip(reason)
    deviations = trial.deviations(
        kernel.attend,
        _reference,
        dtype=dtype,
        groups=2,
        repeats=2,
        head_width=head_width,
        causal=causal,
        window=window,
        length=length,
    )
    assert max(deviations.values()) <= trial.TOLERANCE, deviations


def _reference(q_BLHK, *inputs, **options):
    """All scores at once, in float32."""
    *arrays, ids_BL = (q_BLHK, *inputs)
    with jax.default_matmul_precision('highest'):
        wide = [array.astype(jnp.float32) for array in arrays]
        return xla.attend(*wide, ids_BL, **options).astype(q_BLHK.dtype)


def hybrid(folder, devices, dtype, **model):
    """(recipe, phase) of the hybrid on devices."""
    config = tiny.config(
        folder,
        model=dict(name='transformer', preset='toy', depth=2, dtype=dtype) | model,
        phases=[dict(objective=dict(name='hybrid', predictor_width=32))],
        mesh=dict(data=-1, fsdp=1, tensor=1),
        telemetry=dict(every_steps=0),
    )
    mesh = sharding.make_mesh(**config['mesh'], devices=devices)
    made = recipes.outline(settings.plain(config), mesh)
    return made, made.phases[0]


def losses(made, phase, count=12):
    """The losses of training on the same four batches of random tokens."""
    case = dict(seed=0, vocab_size=500, rows=phase.batch_size, row_length=phase.length)
    batches = itertools.cycle(worker.batches(case, phase))
    state = states.first(made, phase)
    step, curve = steps.compiled(made, phase), []
    for batch in itertools.islice(batches, count):
        state, metrics = step(state, sharding.put_batch(batch, made.mesh))
        curve.append(float(metrics['train/loss']))
    return np.array(curve)


def test_training_agrees_with_the_cpu(tmp_path):
    """In bfloat16 with this device's kernels, and in float32 on the CPU."""
    here = losses(*hybrid(tmp_path, jax.devices(), 'bfloat16'))
    cpu = losses(*hybrid(tmp_path, jax.devices('cpu')[:1], 'float32', attention='xla'))
    assert np.isfinite(here).all() and here[-1] < here[0]
    np.testing.assert_allclose(here, cpu, rtol=0, atol=ALLOWED)


def test_memory_is_as_planned(tmp_path):
    made, phase = hybrid(tmp_path, jax.devices()[:1], 'bfloat16', remat='names')
    with jax.set_mesh(made.mesh):
        inputs = made.shapes(phase), made.abstract_batch(phase)
        program = steps.jitted(made, phase).lower(*inputs).compile()
    planned = memory.estimate(made, phase, microbatches=1, fused=PLATFORM != 'cpu')
    total = planned.total(phase.batch_size)
    # XLA recomputes more of a small model than the plan assumes.
    assert 0.5 * total < compilation.peak(program) < 1.15 * total


def test_train_learns(tmp_path):
    mesh, never = dict(data=-1, fsdp=1, tensor=1), dict(every_steps=0)
    config = tiny.config(tmp_path, mesh=mesh, evaluate=never, telemetry=never)
    tiny.train(config, tmp_path / 'run')
    lines = tiny.log(tmp_path / 'run')
    curve = [line['train/loss'] for line in lines if 'train/loss' in line]
    assert curve[-1] < curve[0]
