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

    `question`: as of `deviations`.
    """
    answer = []

    def run():
        try:
            answer.append(_words(deviations(attend, reference, **question)))
        # Whatever a kernel raises is the answer that was asked for.
        except Exception as error:
            first = (str(error).strip() or 'no message').splitlines()[0]
            answer.append(f'its trial here raised {type(error).__name__}: {first[:160]}')

    # A thread of its own has no trace, mesh or setting of the caller around it.
    thread = threading.Thread(target=run, name='trial')
    thread.start()
    thread.join()
    return answer[0]


def _words(found):
    wrong = (name for name, error in found.items() if not error <= TOLERANCE)
    name = next(wrong, None)
    return '' if name is None else f'{name} was off by {found[name]:.1%} in a trial here'


def deviations(
    attend,
    reference,
    *,
    runs,
    dtype,
    groups,
    repeats,
    head_width,
    causal,
    window,
    length=LENGTH,
):
    """{'its result', 'its gradient of q', of k, of v: the largest difference of two ways
    to attend, as a share of the largest value}.

    `runs`: documents are runs of ids (RUNS of a backend's file); `groups`: kv heads, with
    `repeats` heads each; `length`: of the rows, a multiple of LENGTH. Both are called as
    backends are. One of three rows has two documents and padding, one a single document,
    and in one an id comes again after another.
    """
    rng = np.random.default_rng(0)

    def draw(heads):
        shape = (3, length, heads, head_width)
        return jnp.asarray(rng.standard_normal(shape), dtype)

    times = length // LENGTH
    ids_BL = np.ones((3, length), np.int32)
    ids_BL[0, 100 * times :] = 2
    ids_BL[0, 230 * times :] = 0
    ids_BL[2, 80 * times : 150 * times] = 2
    meant_BL = ids_BL.copy()
    if runs:
        meant_BL[2, 150 * times :] = 3

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
    return {name: _deviation(got, expected) for name, got, expected in pairs}


def _deviation(got, expected):
    got, expected = np.asarray(got, np.float32), np.asarray(expected, np.float32)
    return float(np.abs(got - expected).max() / np.abs(expected).max())
