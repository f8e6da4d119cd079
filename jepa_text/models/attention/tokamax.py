"""Tokamax attention kernels for NVIDIA GPUs, with documents and two-sided windows.

Each position attends to a range of the row, from `first` up to but excluding `end`.
Tokamax supports such ranges only in its internal interface, so its version is checked.
"""

import functools
import importlib.util

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.extend import backend

SPLITS, MULTIPLE = False, 128
PLATFORM, CAPABILITY, DTYPES = 'gpu', (8, 0), ('bfloat16', 'float16')
# Its kernels in order of preference, among those that support the device.
KERNELS = ('mosaic_gpu', 'triton')


def why_not(request):
    """Requires the package, in a version with the interface that is used here."""
    del request
    if importlib.util.find_spec('tokamax') is None:
        return "the package is not installed: pip install 'jepa-text[kernels]'"
    try:
        from tokamax._src.ops.attention import api, base
    except ImportError as error:
        return f'this version of tokamax has another layout ({error})'
    if not hasattr(base, 'Mask'):
        return 'this version of tokamax has another layout (no Mask)'
    if _kernel(api) is None:
        return f'none of its kernels ({", ".join(KERNELS)}) supports this device'
    return ''


def _kernel(api):
    device = backend.get_default_device()
    known = [name for name in KERNELS if name in api.IMPLEMENTATIONS]
    supported = [name for name in known if api.IMPLEMENTATIONS[name].supported_on(device)]
    # Its backward pass supports only these.
    if 'mosaic_gpu' in supported and device.compute_capability not in ('9.0', '10.0'):
        supported.remove('mosaic_gpu')
    return supported[0] if supported else None


def attend(
    q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, *, causal, window, kernel=None, keep=None
):
    """Uses the first of KERNELS that the device supports, or `kernel` if given."""
    from absl import flags
    from tokamax._src.ops.attention import api

    if not flags.FLAGS.is_parsed():
        # Tokamax would otherwise parse the command line of the running program.
        flags.FLAGS.mark_as_parsed()
    seen = ranges(segment_ids_BL, causal, window)
    kernel = api.IMPLEMENTATIONS[kernel or _kernel(api)]
    inputs = (q_BLHK, k_BLGK, v_BLGK)
    if kernel.vjp is None:
        return kernel(*inputs, mask=_mask(seen))
    return _attend(kernel, keep, *inputs, seen)


# Tokamax's own rule reruns the forward pass under rematerialization, whatever is saved.
# This one calls the same kernels with the same arguments and names their residuals.
@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _attend(kernel, keep, q_BLHK, k_BLGK, v_BLGK, seen):
    del keep
    return kernel(q_BLHK, k_BLGK, v_BLGK, mask=_mask(seen))


def _forward(kernel, keep, q_BLHK, k_BLGK, v_BLGK, seen):
    inputs = (q_BLHK, k_BLGK, v_BLGK)
    outputs = kernel(*inputs, mask=_mask(seen), return_residuals=True)
    if keep is not None:
        outputs = jax.tree.map(lambda x: checkpoint_name(x, keep), outputs)
    return outputs[0], (inputs, seen, *outputs)


def _backward(kernel, keep, saved, d_out_BLHK):
    del keep
    inputs, seen, out_BLHK, softmax = saved
    bound = kernel.bind(*inputs, mask=_mask(seen))
    options = {key: x for key, x in bound.kwargs.items() if key != 'return_residuals'}
    gradients = kernel.vjp(softmax, out_BLHK, d_out_BLHK, *bound.args, **options)
    return gradients['q'], gradients['k'], gradients['v'], None


_attend.defvjp(_forward, _backward)


def _mask(seen):
    from tokamax._src.ops.attention import base

    first_BL, end_BL = seen
    return base.Mask(k_start=first_BL[:, None], k_end=end_BL[:, None])


def ranges(segment_ids_BL, causal, window):
    """Returns (first_BL, end_BL): position i attends to first[i] to end[i] - 1."""
    index_1L = jnp.arange(segment_ids_BL.shape[1], dtype=jnp.int32)[None]
    new_BL = segment_ids_BL[:, 1:] != segment_ids_BL[:, :-1]
    starts_BL = jnp.pad(new_BL, ((0, 0), (1, 0)), constant_values=True)
    stops_BL = jnp.pad(new_BL, ((0, 0), (0, 1)), constant_values=True)
    first_BL = jax.lax.cummax(jnp.where(starts_BL, index_1L, 0), axis=1)
    length = segment_ids_BL.shape[1]
    end_BL = jnp.where(stops_BL, index_1L + 1, length)
    end_BL = jax.lax.cummin(end_BL, axis=1, reverse=True)
    if window is not None:
        first_BL = jnp.maximum(first_BL, index_1L - window)
        end_BL = jnp.minimum(end_BL, index_1L + window + 1)
    if causal:
        end_BL = jnp.minimum(end_BL, index_1L + 1)
    return first_BL, end_BL
