"""Text vectors of all layers and poolings, computed in one pass and cached on disk.

    extract(model, texts, poolings)   -> Features
    Features.vectors(layer, pooling)  -> [N, D] float32

A cache key is the checksum of everything that determines the vectors: parameters,
architecture, tokenizer, texts in order, options.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text import losses
from jepa_text.analysis import array_cache
from jepa_text.config import resolve
from jepa_text.evaluation import identity
from jepa_text.files import checksums
from jepa_text.models import pooling

TRAINED = ('attention', 'weighted')
TRAINED_ON = 64  # tokens per text
POOLINGS = (*pooling.POOLINGS, 'inverse_frequency', 'last4', *TRAINED)
_AVERAGED = 4
_BATCH = 64


@dataclasses.dataclass(frozen=True, eq=False)
class Features:
    """Cached features. `names` {(layer, pooling): cache key}; `tokens_N` is the number of
    tokens of each text, including special tokens."""

    depth: int
    names: dict
    tokens_N: np.ndarray
    cache: array_cache.ArrayCache

    def vectors(self, layer, name):
        """[N, D] float32 vectors of a layer and pooling. Layer 0 is the embedding, layer
        `depth` the last, after the final norm."""
        if (layer, name) not in self.names:
            known = ', '.join(f'{layer}/{name}' for layer, name in self.names)
            raise ValueError(f'There are no features {layer}/{name}; available: {known}.')
        return np.array(self.cache.get(self.names[layer, name])['rows'])


def extract(
    model,
    texts,
    poolings=('mean',),
    *,
    layers=None,
    weights=None,
    folder=None,
    on_progress=None,
):
    """Features of a load.Pretrained; runs the forward pass only for missing entries.

    Poolings are those of pooling.POOLINGS over all tokens including special tokens, as in
    `encode`; 'inverse_frequency', with token frequencies of these texts; 'last4', the
    mean over tokens and the last four layers; 'attention' and 'weighted', with the
    trained `weights` {pooling: array}. The last three exist for the last layer only.
    NAME-specials excludes special tokens.

    By default computes all `layers`. Without `folder` the cache is temporary.
    `on_progress(done, count)` is called with numbers of texts after each batch. Raises
    ValueError for an unknown pooling or layer, a text without tokens, and for 'cls' if
    the model has no initial special token.
    """
    depth = model.network.encoder.depth
    pairs = combinations(depth, layers, poolings)
    weights = dict(weights or {})
    rows = [model.row(text) for text in texts]
    for name in poolings:
        pooling.check(name, model.ends()[0], rows, model.tokenizer.special_ids)
    if any(name.startswith('inverse_frequency') for name in poolings):
        counts_V = np.bincount(np.concatenate(rows), minlength=model.tokenizer.vocab_size)
        weights['inverse_frequency'] = counts_V.astype(np.float32)
    start = checksums.checksum([identity.of(model), list(texts)])
    sums = {
        name: checksums.checksum(np.asarray(x).tolist()) for name, x in weights.items()
    }
    names = {
        (layer, name): checksums.checksum([start, layer, sums.get(pooling.base(name))])
        + f'-{name}'
        for layer, name in pairs
    }
    tokens_N = np.array([len(row) for row in rows])
    extracted = Features(depth, names, tokens_N, array_cache.ArrayCache(folder))
    missing = [pair for pair, key in names.items() if extracted.cache.get(key) is None]
    if missing:
        _compute(model, rows, missing, names, weights, extracted.cache, on_progress)
    return extracted


def combinations(depth, layers, poolings):
    """The valid [(layer, pooling)]. Raises ValueError for unknown layers or poolings."""
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
        only_last = base in ('last4', *TRAINED)
        pairs += [(layer, name) for layer in layers if not only_last or layer == depth]
    return pairs


def token_states(model, texts):
    """(hidden_NLD float16, valid_NL) of the last layer, the inputs of trained poolings.

    Has the first TRAINED_ON tokens of each text, including special tokens.
    """
    rows = [model.row(text)[:TRAINED_ON] for text in texts]
    states = np.zeros((len(rows), TRAINED_ON, model.network.encoder.width), np.float16)
    valid_NL = np.zeros((len(rows), TRAINED_ON), bool)
    forward = _last_layer(model.network, model.causal)
    for start in range(0, len(rows), _BATCH):
        chosen = rows[start : start + _BATCH]
        batch = model.pad(chosen, _BATCH)
        last_BLD = np.asarray(forward(model.params, *batch))
        count, length = len(chosen), min(last_BLD.shape[1], TRAINED_ON)
        states[start : start + count, :length] = last_BLD[:count, :length]
        valid_NL[start : start + count, :length] = batch[1][:count, :length] > 0
    return states, valid_NL


@functools.lru_cache(maxsize=4)
def _last_layer(network, causal):
    """(params, batch) -> the last layer; cached for a model and its control."""
    return jax.jit(lambda *inputs: _layers(network, causal, *inputs)[-1])


@functools.lru_cache(maxsize=4)
def _program(network, causal, special_ids, pairs):
    """(params, weights, batch) -> vectors of the (layer, pooling) pairs; cached for all
    tasks and controls."""

    @jax.jit
    def pooled(params, weights, tokens_BL, segments_BL, positions_BL):
        batch = tokens_BL, segments_BL, positions_BL
        layers = _layers(network, causal, params, *batch)
        vectors = []
        for layer, name in pairs:
            valid_BL = pooling.valid_mask(name, segments_BL > 0, tokens_BL, special_ids)
            vectors.append(_pool(name, layers, layer, tokens_BL, valid_BL, weights))
        return vectors

    return pooled


def _layers(network, causal, params, tokens_BL, segments_BL, positions_BL):
    """[depth + 1, B, L, D]: the embedding and each layer, the last after the final
    norm."""
    last_BLD, layers_NBLD = network.apply(
        'encoder',
        params,
        tokens_BL,
        segments_BL,
        positions_BL,
        causal=causal,
        every_layer=True,
    )
    return [*layers_NBLD[:-1], last_BLD]


def _compute(model, rows, pairs, names, weights, cache, on_progress):
    """Computes and caches all pairs in one pass over the texts, the shortest first."""
    special_ids = tuple(model.tokenizer.special_ids)
    pooled = _program(model.network, model.causal, special_ids, tuple(pairs))
    weights = {name: jnp.asarray(values) for name, values in weights.items()}
    order_N = np.argsort([len(row) for row in rows], kind='stable')
    forms = {'rows': ((len(rows), model.network.encoder.width), np.float32)}
    with cache.writing([names[pair] for pair in pairs], forms) as arrays:
        for start in range(0, len(rows), _BATCH):
            chosen = order_N[start : start + _BATCH]
            batch = model.pad([rows[i] for i in chosen], _BATCH)
            pooled_PBD = jax.device_get(pooled(model.params, weights, *batch))
            for (layer, name), entry, pooled_BD in zip(
                pairs, arrays.values(), pooled_PBD
            ):
                entry['rows'][chosen] = pooled_BD[: len(chosen)]
                bad_C = ~np.isfinite(entry['rows'][chosen]).all(axis=1)
                if bad_C.any():
                    raise ValueError(
                        f'Features {layer}/{name} contain NaN or infinity, for example '
                        f'for text {chosen[bad_C.argmax()]}. Check the model: did its '
                        'training diverge?'
                    )
            if on_progress is not None:
                done = min(start + _BATCH, len(rows))
                on_progress(done, len(rows))


def _pool(name, layers, layer, tokens_BL, counted_BL, weights):
    base, hidden_BLD = pooling.base(name), layers[layer]
    if base in pooling.POOLINGS:
        return pooling.POOLINGS[base](hidden_BLD, counted_BL)
    if base == 'last4':
        count = min(_AVERAGED, len(layers) - 1)
        averaged_BLD = losses.average_layers(layers, count, jnp.asarray)
        return pooling.mean(averaged_BLD, counted_BL)
    if base not in weights:
        raise ValueError(
            f'The pooling {name!r} needs weights: train them on the training split '
            '(trained_pooling.py) and pass them as `weights`.'
        )
    if base == 'attention':
        return pooling.attention(hidden_BLD, counted_BL, weights[base])
    if base == 'inverse_frequency':
        weight_BL = pooling.inverse_frequency(tokens_BL, weights[base])
    else:
        # Later positions use the weight of the last trained position.
        place_L = jnp.minimum(jnp.arange(tokens_BL.shape[1]), len(weights[base]) - 1)
        weight_BL = pooling.learned(weights[base][place_L], counted_BL)
    return pooling.weighted(hidden_BLD, counted_BL, weight_BL)
