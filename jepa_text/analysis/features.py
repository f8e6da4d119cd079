"""Text vectors of all layers and poolings, computed in one pass and cached on disk.

    extract(model, texts, folder, poolings)   -> Features
    Features.vectors(layer, pooling)          -> [N, D] float32

A cache key is the checksum of everything that determines the vectors: parameters,
architecture, tokenizer, texts in order, options. It names a .npz file, whose checksum
(CRC-32) finds damage. Nothing is unpickled.
"""

import dataclasses
import functools
import io
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text import losses
from jepa_text.evaluation import identity
from jepa_text.files import atomic, checksums
from jepa_text.models import pooling
from jepa_text.report import progress
from jepa_text.settings import resolve

POOLINGS = (*pooling.POOLINGS, 'last4')
_AVERAGED = 4
_BATCH = 64
# What zipfile and numpy raise, depending on the byte that is wrong; or no such file.
_DAMAGED = (OSError, RuntimeError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


@dataclasses.dataclass(frozen=True, eq=False)
class Features:
    """Cached features. `names` {(layer, pooling): cache key} of files in `folder`;
    `tokens_N` is the number of tokens of each text, including special tokens."""

    names: dict
    tokens_N: np.ndarray
    folder: Path

    def vectors(self, layer, name):
        """[N, D] float32 vectors of a layer and pooling. Layer 0 is the embedding, layer
        `depth` the last, after the final norm."""
        return _load(self.folder / self.names[layer, name])


def extract(model, texts, folder, poolings=('mean',), *, layers=None):
    """Features of a load.Pretrained; runs the forward pass only for what is not in
    `folder`, or damaged there.

    Poolings are those of pooling.POOLINGS over all tokens including special tokens, as in
    `encode`; 'last4', of the last layer only, is the mean over tokens and the last four
    layers. NAME-specials excludes special tokens.

    By default computes all `layers`. Raises ValueError for an unknown pooling or layer, a
    text without tokens, and for 'cls' if the model has no initial special token.
    """
    depth = model.network.encoder.depth
    pairs = combinations(depth, layers, poolings)
    rows = [model.row(text) for text in texts]
    for name in poolings:
        pooling.check(name, model.ends()[0], rows, model.tokenizer.special_ids)
    start = checksums.checksum([identity.of(model), list(texts)])
    names = {
        (layer, name): f'{checksums.checksum([start, layer])}-{name}.npz'
        for layer, name in pairs
    }
    tokens_N = np.array([len(row) for row in rows])
    folder = Path(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    missing = [pair for pair, key in names.items() if _load(folder / key) is None]
    if missing:
        for pair, rows_ND in _compute(model, rows, missing).items():
            file = io.BytesIO()
            np.savez(file, rows=rows_ND)
            atomic.write(folder / names[pair], file.getvalue())
    return Features(names, tokens_N, folder)


def _load(path):
    """The array of a file, or None if it is missing or damaged."""
    try:
        with zipfile.ZipFile(path) as file:
            # Whole, as the checksum is only compared at the end.
            return np.load(io.BytesIO(file.read('rows.npy')), allow_pickle=False)
    except _DAMAGED:
        return None


def combinations(depth, layers, poolings):
    """The valid [(layer, pooling)]. Raises ValueError for unknown layers or poolings, and
    for last4 without the last layer."""
    for layer in layers or ():
        if layer not in range(-depth - 1, depth + 1):
            raise ValueError(
                f'There is no layer {layer}; layers are 0 (embedding) to {depth}, or -1 '
                'for the last.'
            )
    numbers = range(depth + 1)
    layers = numbers if layers is None else [numbers[layer] for layer in layers]
    pairs = []
    for name in poolings:
        base = pooling.base(name)
        if base not in POOLINGS:
            raise ValueError(
                f'There is no pooling {name!r}.{resolve.nearest(base, POOLINGS)}'
            )
        if base == 'last4' and depth not in layers:
            raise ValueError(
                f'layers={[*layers]} lacks the last layer, {depth}, which {name!r} is '
                f'of. Add -1 to `layers`, or leave {name} out of `poolings`.'
            )
        pairs += [(layer, name) for layer in layers if base != 'last4' or layer == depth]
    return pairs


@functools.lru_cache(maxsize=4)
def _program(network, causal, special_ids, pairs):
    """(params, batch) -> vectors of the (layer, pooling) pairs; cached for all
    tasks and controls."""

    @jax.jit
    def pooled(params, tokens_BL, segments_BL, positions_BL):
        batch = tokens_BL, segments_BL, positions_BL
        options = dict(causal=causal, every_layer=True)
        last_BLD, layers_NBLD = network.apply('encoder', params, *batch, **options)
        # The embedding and each layer, the last after the final norm.
        layers, vectors = [*layers_NBLD[:-1], last_BLD], []
        for layer, name in pairs:
            valid_BL = pooling.valid_mask(name, segments_BL > 0, tokens_BL, special_ids)
            vectors.append(_pool(pooling.base(name), layers, layer, valid_BL))
        return vectors

    return pooled


def _compute(model, rows, pairs):
    """{pair: [N, D] float32} of all pairs, in one pass over the texts, the shortest
    first."""
    special_ids = tuple(model.tokenizer.special_ids)
    pooled = _program(model.network, model.causal, special_ids, tuple(pairs))
    order_N = np.argsort([len(row) for row in rows], kind='stable')
    shape = len(rows), model.network.encoder.width
    arrays = {pair: np.zeros(shape, np.float32) for pair in pairs}
    with progress.Progress('vectors', len(rows)) as bar:
        for start in range(0, len(rows), _BATCH):
            chosen = order_N[start : start + _BATCH]
            batch = model.pad([rows[i] for i in chosen], _BATCH)
            pooled_PBD = jax.device_get(pooled(model.params, *batch))
            for ((layer, name), rows_ND), pooled_BD in zip(arrays.items(), pooled_PBD):
                rows_ND[chosen] = pooled_BD[: len(chosen)]
                bad_C = ~np.isfinite(rows_ND[chosen]).all(axis=1)
                if bad_C.any():
                    raise ValueError(
                        f'Features {layer}/{name} contain NaN or infinity, for example '
                        f'for text {chosen[bad_C.argmax()]}. Check the model: did its '
                        'training diverge?'
                    )
            bar.update(min(start + _BATCH, len(rows)))
    return arrays


def _pool(base, layers, layer, valid_BL):
    if base in pooling.POOLINGS:
        return pooling.POOLINGS[base](layers[layer], valid_BL)
    count = min(_AVERAGED, len(layers) - 1)
    averaged_BLD = losses.average_layers(layers, count, jnp.asarray)
    return pooling.mean(averaged_BLD, valid_BL)
