"""Block masking: target blocks to predict, and the context to predict them from.

I-JEPA (arXiv 2301.08243), for text as in arXiv 2606.05173, for encoders that only see the
context.

    tokens      <bos> a b c d e f g h i j k l <eos>      12 valid
    block 1       .   . . 1 1 . . . . . . . .   .        0.15 to 0.2 of them
    block 2       .   . . . . . . . 1 1 1 . .   .
    context       .   1 1 . . 1 1 1 . . . . .   .        0.85 to 1 of them (here a to k),
                                                         minus all target blocks
    kept_indices(context_L, 6) -> 1 2 5 6 7 0, ok 1 1 1 1 1 0

Targets are never in the context, so that a latent to predict is never visible; specials
and padding are in neither. Documents that share a row are masked independently, as they
do not attend to each other. Shapes are fixed: masks over L, cut to a capacity by
`kept_indices`. Axes of this module: J counts the blocks of a mask, C the masks of a row.

    context_and_targets  one draw                      context_L, blocks_JL
    several              draws for one row             contexts_CL, targets_CL
    capacity             the maximum number of positions
    kept_indices         a mask as indices             index_XK, ok_XK

Masks are bool; randomness comes from a numpy generator; inputs are not modified.
`valid_L` marks the positions that may be context or target (`masking.maskable`);
`segment_ids_L` numbers the documents from 1 in order, 0 is padding.
"""

import dataclasses
import math

import numpy as np


def context_and_targets(
    valid_L,
    rng,
    segment_ids_L,
    count=4,
    target_scale=(0.15, 0.2),
    context_scale=(0.85, 1.0),
    min_keep=4,
):
    """Returns context_L and blocks_JL: `count` contiguous target blocks in each document,
    which may overlap, and one block of `context_scale` without any of their positions.

    With n valid positions, a block has ceil(n * u) of them, with u uniform in its scale =
    (low, high), from a start uniform in [0, n - length]: it is never cut at an edge.
    At least `min_keep` positions of each document are context, or all if it has fewer.
    If the blocks leave fewer, the context is the whole document without targets; if that
    is not enough, the outermost targets on one side are dropped. Raises ValueError for
    count or min_keep below 1, and for scales outside 0 < low <= high <= 1.

    >>> valid_L, ids_L = np.ones(20, bool), np.ones(20, int)
    >>> rng = np.random.default_rng(0)
    >>> context_L, blocks_JL = context_and_targets(valid_L, rng, ids_L)
    >>> bool((context_L & blocks_JL.any(axis=0)).any()), int(context_L.sum()) >= 4
    (False, True)
    """
    _check(count, min_keep, target_scale=target_scale, context_scale=context_scale)
    documents = _documents(valid_L, segment_ids_L)
    blocks_JN = _draw(documents, rng, count, target_scale)
    (context_N,) = _draw(documents, rng, 1, context_scale)
    target_N = blocks_JN.any(0)
    is_short = documents.count(context_N & ~target_N) < min_keep
    if is_short.any():
        context_N |= is_short[documents.of_N]
        target_N &= ~_dropped(documents, target_N, min_keep, rng)
        blocks_JN &= target_N
    context_N &= ~target_N
    return documents.scatter(context_N), documents.scatter(blocks_JN)


def several(valid_L, rng, segment_ids_L, masks, **options):
    """Returns contexts_CL and targets_CL: `masks` independent draws for one row, so that
    one forward of the target encoder serves them all (data2vec 2.0, arXiv 2212.07525).

    Targets are the union of the blocks; `options` are those of `context_and_targets`.

    >>> valid_L, ids_L = np.ones(20, bool), np.ones(20, int)
    >>> contexts_CL, targets_CL = several(
    ...     valid_L, np.random.default_rng(0), ids_L, masks=3, count=2)
    >>> contexts_CL.shape, bool((contexts_CL & targets_CL).any())
    ((3, 20), False)
    """
    draws = [
        context_and_targets(valid_L, rng, segment_ids_L, **options) for _ in range(masks)
    ]
    return (
        np.stack([context_L for context_L, _ in draws]),
        np.stack([blocks_JL.any(0) for _, blocks_JL in draws]),
    )


def capacity(share, length, documents=1):
    """Returns the most positions that blocks of at most `share` have in a row of `length`
    with at most so many documents, each of which rounds its block up.

    >>> capacity(0.2, 512), capacity(0.2, 512, documents=4)
    (103, 106)
    """
    return min(length, math.ceil(share * length) + documents - 1)


def kept_indices(mask_XL, capacity, rng=None):
    """Returns index_XK (int32, increasing where ok) and ok_XK: the true positions of each
    mask, for any number of axes X.

    Of more than `capacity`, the first are kept, or random ones if `rng` is given. If
    there are fewer, ok is False and the index is that of another position: no index
    occurs twice. Raises ValueError unless capacity is in [1, L].

    >>> index_K, ok_K = kept_indices(np.array([False, True, False, True]), capacity=3)
    >>> index_K, ok_K
    (array([1, 3, 0], dtype=int32), array([ True,  True, False]))
    """
    length = mask_XL.shape[-1]
    if not 1 <= capacity <= length:
        raise ValueError(f'kept_indices: capacity={capacity} is not in [1, {length}].')
    if rng is not None and mask_XL.sum(-1).max(initial=0) > capacity:
        draw_XL = np.where(mask_XL, rng.random(mask_XL.shape), 2.0)
        chosen_XK = np.argsort(draw_XL, axis=-1)[..., :capacity]
        is_chosen_XL = np.zeros(mask_XL.shape, bool)
        np.put_along_axis(is_chosen_XL, chosen_XK, True, axis=-1)
        mask_XL = mask_XL & is_chosen_XL
    index_XK = np.argsort(~mask_XL, axis=-1, kind='stable')[..., :capacity]
    return index_XK.astype(np.int32), np.take_along_axis(mask_XL, index_XK, axis=-1)


@dataclasses.dataclass(frozen=True)
class _Documents:
    """The N valid positions of a row: their positions, their documents (from 0), their
    places among the valid positions of the document; and the documents' sizes."""

    length: int
    position_N: np.ndarray
    of_N: np.ndarray
    place_N: np.ndarray
    sizes: np.ndarray

    def count(self, chosen_N):
        """The number of chosen positions in each document."""
        return np.bincount(self.of_N[chosen_N], minlength=len(self.sizes))

    def scatter(self, chosen_XN):
        """The same choice over all positions of the row."""
        chosen_XL = np.zeros((*chosen_XN.shape[:-1], self.length), bool)
        chosen_XL[..., self.position_N] = chosen_XN
        return chosen_XL


def _documents(valid_L, segment_ids_L):
    position_N = np.flatnonzero(valid_L & (segment_ids_L > 0))
    of_N = segment_ids_L[position_N] - 1
    sizes = np.bincount(of_N)
    place_N = np.arange(len(position_N)) - (np.cumsum(sizes) - sizes)[of_N]
    return _Documents(len(valid_L), position_N, of_N, place_N, sizes)


def _draw(documents, rng, count, scale):
    """bool [count, N]: a block in every document, `count` times."""
    sizes, of_N = documents.sizes, documents.of_N
    shape = (count, len(sizes))
    lengths = np.ceil(sizes * rng.uniform(*scale, shape)).astype(int)
    starts = np.floor(rng.random(shape) * (sizes - lengths + 1)).astype(int)
    offset_JN = documents.place_N - starts[:, of_N]
    return (offset_JN >= 0) & (offset_JN < lengths[:, of_N])


def _dropped(documents, target_N, min_keep, rng):
    """bool [N]: targets to drop, so that `min_keep` of each document are not targets.

    The outermost ones on a random side of the document, so that blocks stay contiguous.
    """
    too_many = documents.count(target_N) - np.maximum(documents.sizes - min_keep, 0)
    of_N, sizes = documents.of_N, documents.sizes
    # The number of the document's targets at this place or before it.
    total_N = np.cumsum(target_N)
    before = np.append(0, total_N)[np.cumsum(sizes) - sizes]
    rank_N = total_N - before[of_N]
    from_left = rng.random(len(sizes)) < 0.5
    left = documents.count(target_N) - too_many
    is_outer_N = np.where(from_left[of_N], rank_N <= too_many[of_N], rank_N > left[of_N])
    return target_N & is_outer_N


def _check(count, min_keep, **scales):
    for name, value in (('count', count), ('min_keep', min_keep)):
        if value < 1:
            raise ValueError(f'blocks: {name}={value} must be at least 1.')
    for name, (low, high) in scales.items():
        if not 0 < low <= high <= 1:
            raise ValueError(
                f'blocks: {name}=({low}, {high}) needs 0 < low <= high <= 1.'
            )
