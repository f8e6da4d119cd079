"""One attention function for all backends, and the choice of the backend.

A backend is a file of `models/attention`. 'auto' takes the fastest that supports the
request; a named backend that does not support it raises ValueError. The attention mask is
defined in `models/attention/masks.py`.
"""

import contextlib
import contextvars
import dataclasses
import functools

import jax
import jax.numpy as jnp

from jepa_text.models import flops
from jepa_text.models.attention import (
    blockwise,
    cudnn,
    pallas,
    splash,
    split,
    tokamax,
    trial,
    xla,
)
from jepa_text.parallel import activations, hardware, sharding
from jepa_text.settings import resolve

BACKENDS = {
    'xla': xla,
    'blockwise': blockwise,
    'cudnn': cudnn,
    'tokamax': tokamax,
    'pallas': pallas,
    'splash': splash,
}
# Fastest first.
FASTEST = {
    'cpu': ('xla', 'blockwise'),
    'gpu': ('cudnn', 'tokamax', 'pallas', 'xla', 'blockwise'),
    'tpu': ('splash', 'xla', 'blockwise'),
}
# Above this number of bytes of scores per device, blockwise is preferred to xla.
MAX_LOGITS = 4 * 2**30

_RECORD = contextvars.ContextVar('record', default=None)
_MAX_DOCUMENTS = contextvars.ContextVar('max_documents', default=None)


def attend(
    q_BLHK,
    k_BLGK,
    v_BLGK,
    segment_ids_BL,
    order_BL=None,
    positions_BL=None,
    *,
    causal,
    window=None,
    backend='auto',
    keep=None,
):
    """Returns softmax(q k^T / sqrt(K)) v within each document, with grouped key heads.

    A document is a run of equal ids, and an id must not occur again after another one,
    because some kernels only see runs. Head h uses key/value head h // (H / G) (Ainslie
    et al. 2023). With a `window`, position i attends to j only if |i - j| <= window; for
    rows with gaps, `positions_BL` has i and j. The softmax is float32, and the result has
    the dtype of `q_BLHK`. On several devices, set the mesh (`jax.set_mesh`): kernels then
    get the rows and heads of each device. `keep` names what the backward pass needs, for
    the policies of jax.checkpoint: the result and what a kernel would otherwise have to
    recompute. Raises ValueError for a backend that does not exist
    or does not support the request: a named backend is never replaced by another.
    """
    if window is None:
        positions_BL = None
    k_BLGK, v_BLGK = split.repeat_groups(q_BLHK.shape[2], k_BLGK, v_BLGK)
    q_BLHK, k_BLGK, v_BLGK = map(activations.by_heads, (q_BLHK, k_BLGK, v_BLGK))
    request = request_of(
        q_BLHK, k_BLGK, order_BL, positions_BL, causal=causal, window=window
    )
    name = choose(backend, request)
    if (record := _RECORD.get()) is not None:
        record[request] = backend
    attend = split.adapted(BACKENDS[name], request, keep)
    # Kernels take neither.
    places = (order_BL, positions_BL) if request.order or request.gaps else ()
    seen = flops.visible(request.length, causal, window)
    with flops.attention(seen / request.length):
        out_BLHK = attend(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, *places)
    return activations.by_positions(out_BLHK)


def kernel_outputs_saveable(primitive, *_, **settings):
    """A jax.checkpoint policy that saves the outputs of kernels that cannot name them."""
    return primitive.name in cudnn.FORWARD


@dataclasses.dataclass(frozen=True)
class Request:
    """Static properties of a call, by which a backend is chosen.

    `platform` is cpu, gpu or tpu; `capability` the compute capability of an NVIDIA GPU.
    `rows` and `tensor` are the numbers of devices over which rows and heads are split,
    heads over `context` as well. `devices` is the number of devices if no mesh tells how
    arrays are split over them, else 1. With `gaps`, windows are measured in given
    positions. `documents` is the maximum number of documents per row, without padding;
    None if unknown.
    """

    platform: str
    dtype: str
    batch: int
    length: int
    heads: int
    kv_heads: int
    head_width: int
    causal: bool
    window: int | None = None
    order: bool = False
    gaps: bool = False
    capability: tuple = (0, 0)
    rows: int = 1
    tensor: int = 1
    devices: int = 1
    documents: int | None = None


def request_of(q_BLHK, k_BLGK, order_BL=None, positions_BL=None, *, causal, window=None):
    """Returns the Request of a call with these arrays, under the current mesh."""
    batch, length, heads, head_width = q_BLHK.shape
    mesh = jax.sharding.get_abstract_mesh()
    device = mesh.abstract_device
    platform = jax.default_backend() if device is None else device.platform
    platform = {'cuda': 'gpu', 'rocm': 'gpu'}.get(platform, platform)
    return Request(
        platform=platform,
        dtype=jnp.dtype(q_BLHK.dtype).name,
        batch=batch,
        length=length,
        heads=heads,
        kv_heads=k_BLGK.shape[2],
        head_width=head_width,
        causal=causal,
        window=window,
        order=order_BL is not None,
        gaps=positions_BL is not None,
        capability=_capability(platform, device),
        rows=activations.ways(sharding.ROWS),
        tensor=activations.ways(sharding.HEADS),
        devices=jax.device_count() if mesh.empty else 1,
        documents=_MAX_DOCUMENTS.get(),
    )


def _capability(platform, device):
    """Returns the compute capability of the local GPU, or of the mesh's abstract GPU."""
    if platform != 'gpu':
        return (0, 0)
    if jax.default_backend() == 'gpu':
        text = getattr(jax.local_devices()[0], 'compute_capability', '')
        parts = str(text).split('.')
        # That of an AMD GPU is a name, such as gfx942.
        return tuple(map(int, parts)) if all(map(str.isdigit, parts)) else (0, 0)
    name = hardware.name_of(device.device_kind)
    return (hardware.CHIPS[name].capability if name else None) or (0, 0)


def choose(backend, request):
    """Returns the name of a backend that supports the request: the given or the fastest.

    Raises ValueError for a name that does not exist or does not support the request.
    """
    check(backend)
    if backend == 'auto':
        return next(name for name in order(request) if not why_not(name, request))
    if reason := why_not(backend, request):
        others = [name for name in BACKENDS if not why_not(name, request)]
        raise ValueError(
            f'attention backend {backend!r} does not support this call: {reason}. These '
            f"do: {', '.join(others)}. Choose one of them, or 'auto'."
        )
    return backend


def check(backend):
    """Raises ValueError for a name that is neither 'auto' nor a backend."""
    resolve.check_choice('attention', backend, ('auto', *BACKENDS))


def order(request):
    """Returns the names of the backends for the request's platform, fastest first."""
    names = FASTEST.get(request.platform, FASTEST['cpu'])
    cells = request.batch * request.heads * request.length**2
    if 4 * cells / (request.rows * request.tensor) <= MAX_LOGITS:
        return names
    return (*(n for n in names if n not in ('xla', 'blockwise')), 'blockwise', 'xla')


def why_not(name, request):
    """Returns '' if the backend `name` supports the request, else the reason why not. A
    kernel is also tried on the device (trial.py)."""
    backend = BACKENDS[name]
    reason = unsupported(backend, request)
    if reason or backend.SPLITS:
        return reason
    if request.devices > 1:
        return (
            f'there are {request.devices} devices but no mesh is set (jax.set_mesh), '
            'which is needed to split a kernel'
        )
    if request.kv_heads % request.tensor:
        return f'kv_heads={request.kv_heads} is not a multiple of tensor={request.tensor}'
    if request.platform != jax.default_backend():
        return ''  # Compiled for another platform: it cannot be tried here.
    return trial.failure(
        backend.attend,
        xla.attend,
        dtype=request.dtype,
        groups=request.kv_heads,
        repeats=request.heads // request.kv_heads,
        head_width=request.head_width,
        causal=request.causal,
        window=request.window,
    )


def unsupported(backend, request):
    """Returns '' if a file of models/attention supports the request, as far as is known
    without a trial, else the reason why not."""
    if backend.SPLITS:
        return ''
    if request.platform != backend.PLATFORM:
        return f'it runs on {dict(gpu="NVIDIA GPUs", tpu="TPUs")[backend.PLATFORM]}'
    if request.capability < backend.CAPABILITY:
        need, have = (
            '.'.join(map(str, x)) for x in (backend.CAPABILITY, request.capability)
        )
        return f'it needs compute capability {need}, and this GPU has {have}'
    if request.dtype not in backend.DTYPES:
        return f'it takes {" or ".join(backend.DTYPES)}, not {request.dtype}'
    if request.order:
        return 'it does not support an order per row'
    if request.gaps:
        return 'its windows count indices of a row, but these rows have gaps'
    return backend.why_not(request) if hasattr(backend, 'why_not') else ''


def explain(request, backend='auto'):
    """Returns a line of text: the chosen backend, and what for."""
    chosen = choose(backend, request)
    mask = 'causal' if request.causal else 'bidirectional'
    mask += '' if request.window is None else f' within {request.window}'
    mask += ', with an order per row' if request.order else ''
    mask += ', rows with gaps' if request.gaps else ''
    return (
        f'attention {chosen} ({backend}): {request.platform}, {request.dtype}, '
        f'{request.batch} x {request.length}, {request.heads} heads of '
        f'{request.head_width} on {request.kv_heads}, {mask}'
    )


def with_max_documents(maximum, function):
    """Returns `function` with at most `maximum` documents per row; None: unknown.

    The producer of the rows knows the number. It applies while the function is traced.
    """

    @functools.wraps(function)
    def called(*inputs):
        with _set(_MAX_DOCUMENTS, maximum):
            return function(*inputs)

    return called


def record_requests():
    """A context that yields {Request: requested backend} of all calls traced in it.

    Functions that are already compiled are not traced again, and so not recorded.
    """
    return _set(_RECORD, {})


@contextlib.contextmanager
def _set(variable, value):
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
