"""Fused LM head and cross-entropy that never materializes all logits.

Depends only on jax. The matrix product with the head's kernel, the log-sum-exp and both
gradients are computed for a chunk of positions at a time, so memory does not grow with
positions times vocabulary.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from jepa_text.losses import shapes

_einsum = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)


def linear_cross_entropy(
    hidden_BMD: jax.Array,
    kernel_DV: jax.Array,
    labels_BM: jax.Array,
    weight_BM: jax.Array,
    *,
    chunk_positions: int,
    z_weight: float = 0.0,
    bias_V: jax.Array | None = None,
    vocab_first: bool = False,
    split: 'Split | None' = None,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
    """Returns total = sum weight (loss + z_weight z^2), and (loss_BM, z_BM, correct_BM).

    loss = z - logit[label], with z = log sum exp of the logits hidden @ kernel + bias.
    correct is 1 where no logit exceeds the label's. All are float32, and only `total` has
    gradients. These are computed during the forward pass, while the logits are available,
    so three matrix products suffice where a chunked backward pass needs four (Hsu et al.
    2024, arXiv 2410.10989); hence the weights must be known. Without gradients none are
    computed. A position with weight 0 contributes nothing, whatever its label.

    Logits exist for at most `chunk_positions` of the B * M positions at a time. The
    kernel is cast to the dtype of `hidden_BMD`, and products accumulate in float32. With
    `vocab_first` the kernel is [V, D], like an embedding. A label outside the vocabulary
    gives NaN. Raises ValueError if `chunk_positions` is below 1, and for labels or
    weights of another shape than [B, M].

    On several devices, `split` (a `Split`) names axes of the current mesh
    (`jax.set_mesh`): each device computes with its own rows and part of the vocabulary,
    and only sums of shape [B, M] and gradients are communicated. In a `jax.shard_map` of
    the caller's, gradients need check_vma=False instead.

    >>> total, (loss_BM, z_BM, correct_BM) = linear_cross_entropy(
    ...     jnp.ones((1, 2, 3)), jnp.zeros((3, 4)), jnp.array([[0, 3]]),
    ...     jnp.array([[0.5, 0.5]]), chunk_positions=1)
    >>> print(total, loss_BM)
    1.3862944 [[1.3862944 1.3862944]]
    """
    if chunk_positions < 1:
        raise ValueError(f'chunk_positions={chunk_positions}, but it must be at least 1.')
    for name, x_BM in {'labels': labels_BM, 'weight': weight_BM}.items():
        shapes.check(name, x_BM, jnp.shape(hidden_BMD)[:-1])
    split = split and Split(*split)
    layout = _Layout(chunk_positions, float(z_weight), vocab_first, split)
    total, losses = _total(layout, hidden_BMD, kernel_DV, bias_V, weight_BM, labels_BM)
    return total, jax.lax.stop_gradient(losses)


class Split(NamedTuple):
    """The mesh axes over which B (`rows`), V (`vocab`) and M (`positions`) are split.

    Each is a name, a tuple of names, or None. `width` names those axes of B and M over
    which the kernel's gradient is split along D, by a reduce-scatter, not an all-reduce.
    """

    rows: tuple
    vocab: str | None = None
    width: str | tuple | None = None
    positions: str | None = None

    def over(self):
        """Returns all axes whose devices have different positions."""
        return *_several(self.rows), *_several(self.positions)


def _several(names):
    return () if names is None else (names,) if isinstance(names, str) else names


class _Layout(NamedTuple):
    """How the product is divided: into chunks, and over the devices of a mesh."""

    positions: int
    z_weight: float
    vocab_first: bool
    split: Split | None

    @property
    def kernel(self):
        """The kernel's axes, for einsum."""
        return 'VD' if self.vocab_first else 'DV'

    @property
    def vocab_axis(self):
        """The mesh axis over which the vocabulary is split, or None."""
        return self.split and self.split.vocab

    def on_mesh(self, function, inputs, outputs):
        """Returns `function` applied to each device's shard. Layouts: 'rows' of [B, ...],
        'vocab' of the kernel, 'slope' of the kernel's gradient, 'bias' of the bias."""
        if self.split is None:
            return function
        rows, vocab, width, positions = self.split
        order = slice(None, None, 1 if self.vocab_first else -1)
        specs = {
            'rows': PartitionSpec(rows, positions),
            'vocab': PartitionSpec(*(vocab, None)[order]),
            'slope': PartitionSpec(*(vocab, width)[order]),
            'bias': PartitionSpec(vocab),
        }
        return jax.shard_map(
            function,
            in_specs=tuple(specs[kind] for kind in inputs),
            out_specs=tuple(specs[kind] for kind in outputs),
            check_vma=False,
        )

    def first_token(self, count):
        """Returns the first token id of this device's `count` tokens."""
        return jax.lax.axis_index(self.vocab_axis) * count if self.vocab_axis else 0

    def over_vocab(self, combine, x):
        """Applies `jax.lax.psum` or `pmax` over the devices that have the same rows."""
        return combine(x, self.vocab_axis) if self.vocab_axis else x

    def over_rows(self, x):
        """Returns the sum over the devices that have the same part of the vocabulary."""
        return x if self.split is None else jax.lax.psum(x, self.split.over())

    def slope_over_rows(self, d_kernel):
        """Sums the kernel's gradient as `over_rows` does; with `width`, only a shard."""
        if self.split is None or self.split.width is None:
            return self.over_rows(d_kernel)
        width = _several(self.split.width)
        shard = jax.lax.psum_scatter(
            d_kernel, width, scatter_dimension=int(self.vocab_first), tiled=True
        )
        return jax.lax.psum(shard, tuple(a for a in self.split.over() if a not in width))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _total(layout, hidden_BMD, kernel_DV, bias_V, weight_BM, labels_BM):
    local = layout.on_mesh(
        functools.partial(_local_losses, layout), _INPUTS, ('rows',) * 3
    )
    kernel = kernel_DV.astype(hidden_BMD.dtype)
    losses = local(hidden_BMD, kernel, bias_V, weight_BM, labels_BM)
    return _sum(layout, weight_BM, losses), losses


def _forward(layout, hidden_BMD, kernel_DV, bias_V, weight_BM, labels_BM):
    local = layout.on_mesh(
        functools.partial(_local_gradients, layout),
        _INPUTS,
        (*('rows',) * 4, 'slope', 'bias'),
    )
    # Cast before it is sent to all devices: this halves the bytes in half precision.
    kernel = kernel_DV.astype(hidden_BMD.dtype)
    *losses, d_hidden_BMD, d_kernel, d_bias_V = local(
        hidden_BMD, kernel, bias_V, weight_BM, labels_BM
    )
    d_kernel = d_kernel.astype(kernel_DV.dtype)
    d_weight_BM = _value(layout, losses).astype(weight_BM.dtype)
    slopes = d_hidden_BMD, d_kernel, d_bias_V, d_weight_BM
    # Rounded only once, after the last product; the empty array carries the dtype.
    return (_sum(layout, weight_BM, losses), tuple(losses)), (slopes, hidden_BMD[:0])


def _backward(layout, saved, slopes):
    (d_hidden_BMD, *rest), like_BMD = saved
    slope, _ = slopes  # only `total` has gradients, see `linear_cross_entropy`
    d_hidden_BMD = (slope * d_hidden_BMD).astype(like_BMD.dtype)
    rest = jax.tree.map(lambda d: (slope * d).astype(d.dtype), rest)
    return d_hidden_BMD, *rest, None


_total.defvjp(_forward, _backward)
_INPUTS = ('rows', 'vocab', 'bias', 'rows', 'rows')


def _value(layout, losses):
    loss_BM, z_BM, _ = losses
    return loss_BM + layout.z_weight * z_BM**2


def _sum(layout, weight_BM, losses):
    weighted_BM = weight_BM * _value(layout, losses)
    return jnp.sum(jnp.where(weight_BM == 0, 0, weighted_BM))


def _local_losses(layout, hidden_BMD, kernel_DV, bias_V, weight_BM, labels_BM):
    def chunk(carry, part):
        hidden_ND, _, labels_N = part
        losses, *_ = _losses(layout, hidden_ND, kernel_DV, bias_V, labels_N)
        return carry, losses

    return _over_chunks(layout, chunk, None, (hidden_BMD, weight_BM, labels_BM))[1]


def _local_gradients(layout, hidden_BMD, kernel_DV, bias_V, weight_BM, labels_BM):
    """Computes d logit = weight ((1 + 2 z_weight z) softmax - onehot), chunk by chunk."""

    def chunk(carry, part):
        d_kernel_DV, d_bias_V = carry
        hidden_ND, weight_N, labels_N = part
        losses, exp_NV, sum_N, hit_NV = _losses(
            layout, hidden_ND, kernel_DV, bias_V, labels_N
        )
        grown_N = 1 + 2 * layout.z_weight * losses[1]
        slope_NV = exp_NV * (weight_N * grown_N / sum_N)[:, None]
        slope_NV -= jnp.where(hit_NV, weight_N[:, None], 0)
        if bias_V is not None:
            d_bias_V += jnp.sum(slope_NV, axis=0)
        slope_NV = slope_NV.astype(hidden_ND.dtype)
        d_hidden_ND = _einsum(f'NV,{layout.kernel}->ND', slope_NV, kernel_DV)
        d_kernel_DV += _einsum(f'NV,ND->{layout.kernel}', slope_NV, hidden_ND)
        return (d_kernel_DV, d_bias_V), (*losses, d_hidden_ND)

    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape), (kernel_DV, bias_V))
    (d_kernel, d_bias_V), (*losses, d_hidden_BMD) = _over_chunks(
        layout, chunk, zeros, (hidden_BMD, weight_BM, labels_BM)
    )
    d_kernel = layout.slope_over_rows(d_kernel)
    if bias_V is not None:
        d_bias_V = layout.over_rows(d_bias_V).astype(bias_V.dtype)
    d_hidden_BMD = layout.over_vocab(jax.lax.psum, d_hidden_BMD)
    return *losses, d_hidden_BMD, d_kernel, d_bias_V


def chunks(shape, positions):
    """Returns (rows, length, count, size): how [B, M] positions are divided into chunks.

    The positions are viewed as `rows` x `length`, and each of `count` chunks takes `size`
    positions of each row, at most `positions` in total. rows = B, so that a batch stays
    split over devices, unless `positions` is below B; then rows = 1. All chunks have the
    same size; the last is padded with positions of weight 0.

    >>> chunks((2, 5), positions=4)
    (2, 5, 3, 2)
    """
    rows, length = shape if positions >= shape[0] else (1, shape[0] * shape[1])
    count = max(1, -(-length // (positions // rows)))
    return rows, length, count, -(-length // count)


def _over_chunks(layout, chunk, carry, inputs):
    """Scans `chunk`, as `jax.lax.scan` does, over chunks of arrays [B, M, ...]."""
    shape = inputs[0].shape[:2]
    rows, length, count, size = chunks(shape, layout.positions)

    def cut(x_BM):
        rest = x_BM.shape[2:]
        fill = [(0, 0), (0, count * size - length), *((0, 0) for _ in rest)]
        x_BM = jnp.pad(x_BM.reshape(rows, length, *rest), fill)
        x_CBM = x_BM.reshape(rows, count, size, *rest).swapaxes(0, 1)
        return x_CBM.reshape(count, rows * size, *rest)

    def join(x_CN):
        rest = x_CN.shape[2:]
        x_BCM = x_CN.reshape(count, rows, size, *rest).swapaxes(0, 1)
        x_BM = x_BCM.reshape(rows, count * size, *rest)[:, :length]
        return x_BM.reshape(*shape, *rest)

    carry, outputs = jax.lax.scan(chunk, carry, tuple(map(cut, inputs)))
    return carry, tuple(map(join, outputs))


def _losses(layout, hidden_ND, kernel_DV, bias_V, labels_N):
    """Returns (loss, z, correct) of a chunk, exp(logit - top)_NV, its sum_N, and
    onehot(label)_NV; V are the tokens of this device."""
    logits_NV = _einsum(f'ND,{layout.kernel}->NV', hidden_ND, kernel_DV)
    if bias_V is not None:
        logits_NV += bias_V[None]
    vocab = logits_NV.shape[1]
    index_N = shapes.labels(labels_N) - layout.first_token(vocab)
    # A label on another device contributes 0 here.
    found_N = (index_N >= 0) & (index_N < vocab)
    label_N = jnp.take_along_axis(logits_NV, index_N[:, None], axis=1, mode='clip')[:, 0]
    # The label's logit never exceeds the maximum. Using it before the exponentials lets
    # them overwrite the logits: one buffer instead of two.
    top_N = jnp.maximum(jnp.max(logits_NV, axis=-1), label_N)
    top_N = layout.over_vocab(jax.lax.pmax, top_N)
    exp_NV = jnp.exp(logits_NV - top_N[:, None])
    sums = (
        jnp.sum(exp_NV, axis=-1),
        jnp.where(found_N, label_N, 0),
        found_N.astype(jnp.float32),
    )
    sum_N, label_N, found_N = layout.over_vocab(jax.lax.psum, sums)
    label_N = jnp.where(found_N > 0, label_N, jnp.nan)
    z_N = top_N + jnp.log(sum_N)
    correct_N = (label_N >= top_N).astype(jnp.float32)
    hit_NV = index_N[:, None] == jnp.arange(vocab)[None]
    return (z_N - label_N, z_N, correct_N), exp_NV, sum_N, hit_NV
