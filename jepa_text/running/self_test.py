"""Self-test of the devices: compares small programs with numpy before training.

Compilers have been silently wrong before: sums on CPUs (xla_flags.py), single operations
on some GPUs (jax issue 40633). A run on such a machine is worthless, so none is started.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jepa_text.running import xla_flags

# Largest difference allowed, as a share of the largest value.
ALLOWED, ALLOWED_BFLOAT16 = 1e-4, 0.02


def check():
    """Raises RuntimeError, naming the programs, if a local device computes wrong results.

    Takes at most a second per process; results are cached per set of devices.
    """
    device, found = jax.local_devices()[0], deviations(tuple(jax.local_devices()))
    wrong = [
        f'{name} (by {off:.2g} times what is allowed)'
        for name, off in found.items()
        if not off <= 1
    ]
    if wrong:
        raise RuntimeError(
            f'This machine computes wrong results: {len(wrong)} of {len(found)} '
            f'programs differ from numpy on {device.platform} ({device.device_kind}), '
            f'jax {jax.__version__}: {"; ".join(wrong)}. On a CPU, start from the '
            'command line, or call jepa_text.running.xla_flags.apply() before anything '
            f'is computed, and do not set {xla_flags.FLAG} in XLA_FLAGS; otherwise '
            'install another version of jax, or use another machine.'
        )


@functools.cache
def deviations(devices):
    """{program: its difference from numpy, as a multiple of what is allowed}.

    The worst of all `devices`; NaN if one computes NaN. Gradients are compared by the
    derivative along their signs, in which errors do not cancel.
    """
    # Each device computes the whole program.
    everywhere = NamedSharding(Mesh(np.array(devices), ('devices',)), PartitionSpec())
    return {
        name: _deviation(everywhere, *program) / allowed
        for name, (allowed, *program) in programs().items()
    }


def _deviation(everywhere, compute, floats, integers=()):
    """The largest difference of output and gradients, as a share of the largest value."""
    wide = [np.float64(x) for x in floats]
    want = compute(np, *wide, *integers)
    noise = np.float32(np.random.default_rng(1).normal(size=want.shape))
    given = jax.device_put((noise, tuple(floats), tuple(integers)), everywhere)
    # float32 products in full precision, even if the default is lower.
    with jax.default_matmul_precision('highest'), jax.numpy_rank_promotion('allow'):
        outputs = on_devices(compute, *given)
    shares = []
    for number in range(len(everywhere.device_set)):
        got, *slopes = (np.float64(x.addressable_shards[number].data) for x in outputs)
        sides = [
            [x + h * np.sign(slope) for x, slope in zip(wide, slopes)]
            for h in (1e-5, -1e-5)
        ]
        up, down = (np.sum(noise * compute(np, *side, *integers)) for side in sides)
        rise, expected = sum(np.abs(x).sum() for x in slopes), (up - down) / 2e-5
        shares += [np.abs(got - want).max() / np.abs(want).max()]
        shares += [abs(rise - expected) / abs(expected)]
    return float(np.max(shares))  # unlike the builtin max, it propagates NaN


def on_devices(compute, noise, floats, integers):
    """The output of a program, and the gradients of its product with the noise.

    In two compiled programs: a backward pass changes what is fused.
    """
    output = jax.jit(lambda *arrays: compute(jnp, *arrays))(*floats, *integers)

    @jax.jit
    def gradients(noise, floats, integers):
        return jax.vjp(lambda *x: compute(jnp, *x, *integers), *floats)[1](noise)

    return output, *gradients(noise, floats, integers)


def programs():
    """{name: (allowed, compute, floats, integers)}.

    compute(jax.numpy or numpy, *floats, *integers) returns an array.
    """
    rng = np.random.default_rng(0)

    def normal(*shape):
        return np.float32(rng.normal(size=shape))

    def program(compute, *floats, integers=(), allowed=ALLOWED):
        return allowed, compute, floats, integers

    documents, labels = np.repeat(np.arange(4), 12), rng.integers(0, 40, 48)
    counts = np.float32(np.arange(32_769)[:, None] * [1, 0, 0])
    return {
        'matrix product times its operand, summed': program(
            lambda np, x: np.sum((x @ np.ones_like(x)) * x, (1, 2)), normal(5, 60, 60)
        ),
        'squared matrix-vector products, summed per row': program(
            lambda np, x, w: np.sum(np.einsum('ij,nj->ni', w, x) ** 2, 1),
            counts,
            np.eye(3, dtype='float32'),
        ),
        'matrix product in bfloat16': program(
            _rounded_product, normal(64, 256), normal(256, 64), allowed=ALLOWED_BFLOAT16
        ),
        'attention within documents': program(
            _attention, *(normal(3, 48, 16) for _ in 'qkv'), integers=[documents]
        ),
        'layer norm': program(
            lambda np, x: (x - np.mean(x, 1, keepdims=True)) / np.std(x, 1)[:, None],
            normal(48, 64),
        ),
        'cross-entropy': program(
            lambda np, x, w, ids: -np.log(_softmax(np, x @ w)[np.arange(48), ids]),
            normal(48, 32),
            normal(32, 40),
            integers=[labels],
        ),
        'cumulative sums': program(lambda np, x: np.cumsum(x, 1), normal(16, 300)),
    }


def _rounded_product(np, x, y):
    if np is not jnp:
        return x @ y
    x, y = x.astype('bfloat16'), y.astype('bfloat16')
    return np.matmul(x, y, preferred_element_type='float32')


def _softmax(np, x):
    weights = np.exp(x - np.max(x, -1, keepdims=True))
    return weights / np.sum(weights, -1, keepdims=True)


def _attention(np, q, k, v, documents):
    same = documents[:, None] == documents
    scores = np.where(same, np.einsum('HQK,HSK->HQS', q, k) / 4, -1e30)
    return np.einsum('HQS,HSK->HQK', _softmax(np, scores), v)
