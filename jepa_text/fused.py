"""Word scores and their cross-entropy as one operation, gradients included.

Needs only jax. The head's product, the log-sum-exp and both gradients are made for some
positions at a time, so memory does not grow with positions times words.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec


def linear_cross_entropy(
    hidden_BMD,
    kernel_DV,
    labels_BM,
    weight_BM,
    *,
    chunk_positions,
    z_weight=0.0,
    bias_V=None,
    words_first=False,
    split=None,
):
    """total = sum weight (loss + z_weight z**2), and (loss_BM, z_BM, correct_BM).

    loss = z - logit[label] with z = log sum exp of logits hidden @ kernel + bias, and
    correct is 1 where no logit is above the label's; all float32. Only `total` has
    gradients. They are made in the forward pass, while the logits are at hand, so three
    products do where a backward pass over chunks needs four (Hsu et al. 2024, arXiv
    2410.10989); where nobody asks for gradients, none are made. That is why the weights
    must be known: at 0 a position takes no part, whatever its label.

    Logits exist for at most `chunk_positions` of the B * M positions at a time. The
    kernel is cast to the dtype of `hidden_BMD`, and products add up in float32. With
    `words_first` the kernel is [V, D], as an embedding is. A label outside the vocabulary
    gives NaN.

    On several devices, `split=(rows, words)` names the axes of the mesh that is set
    (`jax.set_mesh`) over which B (a tuple of names) and V (a name, or None) are split:
    each device works on its rows and words alone, and only sums of [B, M] and gradients
    move.

    Raises ValueError for a chunk below 1.

    >>> total, (loss_BM, z_BM, correct_BM) = linear_cross_entropy(
    ...     jnp.ones((1, 2, 3)), jnp.zeros((3, 4)), jnp.array([[0, 3]]),
    ...     jnp.array([[0.5, 0.5]]), chunk_positions=1)
    >>> print(total, loss_BM)
    1.3862944 [[1.3862944 1.3862944]]
    """
    if chunk_positions < 1:
        raise ValueError(
            f'linear_cross_entropy: chunk_positions={chunk_positions}; '
            'a chunk has at least 1.'
        )
    layout = _Layout(chunk_positions, float(z_weight), words_first, split)
    if bias_V is None:
        bias_V = jnp.zeros(kernel_DV.shape[layout.axis], jnp.float32)
    total, scores = _total(layout, hidden_BMD, kernel_DV, bias_V, weight_BM, labels_BM)
    return total, jax.lax.stop_gradient(scores)


class _Layout(NamedTuple):
    """How the product is cut: into chunks, and over the devices of a mesh."""

    positions: int
    z_weight: float
    words_first: bool
    split: tuple | None

    @property
    def axis(self):
        """The kernel's axis of words."""
        return 0 if self.words_first else 1

    def on_mesh(self, function, inputs, outputs):
        """`function`, on each device's part of its arguments: of [B, ...] ('rows'), of
        the kernel ('words') and of the bias ('bias')."""
        if self.split is None:
            return function
        rows, words = self.split
        kernel = (words, None) if self.words_first else (None, words)
        specs = {
            'rows': PartitionSpec(rows),
            'words': PartitionSpec(*kernel),
            'bias': PartitionSpec(words),
        }
        return jax.shard_map(
            function,
            in_specs=tuple(specs[kind] for kind in inputs),
            out_specs=tuple(specs[kind] for kind in outputs),
            check_vma=False,
        )

    def first_word(self, count):
        """The id of the first of a device's `count` words."""
        if self.split is None or self.split[1] is None:
            return 0
        return jax.lax.axis_index(self.split[1]) * count

    def over_words(self, combine, x):
        """`jax.lax.psum` or `pmax` over the devices that share the rows."""
        if self.split is None or self.split[1] is None:
            return x
        return combine(x, self.split[1])

    def over_rows(self, x):
        """The sum over the devices that share the words."""
        return x if self.split is None else jax.lax.psum(x, self.split[0])


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _total(layout, hidden_BMD, kernel_DV, bias_V, weight_BM, labels_BM):
    local = layout.on_mesh(
        functools.partial(_local_scores, layout), _INPUTS, ('rows',) * 3
    )
    scores = local(hidden_BMD, kernel_DV, bias_V, weight_BM, labels_BM)
    return _sum(layout, weight_BM, scores), scores


def _forward(layout, hidden_BMD, kernel_DV, bias_V, weight_BM, labels_BM):
    local = layout.on_mesh(
        functools.partial(_local_gradients, layout),
        _INPUTS,
        (*('rows',) * 4, 'words', 'bias'),
    )
    *scores, d_hidden_BMD, d_kernel, d_bias_V = local(
        hidden_BMD, kernel_DV, bias_V, weight_BM, labels_BM
    )
    d_weight_BM = _value(layout, scores)
    slopes = d_hidden_BMD, d_kernel, d_bias_V, d_weight_BM
    # Rounded once, after the last product: the empty array says to which dtype.
    return (_sum(layout, weight_BM, scores), tuple(scores)), (slopes, hidden_BMD[:0])


def _backward(layout, saved, slopes):
    (d_hidden_BMD, *rest), like_BMD = saved
    slope, _ = slopes  # the scores have none: see `linear_cross_entropy`
    d_hidden_BMD = (slope * d_hidden_BMD).astype(like_BMD.dtype)
    return d_hidden_BMD, *((slope * d).astype(d.dtype) for d in rest), None


_total.defvjp(_forward, _backward)
_INPUTS = ('rows', 'words', 'bias', 'rows', 'rows')


def _value(layout, scores):
    loss_BM, z_BM, _ = scores
    return loss_BM + layout.z_weight * z_BM**2


def _sum(layout, weight_BM, scores):
    weighed_BM = weight_BM * _value(layout, scores)
    return jnp.sum(jnp.where(weight_BM == 0, 0, weighed_BM))


def _local_scores(layout, hidden_BMD, kernel_DV, bias_V, weight_BM, labels_BM):
    words = _words(layout, kernel_DV, bias_V, hidden_BMD.dtype)

    def chunk(carry, part):
        hidden_ND, _, labels_N = part
        return carry, _scores(layout, hidden_ND, labels_N, words)[0]

    return _over_chunks(layout, chunk, None, (hidden_BMD, weight_BM, labels_BM))[1]


def _local_gradients(layout, hidden_BMD, kernel_DV, bias_V, weight_BM, labels_BM):
    """d logit = weight ((1 + 2 z_weight z) softmax - onehot), chunk by chunk."""
    words = _words(layout, kernel_DV, bias_V, hidden_BMD.dtype)

    def chunk(carry, part):
        d_kernel_DV, d_bias_V = carry
        hidden_ND, weight_N, labels_N = part
        scores, logits_NV = _scores(layout, hidden_ND, labels_N, words)
        hit_NV = (labels_N - words.first)[:, None] == jnp.arange(len(bias_V))[None]
        z_N = scores[1]
        sum_N = weight_N * (1 + 2 * layout.z_weight * z_N)
        slope_NV = jnp.exp(logits_NV - z_N[:, None]) * sum_N[:, None]
        slope_NV = slope_NV - jnp.where(hit_NV, weight_N[:, None], 0)
        d_bias_V += jnp.sum(slope_NV, axis=0)
        slope_NV = slope_NV.astype(hidden_ND.dtype)
        d_hidden_ND = _dot(slope_NV, words.kernel_DV.T)
        d_kernel_DV += _dot(hidden_ND.T, slope_NV)
        return (d_kernel_DV, d_bias_V), (*scores, d_hidden_ND)

    zeros = (jnp.zeros(words.kernel_DV.shape), jnp.zeros(bias_V.shape))
    (d_kernel_DV, d_bias_V), (*scores, d_hidden_BMD) = _over_chunks(
        layout, chunk, zeros, (hidden_BMD, weight_BM, labels_BM)
    )
    d_kernel = d_kernel_DV.T if layout.words_first else d_kernel_DV
    return (
        *scores,
        layout.over_words(jax.lax.psum, d_hidden_BMD),
        layout.over_rows(d_kernel).astype(kernel_DV.dtype),
        layout.over_rows(d_bias_V).astype(bias_V.dtype),
    )


def _over_chunks(layout, chunk, carry, inputs):
    """`chunk` as in `jax.lax.scan`, over chunks of the positions of [B, M, ...].

    B stays whole, so that a batch split over devices does, unless a chunk is smaller.
    Chunks are of one size, and filled up with positions of weight 0.
    """
    shape = inputs[0].shape[:2]
    rows, length = shape if layout.positions >= shape[0] else (1, shape[0] * shape[1])
    count = max(1, -(-length // (layout.positions // rows)))
    size = -(-length // count)

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


class _Words(NamedTuple):
    """A device's words: their kernel, their bias, and the id of the first."""

    kernel_DV: jax.Array
    bias_V: jax.Array
    first: jax.Array


def _words(layout, kernel_DV, bias_V, dtype):
    kernel = kernel_DV.T if layout.words_first else kernel_DV
    return _Words(kernel.astype(dtype), bias_V, layout.first_word(len(bias_V)))


def _scores(layout, hidden_ND, labels_N, words):
    """(loss, z, correct) of a chunk, and its logits."""
    logits_NV = _dot(hidden_ND, words.kernel_DV) + words.bias_V[None]
    top_N = layout.over_words(jax.lax.pmax, jnp.max(logits_NV, axis=-1))
    # Of the words of this device, where the label is; a label of another's counts as 0.
    place_N = labels_N - words.first
    found_N = (place_N >= 0) & (place_N < logits_NV.shape[1])
    label_N = jnp.take_along_axis(logits_NV, place_N[:, None], axis=1, mode='clip')[:, 0]
    sums = (
        jnp.sum(jnp.exp(logits_NV - top_N[:, None]), axis=-1),
        jnp.where(found_N, label_N, 0),
        found_N.astype(jnp.float32),
    )
    total_N, label_N, found_N = layout.over_words(jax.lax.psum, sums)
    label_N = jnp.where(found_N > 0, label_N, jnp.nan)
    z_N = top_N + jnp.log(total_N)
    correct_N = (label_N >= top_N).astype(jnp.float32)
    return (z_N - label_N, z_N, correct_N), logits_NV


def _dot(a, b):
    return jnp.dot(a, b, preferred_element_type=jnp.float32)
