"""Word scores and their cross-entropy as one operation: no array of logits is ever whole.

Needs only jax. The head's product, the log-sum-exp and both gradients go window by window
over positions and vocabulary, so memory does not grow with their product.
"""

import functools

import jax
import jax.numpy as jnp


def linear_cross_entropy(
    hidden_BMD, kernel_DV, labels_BM, *, chunk_positions, chunk_vocabulary
):
    """(loss_BM, z_BM, correct_BM) of the logits hidden @ kernel, which are never whole.

    loss = z - logit[label], z = log sum exp logits (z**2 is the z-loss), and correct is 1
    where no logit is above the label's; all float32. Logits exist for `chunk_positions`
    of M times `chunk_vocabulary` of V at a time; neither need divide its axis, and B is
    never split. The forward pass sums z over the vocabulary as it goes (Milakov and
    Gimelshein 2018, arXiv 1805.02867), the backward pass computes the logits again
    (Wijmans et al. 2024, arXiv 2411.09009). The kernel is cast to the dtype of
    `hidden_BMD`, and products add up in float32. A label outside the vocabulary gives
    NaN, and no gradient if its loss is not read.

    On several devices give `chunk_positions` all of M, and save by the vocabulary: each
    chunk of positions adds up its part of the kernel's gradient over the devices.

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
    chunks = (
        min(chunk_positions, labels_BM.shape[1]),
        min(chunk_vocabulary, kernel_DV.shape[1]),
    )
    return _linear_cross_entropy(chunks, hidden_BMD, kernel_DV, labels_BM)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _linear_cross_entropy(chunks, hidden_BMD, kernel_DV, labels_BM):
    return _fused_forward(chunks, hidden_BMD, kernel_DV, labels_BM)[0]


def _fused_forward(chunks, hidden_BMD, kernel_DV, labels_BM):
    length, vocabulary = labels_BM.shape[1], kernel_DV.shape[1]

    def positions(index, outputs):
        start, _ = _window(index, chunks[0], length)
        hidden_ND = _rows(hidden_BMD, start, chunks[0])
        labels_N = _rows(labels_BM, start, chunks[0])

        def words(index, carry):
            top_N, total_N, label_N = carry
            part = _words(kernel_DV, index, chunks[1], hidden_ND.dtype)
            logits_NV, hit_NV = _logits(hidden_ND, labels_N, *part)
            new_top_N = jnp.maximum(top_N, jnp.max(logits_NV, axis=-1))
            powers_NV = jnp.exp(logits_NV - new_top_N[:, None])
            total_N = total_N * jnp.exp(top_N - new_top_N) + jnp.sum(powers_NV, axis=-1)
            at_label_N = jnp.sum(jnp.where(hit_NV, logits_NV, 0), axis=-1)
            label_N = jnp.where(jnp.any(hit_NV, axis=-1), at_label_N, label_N)
            return new_top_N, total_N, label_N

        fill = functools.partial(jnp.full, labels_N.shape, dtype=jnp.float32)
        carry = (fill(-jnp.inf), fill(0), fill(jnp.nan))
        carry = jax.lax.fori_loop(0, -(-vocabulary // chunks[1]), words, carry)
        top_N, total_N, label_N = carry
        z_N = top_N + jnp.log(total_N)
        found = (z_N - label_N, z_N, (label_N >= top_N).astype(jnp.float32))
        return tuple(
            jax.lax.dynamic_update_slice_in_dim(
                whole_BM, part_N.reshape(-1, chunks[0]), start, axis=1
            )
            for whole_BM, part_N in zip(outputs, found, strict=True)
        )

    outputs = (jnp.zeros(labels_BM.shape, jnp.float32),) * 3
    outputs = jax.lax.fori_loop(0, -(-length // chunks[0]), positions, outputs)
    return outputs, (hidden_BMD, kernel_DV, labels_BM, outputs[1])


def _fused_backward(chunks, saved, slopes):
    """d logit = (d loss + d z) softmax - d loss onehot, chunk by chunk.

    Words outside, positions inside: a part of the kernel's gradient is summed in float32
    and written once.
    """
    hidden_BMD, kernel_DV, labels_BM, z_BM = saved
    # The third, of `correct`, is a step's: zero wherever it is defined.
    loss_BM, sum_BM = slopes[0], slopes[0] + slopes[1]
    length, vocabulary = labels_BM.shape[1], kernel_DV.shape[1]

    def words(index, carry):
        part_DV, ids_V, new_V = _words(kernel_DV, index, chunks[1], hidden_BMD.dtype)

        def positions(index, carry):
            d_hidden_BMD, d_part_DV = carry
            start, new_M = _window(index, chunks[0], length)
            cut = functools.partial(_rows, start=start, size=chunks[0])
            hidden_ND = cut(hidden_BMD)
            logits_NV, hit_NV = _logits(hidden_ND, cut(labels_BM), part_DV, ids_V, new_V)
            new_N = jnp.tile(new_M, len(labels_BM))
            loss_N, sum_N = (jnp.where(new_N, cut(x), 0) for x in (loss_BM, sum_BM))
            slope_NV = jnp.exp(logits_NV - cut(z_BM)[:, None]) * sum_N[:, None]
            slope_NV = slope_NV - jnp.where(hit_NV, loss_N[:, None], 0)
            slope_NV = slope_NV.astype(hidden_ND.dtype)
            d_part_DV += _dot(hidden_ND.T, slope_NV)
            d_rows_BMD = _dot(slope_NV, part_DV.T).reshape(-1, chunks[0], len(part_DV))
            return _add(d_hidden_BMD, d_rows_BMD, start), d_part_DV

        d_hidden_BMD, d_kernel_DV = carry
        carry = (d_hidden_BMD, jnp.zeros(part_DV.shape, jnp.float32))
        count = -(-length // chunks[0])
        d_hidden_BMD, d_part_DV = jax.lax.fori_loop(0, count, positions, carry)
        start, _ = _window(index, chunks[1], vocabulary)
        return d_hidden_BMD, _add(d_kernel_DV, d_part_DV, start)

    carry = (jnp.zeros(hidden_BMD.shape, jnp.float32), jnp.zeros_like(kernel_DV))
    carry = jax.lax.fori_loop(0, -(-vocabulary // chunks[1]), words, carry)
    return carry[0].astype(hidden_BMD.dtype), carry[1], None


_linear_cross_entropy.defvjp(_fused_forward, _fused_backward)


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


def _words(kernel_DV, index, size, dtype):
    """A window of the vocabulary: its kernel, its ids, and which are new."""
    start, new_V = _window(index, size, kernel_DV.shape[1])
    part_DV = jax.lax.dynamic_slice_in_dim(kernel_DV, start, size, axis=1)
    return part_DV.astype(dtype), start + jnp.arange(size), new_V


def _logits(hidden_ND, labels_N, part_DV, ids_V, new_V):
    """Logits of a window, -inf for words seen before; and where the label is."""
    logits_NV = jnp.where(new_V[None], _dot(hidden_ND, part_DV), -jnp.inf)
    return logits_NV, (labels_N[:, None] == ids_V[None]) & new_V[None]


def _dot(a, b):
    return jnp.dot(a, b, preferred_element_type=jnp.float32)


def _add(whole, part, start):
    """whole[:, start:start + size] += part."""
    old = jax.lax.dynamic_slice_in_dim(whole, start, part.shape[1], axis=1)
    new = old + part.astype(whole.dtype)
    return jax.lax.dynamic_update_slice_in_dim(whole, new, start, axis=1)
