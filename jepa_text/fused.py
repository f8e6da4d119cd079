"""Word scores and their cross-entropy as one operation: no array of logits is ever whole.

Needs only jax. The head's product, the log-sum-exp and both gradients go window by window
over positions and vocabulary, so memory does not grow with their product.
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
    *,
    chunk_positions,
    chunk_vocabulary,
    bias_V=None,
    words_first=False,
    split=None,
):
    """(loss_BM, z_BM, correct_BM) of logits hidden @ kernel + bias, never whole.

    loss = z - logit[label], z = log sum exp logits (z**2 is the z-loss), and correct is 1
    where no logit is above the label's; all float32. Logits exist for `chunk_positions`
    of M times `chunk_vocabulary` of V at a time; neither need divide its axis, and B is
    never split. The forward pass sums z over the vocabulary as it goes (Milakov and
    Gimelshein 2018, arXiv 1805.02867), the backward pass computes the logits again
    (Wijmans et al. 2024, arXiv 2411.09009). The kernel is cast to the dtype of
    `hidden_BMD`, and products add up in float32. With `words_first` the kernel is [V, D],
    as an embedding is. A label outside the vocabulary gives NaN, and no gradient if its
    loss is not read.

    On several devices, `split=(rows, words)` names the axes of the mesh that is set
    (`jax.set_mesh`) over which B (a tuple of names) and V (a name) are split: each device
    works on its rows and words alone, and only sums of [B, M] and gradients move.

    Raises ValueError for a chunk below 1.

    >>> loss_BM, z_BM, correct_BM = linear_cross_entropy(
    ...     jnp.ones((1, 2, 3)), jnp.zeros((3, 4)), jnp.array([[0, 3]]),
    ...     chunk_positions=1, chunk_vocabulary=3)
    >>> print(loss_BM)
    [[1.3862944 1.3862944]]
    """
    for name, size in (('positions', chunk_positions), ('vocabulary', chunk_vocabulary)):
        if size < 1:
            raise ValueError(
                f'linear_cross_entropy: chunk_{name}={size}; a chunk has at least 1.'
            )
    layout = _Layout(chunk_positions, chunk_vocabulary, words_first, split)
    if bias_V is None:
        bias_V = jnp.zeros(kernel_DV.shape[layout.axis], jnp.float32)
    return _linear_cross_entropy(layout, hidden_BMD, kernel_DV, bias_V, labels_BM)


class _Layout(NamedTuple):
    """How the product is cut: into chunks, and over the devices of a mesh."""

    positions: int
    vocabulary: int
    words_first: bool
    split: tuple | None

    @property
    def axis(self):
        """The kernel's axis of words."""
        return 0 if self.words_first else 1

    def on_mesh(self, function, inputs, outputs):
        """`function`, on each device's part of its arguments: of [B, ...] ('rows') or of
        the kernel ('words') and the bias ('bias')."""
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
        return 0 if self.split is None else jax.lax.axis_index(self.split[1]) * count

    def over_words(self, combine, x):
        """`jax.lax.psum` or `pmax` over the devices that share the rows."""
        return x if self.split is None else combine(x, self.split[1])

    def over_rows(self, x):
        """The sum over the devices that share the words."""
        return x if self.split is None else jax.lax.psum(x, self.split[0])


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _linear_cross_entropy(layout, hidden_BMD, kernel_DV, bias_V, labels_BM):
    return _forward(layout, hidden_BMD, kernel_DV, bias_V, labels_BM)[0]


def _forward(layout, hidden_BMD, kernel_DV, bias_V, labels_BM):
    inputs = (hidden_BMD, kernel_DV, bias_V, labels_BM)
    local = layout.on_mesh(
        functools.partial(_local_forward, layout),
        ('rows', 'words', 'bias', 'rows'),
        ['rows'] * 3,
    )
    outputs = local(*inputs)
    return outputs, (*inputs, outputs[1])


def _backward(layout, saved, slopes):
    local = layout.on_mesh(
        functools.partial(_local_backward, layout),
        ('rows', 'words', 'bias', *['rows'] * 4),
        ('rows', 'words', 'bias'),
    )
    # The third slope, of `correct`, is a step's: zero wherever it is defined.
    return *local(*saved, slopes[0], slopes[0] + slopes[1]), None


_linear_cross_entropy.defvjp(_forward, _backward)


def _local_forward(layout, hidden_BMD, kernel_DV, bias_V, labels_BM):
    length, vocabulary = labels_BM.shape[1], kernel_DV.shape[layout.axis]
    size = min(layout.positions, length)

    def positions(index, outputs):
        start, _ = _window(index, size, length)
        hidden_ND = _rows(hidden_BMD, start, size)
        labels_N = _rows(labels_BM, start, size)

        def words(index, carry):
            top_N, total_N, label_N, found_N = carry
            part = _words(layout, kernel_DV, bias_V, index, hidden_ND.dtype)
            logits_NV, hit_NV = _logits(hidden_ND, labels_N, *part)
            new_top_N = jnp.maximum(top_N, jnp.max(logits_NV, axis=-1))
            powers_NV = jnp.exp(logits_NV - new_top_N[:, None])
            total_N = total_N * jnp.exp(top_N - new_top_N) + jnp.sum(powers_NV, axis=-1)
            label_N += jnp.sum(jnp.where(hit_NV, logits_NV, 0), axis=-1)
            return new_top_N, total_N, label_N, found_N + jnp.any(hit_NV, axis=-1)

        fill = functools.partial(jnp.full, labels_N.shape, dtype=jnp.float32)
        carry = (fill(-jnp.inf), fill(0), fill(0), fill(0))
        count = -(-vocabulary // min(layout.vocabulary, vocabulary))
        own_N, total_N, *label = jax.lax.fori_loop(0, count, words, carry)
        top_N = layout.over_words(jax.lax.pmax, own_N)
        total_N = layout.over_words(jax.lax.psum, total_N * jnp.exp(own_N - top_N))
        label_N, found_N = layout.over_words(jax.lax.psum, label)
        label_N = jnp.where(found_N > 0, label_N, jnp.nan)
        z_N = top_N + jnp.log(total_N)
        scores = (z_N - label_N, z_N, (label_N >= top_N).astype(jnp.float32))
        return tuple(
            jax.lax.dynamic_update_slice_in_dim(
                whole_BM, part_N.reshape(-1, size), start, axis=1
            )
            for whole_BM, part_N in zip(outputs, scores, strict=True)
        )

    outputs = (jnp.zeros(labels_BM.shape, jnp.float32),) * 3
    return jax.lax.fori_loop(0, -(-length // size), positions, outputs)


def _local_backward(
    layout, hidden_BMD, kernel_DV, bias_V, labels_BM, z_BM, loss_BM, sum_BM
):
    """d logit = (d loss + d z) softmax - d loss onehot, chunk by chunk.

    Words outside, positions inside: a part of the kernel's gradient is summed in float32
    and written once.
    """
    length, vocabulary = labels_BM.shape[1], kernel_DV.shape[layout.axis]
    size = min(layout.positions, length)

    def words(index, carry):
        part = _words(layout, kernel_DV, bias_V, index, hidden_BMD.dtype)
        part_DV, ids_V = part.kernel_DV, part.ids_V

        def positions(index, carry):
            d_hidden_BMD, d_part_DV, d_bias_V = carry
            start, new_M = _window(index, size, length)
            cut = functools.partial(_rows, start=start, size=size)
            hidden_ND = cut(hidden_BMD)
            logits_NV, hit_NV = _logits(hidden_ND, cut(labels_BM), *part)
            new_N = jnp.tile(new_M, len(labels_BM))
            loss_N, sum_N = (jnp.where(new_N, cut(x), 0) for x in (loss_BM, sum_BM))
            slope_NV = jnp.exp(logits_NV - cut(z_BM)[:, None]) * sum_N[:, None]
            slope_NV = slope_NV - jnp.where(hit_NV, loss_N[:, None], 0)
            d_bias_V += jnp.sum(slope_NV, axis=0)
            slope_NV = slope_NV.astype(hidden_ND.dtype)
            d_part_DV += _dot(hidden_ND.T, slope_NV)
            d_rows_BMD = _dot(slope_NV, part_DV.T).reshape(-1, size, len(part_DV))
            return _add(d_hidden_BMD, d_rows_BMD, start, axis=1), d_part_DV, d_bias_V

        d_hidden_BMD, d_kernel, d_bias_V = carry
        zeros = (jnp.zeros(part_DV.shape, jnp.float32), jnp.zeros(ids_V.shape))
        d_hidden_BMD, d_part_DV, d_words_V = jax.lax.fori_loop(
            0, -(-length // size), positions, (d_hidden_BMD, *zeros)
        )
        d_part = d_part_DV.T if layout.words_first else d_part_DV
        start, _ = _window(index, len(ids_V), vocabulary)
        return (
            d_hidden_BMD,
            _add(d_kernel, d_part, start, layout.axis),
            _add(d_bias_V, d_words_V, start, axis=0),
        )

    carry = (
        jnp.zeros(hidden_BMD.shape, jnp.float32),
        jnp.zeros_like(kernel_DV),
        jnp.zeros_like(bias_V),
    )
    count = -(-vocabulary // min(layout.vocabulary, vocabulary))
    d_hidden_BMD, d_kernel, d_bias_V = jax.lax.fori_loop(0, count, words, carry)
    d_hidden_BMD = layout.over_words(jax.lax.psum, d_hidden_BMD)
    return (
        d_hidden_BMD.astype(hidden_BMD.dtype),
        layout.over_rows(d_kernel),
        layout.over_rows(d_bias_V),
    )


def _window(index, size, length):
    """Start of window `index` of an axis, and which of its places no window had before.

    The last one ends with the axis: it is moved back, onto places already seen.
    """
    start = jnp.minimum(index * size, length - size)
    return start, start + jnp.arange(size) >= index * size


def _rows(x_BM, start, size):
    """Positions of a window with B and M as one axis: flat products are fast."""
    x_BM = jax.lax.dynamic_slice_in_dim(x_BM, start, size, axis=1)
    return x_BM.reshape(-1, *x_BM.shape[2:])


class _Words(NamedTuple):
    """A window of the vocabulary: its kernel and bias, its ids, and which are new."""

    kernel_DV: jax.Array
    bias_V: jax.Array
    ids_V: jax.Array
    new_V: jax.Array


def _words(layout, kernel_DV, bias_V, index, dtype):
    size = min(layout.vocabulary, len(bias_V))
    start, new_V = _window(index, size, len(bias_V))
    part = jax.lax.dynamic_slice_in_dim(kernel_DV, start, size, layout.axis)
    return _Words(
        (part.T if layout.words_first else part).astype(dtype),
        jax.lax.dynamic_slice_in_dim(bias_V, start, size),
        layout.first_word(len(bias_V)) + start + jnp.arange(size),
        new_V,
    )


def _logits(hidden_ND, labels_N, part_DV, bias_V, ids_V, new_V):
    """Logits of a window, -inf for words seen before; and where the label is."""
    logits_NV = _dot(hidden_ND, part_DV) + bias_V[None]
    logits_NV = jnp.where(new_V[None], logits_NV, -jnp.inf)
    return logits_NV, (labels_N[:, None] == ids_V[None]) & new_V[None]


def _dot(a, b):
    return jnp.dot(a, b, preferred_element_type=jnp.float32)


def _add(whole, part, start, axis):
    """whole[:, start:start + size] += part, or that on the first axis."""
    old = jax.lax.dynamic_slice_in_dim(whole, start, part.shape[axis], axis)
    new = old + part.astype(whole.dtype)
    return jax.lax.dynamic_update_slice_in_dim(whole, new, start, axis)
