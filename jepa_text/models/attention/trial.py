"""Validates a kernel on the device against the reference before it is used.

Kernels run with combinations of drivers, chips and versions that nobody has tested. So a
few rows are computed with both, forward and backward, once per process and kind of
request.
"""

import concurrent.futures
import functools

import jax
import jax.numpy as jnp
import numpy as np

LENGTH = 256
# Relative to the largest value: half precision has 8 or 11 significant bits.
TOLERANCE = 0.03


@functools.lru_cache(maxsize=128)
def failure(attend, reference, **options):
    """Returns '' if two implementations agree on this device, else a description.

    `options` are the keywords of `deviations`.
    """
    # A new thread does not inherit the caller's trace, mesh or settings.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        trial = thread.submit(deviations, attend, reference, **options)
    # Any error that a kernel raises is a result of the trial.
    if error := trial.exception():
        first = (str(error).strip() or 'no message').splitlines()[0]
        return f'its trial here raised {type(error).__name__}: {first[:160]}'
    for name, share in trial.result().items():
        if not share <= TOLERANCE:
            return f'{name} was off by {share:.1%} in a trial here'
    return ''


def deviations(
    attend,
    reference,
    *,
    dtype,
    groups,
    repeats,
    head_width,
    causal,
    window,
    length=LENGTH,
):
    """Returns the largest differences of two implementations, as shares of the maximum.

    A dict {'its result', 'its gradient of q', 'its gradient of k', 'its gradient of v':
    float}. `groups`: key/value heads, with `repeats` heads each; `length`: the row
    length, a multiple of LENGTH. Both are called like backends. Of two rows, one has two
    documents and padding, and one a single document.
    """
    rng = np.random.default_rng(0)

    def draw(heads):
        shape = (2, length, heads, head_width)
        return jnp.asarray(rng.standard_normal(shape), dtype)

    scale = length // LENGTH
    ids_BL = np.ones((2, length), np.int32)
    ids_BL[0, 100 * scale :] = 2
    ids_BL[0, 230 * scale :] = 0

    @functools.partial(jax.jit, static_argnums=0)
    def run(attend, ids_BL, d_out_BLHK, *inputs):
        def forward(*inputs):
            return attend(*inputs, ids_BL, causal=causal, window=window)

        out_BLHK, backward = jax.vjp(forward, *inputs)
        return [out_BLHK, *backward(d_out_BLHK)]

    d_out_BLHK = draw(groups * repeats)
    inputs = (d_out_BLHK, draw(groups * repeats), draw(groups), draw(groups))
    names = ('its result', 'its gradient of q', 'its gradient of k', 'its gradient of v')
    actual, expected = (run(each, ids_BL, *inputs) for each in (attend, reference))
    return dict(zip(names, map(_deviation, actual, expected), strict=True))


def _deviation(actual, expected):
    actual, expected = np.asarray(actual, np.float32), np.asarray(expected, np.float32)
    return float(np.abs(actual - expected).max() / np.abs(expected).max())
