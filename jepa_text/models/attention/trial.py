"""A kernel is tried on the device, against the reference, before it is trusted.

Kernels meet drivers, chips and versions that nobody tested together. So a few rows go
through both, forward and backward, once per process and kind of question.
"""

import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np

LENGTH = 256
# Of the largest value: half precision has 8 or 11 bits.
TOLERANCE = 0.03


@functools.lru_cache(maxsize=128)
def fails(attend, reference, **question):
    """'' if two ways to attend agree on this device; else what went wrong, in words.

    `question`: runs (backends/__init__.py), dtype, groups (kv heads), repeats (heads of
    each), head_width, causal, window. Both are called as backends are.
    """
    answer = []

    def run():
        try:
            answer.append(_compare(attend, reference, **question))
        # Whatever a kernel raises is the answer that was asked for.
        except Exception as error:
            first = (str(error).strip() or 'no message').splitlines()[0]
            answer.append(f'its trial here raised {type(error).__name__}: {first[:160]}')

    # A thread of its own has no trace, mesh or setting of the caller around it.
    thread = threading.Thread(target=run, name='trial')
    thread.start()
    thread.join()
    return answer[0]


def _compare(
    attend, reference, *, runs, dtype, groups, repeats, head_width, causal, window
):
    rng = np.random.default_rng(0)

    def draw(heads):
        shape = (3, LENGTH, heads, head_width)
        return jnp.asarray(rng.standard_normal(shape), dtype)

    # Two documents and padding; one document; and one that goes on after another.
    ids_BL = np.ones((3, LENGTH), np.int32)
    ids_BL[0, 100:] = 2
    ids_BL[0, 230:] = 0
    ids_BL[2, 80:150] = 2
    meant_BL = ids_BL.copy()
    if runs:
        meant_BL[2, 150:] = 3

    @functools.partial(jax.jit, static_argnums=0)
    def run(attend, ids_BL, slope_BLHK, *inputs):
        def forward(*inputs):
            return attend(*inputs, ids_BL, None, causal=causal, window=window)

        out_BLHK, backward = jax.vjp(forward, *inputs)
        return [out_BLHK, *backward(slope_BLHK)]

    slope_BLHK = draw(groups * repeats)
    inputs = (slope_BLHK, draw(groups * repeats), draw(groups), draw(groups))
    names = ('its result', 'its gradient of q', 'its gradient of k', 'its gradient of v')
    got, expected = run(attend, ids_BL, *inputs), run(reference, meant_BL, *inputs)
    pairs = zip(names, got, expected, strict=True)
    for name, got, expected in pairs:
        got, expected = np.asarray(got, np.float32), np.asarray(expected, np.float32)
        error = np.abs(got - expected).max() / np.abs(expected).max()
        if not error <= TOLERANCE:
            return f'{name} was off by {error:.1%} in a trial here'
    return ''
