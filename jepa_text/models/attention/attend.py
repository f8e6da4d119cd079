"""One attention function over several backends.

A backend is a file of `models/attention`. 'auto' takes the fastest that can do what is
asked; a named one that cannot is an error. Who sees whom: `models/attention/masks.py`.
"""

import contextlib
import contextvars
import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from jepa_text.cost import flops, hardware
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
from jepa_text.parallel import activations

BACKENDS = {
    'xla': xla,
    'blockwise': blockwise,
    'cudnn': cudnn,
    'tokamax': tokamax,
    'pallas': pallas,
    'splash': splash,
}
# The fastest first.
FASTEST = {
    'cpu': ('xla', 'blockwise'),
    'gpu': ('cudnn', 'tokamax', 'pallas', 'xla', 'blockwise'),
    'tpu': ('splash', 'xla', 'blockwise'),
}
# Above so many bytes of scores on a device, blockwise goes before xla.
MAX_LOGITS = 4 * 2**30

_SEEN = contextvars.ContextVar('seen', default=None)
_DOCUMENTS = contextvars.ContextVar('documents', default=None)


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
    """softmax(q k^T / sqrt(K)) v inside each document; heads share keys in groups.

    A document is a run of equal ids, and no id comes again after another one: some
    kernels know runs only. Head h reads key/value head h // (H / G) (Ainslie et al.
    2023). With a `window`, position i sees j only if |i - j| <= window; of rows with
    gaps, `positions_BL` says what i and j are. The softmax is float32; the result has the
    dtype of `q_BLHK`. On several devices, set the mesh (`jax.set_mesh`): kernels then
    get each device's rows and heads. `keep` names what the backward pass wants, for the
    policies of jax.checkpoint: the result, and with it what a kernel would else
    run again for (`KEEPS` of its file). Raises ValueError for a backend that does not
    exist or cannot do this: a named backend is never replaced by another.
    """
    if window is None:
        positions_BL = None
    k_BLGK, v_BLGK = split.divided(q_BLHK.shape[2], k_BLGK, v_BLGK)
    q_BLHK, k_BLGK, v_BLGK = map(activations.by_heads, (q_BLHK, k_BLGK, v_BLGK))
    request = request_of(
        q_BLHK, k_BLGK, order_BL, positions_BL, causal=causal, window=window
    )
    name = choose(backend, request)
    if (watched := _SEEN.get()) is not None:
        watched[request] = backend
    attend = split.fitted(BACKENDS[name], request, keep)
    placed = () if positions_BL is None else (positions_BL,)
    seen = flops.seen(request.length, causal, window)
    with flops.counted(seen / request.length):
        out_BLHK = attend(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, order_BL, *placed)
    out_BLHK = activations.by_positions(out_BLHK)
    if keep is None or BACKENDS[name].KEEPS:
        return out_BLHK
    return checkpoint_name(out_BLHK, keep)


def is_kept(primitive, *_, **settings):
    """A policy of jax.checkpoint: keeps what kernels give that cannot name it."""
    return primitive.name in cudnn.FORWARD


@dataclasses.dataclass(frozen=True)
class Request:
    """What is asked of a backend, as far as it is known before any number is.

    `platform` is cpu, gpu or tpu; `capability` that of an NVIDIA GPU. `rows` and `tensor`
    are over how many devices rows and heads are split, heads over `context`, too;
    `devices` is how many there are if no mesh says over which of them arrays lie, else 1.
    With `gaps`, windows go by positions that are given. `documents`: as many has a row at
    most, padding left out; None if that is not known.
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
    """The Request of a call with these arrays, under the mesh that is set."""
    batch, length, heads, head_width = q_BLHK.shape
    mesh = jax.sharding.get_abstract_mesh()
    # Axes of an enclosing shard_map are split already.
    sizes = {a: n for a, n in mesh.shape.items() if a not in mesh.manual_axes}
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
        rows=sizes.get('data', 1) * sizes.get('fsdp', 1),
        tensor=sizes.get('tensor', 1) * sizes.get('context', 1),
        devices=jax.device_count() if mesh.empty else 1,
        documents=_DOCUMENTS.get(),
    )


def _capability(platform, device):
    """CUDA's, of the GPU here, or of one elsewhere that the mesh describes."""
    if platform != 'gpu':
        return (0, 0)
    if jax.default_backend() == 'gpu':
        text = getattr(jax.local_devices()[0], 'compute_capability', '0.0')
        return tuple(int(part) for part in str(text).split('.'))
    name = hardware.name_of(device.device_kind)
    return (hardware.CHIPS[name].capability if name else None) or (0, 0)


def choose(backend, request):
    """The name of the backend that does what is asked: 'auto', or an explicit name.

    Raises ValueError for a name that does not exist, or cannot do it.
    """
    check(backend)
    if backend == 'auto':
        return next(name for name in order(request) if not why_not(name, request))
    if reason := why_not(backend, request):
        can = [name for name, reason in available(request).items() if not reason]
        raise ValueError(
            f'attention backend {backend!r} cannot do this: {reason}. Of the others can: '
            f"{', '.join(can)}; or let 'auto' choose."
        )
    return backend


def check(backend):
    """Raises ValueError for a name that is neither 'auto' nor a backend's."""
    if backend != 'auto' and backend not in BACKENDS:
        raise ValueError(
            f'attention backend {backend!r} does not exist; there are: auto, '
            f'{", ".join(sorted(BACKENDS))}.'
        )


def order(request):
    """Names of the backends of the request's platform, the fastest first."""
    names = FASTEST.get(request.platform, FASTEST['cpu'])
    cells = request.batch * request.heads * request.length**2
    if 4 * cells / (request.rows * request.tensor) <= MAX_LOGITS:
        return names
    return (*(n for n in names if n not in ('xla', 'blockwise')), 'blockwise', 'xla')


def why_not(name, request):
    """'' if the backend `name` can do what is asked, tried out where it is a kernel; else
    why not, in words."""
    backend = BACKENDS[name]
    reason = backend.why_not(request)
    if reason or backend.SPLITS:
        return reason
    if request.devices > 1:
        return (
            f'there are {request.devices} devices and no mesh is set (jax.set_mesh), '
            'which a kernel needs to be split'
        )
    if request.kv_heads % request.tensor:
        return f'kv_heads={request.kv_heads} do not divide over tensor={request.tensor}'
    if request.platform != jax.default_backend():
        return ''  # Compiled here for another machine: nothing to try it on.
    return trial.fails(
        backend.attend,
        xla.attend,
        runs=backend.RUNS,
        dtype=request.dtype,
        groups=request.kv_heads,
        repeats=request.heads // request.kv_heads,
        head_width=request.head_width,
        causal=request.causal,
        window=request.window,
    )


def available(request):
    """{name: '' or why not} of all backends."""
    return {name: why_not(name, request) for name in BACKENDS}


def explain(request, backend='auto'):
    """Lines for people: what was chosen, and of each other one why it was not."""
    chosen = choose(backend, request)
    ways = 'causal' if request.causal else 'bidirectional'
    ways += '' if request.window is None else f' within {request.window}'
    ways += ', an order by row' if request.order else ''
    ways += ', of rows with gaps' if request.gaps else ''
    lines = [
        f'attention {chosen} ({backend}): {request.platform}, {request.dtype}, '
        f'{request.batch} x {request.length}, {request.heads} heads of '
        f'{request.head_width} on {request.kv_heads}, {ways}'
    ]
    names = order(request)
    for name in dict.fromkeys((*names, *BACKENDS)):
        if name == chosen:
            continue
        slower = name in names and names.index(name) > names.index(chosen)
        # Nothing is tried out that would not be taken anyway.
        reason = BACKENDS[name].why_not(request) if slower else why_not(name, request)
        lines.append(f'  not {name}: {reason or "expected to be slower here"}')
    return lines


def of_documents(maximum, function):
    """`function`, in which no row has more than `maximum` documents; None: any number.

    Whoever made the rows knows it. It counts while the function is traced.
    """

    @functools.wraps(function)
    def called(*inputs):
        token = _DOCUMENTS.set(maximum)
        try:
            return function(*inputs)
        finally:
            _DOCUMENTS.reset(token)

    return called


@contextlib.contextmanager
def watch():
    """Collects {Request: the backend that was asked for} of what is traced inside.

    What was compiled before is not traced again, and so not seen.
    """
    seen = {}
    token = _SEEN.set(seen)
    try:
        yield seen
    finally:
        _SEEN.reset(token)


def explain_call(function, *args):
    """`explain` of all that is attended to in a call of a function, which is traced but
    not run: the arguments may be ShapeDtypeStructs."""
    with watch() as seen:
        jax.eval_shape(function, *args)
    return [line for pair in seen.items() for line in explain(*pair)]
