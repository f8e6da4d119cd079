"""Vectors of texts, every layer and pooling in one pass, kept on disk.

    of(model, texts, poolings)    -> Features
    Features.vectors(layer, pooling)  -> [N, D] float32

A name on disk is the checksum of all that its numbers depend on: parameters,
architecture, tokenizer, texts in their order, options.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.analysis import array_cache
from jepa_text.config import resolve
from jepa_text.evaluation import identity
from jepa_text.files import checksums
from jepa_text.models import pooling

TRAINED = ('attention', 'weighted')
TRAINED_ON = 64  # tokens of a text
POOLINGS = (*pooling.POOLINGS, 'inverse_frequency', 'last4', *TRAINED)
_AVERAGED = 4
_BATCH = 64


@dataclasses.dataclass(frozen=True, eq=False)
class Features:
    """What `of` found. `tokens_N`: how many tokens each text has, specials among them."""

    depth: int
    names: dict
    tokens_N: np.ndarray
    cache: array_cache.ArrayCache

    def vectors(self, layer, name):
        """[N, D] float32; layer 0 is the embedding, `depth` the last, after its norm."""
        if (layer, name) not in self.names:
            known = ', '.join(f'{layer}/{name}' for layer, name in self.names)
            raise ValueError(f'There are no features {layer}/{name}, but: {known}.')
        return np.array(self.cache.get(self.names[layer, name])['rows'])


def of(
    model, texts, poolings=('mean',), *, layers=None, given=None, folder=None, tell=None
):
    """Features of a load.Pretrained; the forward pass only for what is not kept yet.

    Poolings are those of pooling.POOLINGS over all tokens, specials among them, as
    `encode` has them; 'inverse_frequency' of the tokens in these texts; 'last4', the mean
    over tokens and the last four layers; 'attention' and 'weighted', with the weights
    that `given` has for them. The last three are of the last layer. NAME-specials is the
    same without special tokens. `layers` None: all. Without `folder` nothing is kept
    after this. `tell` is called with words on how many texts are done. Raises ValueError
    for an unknown pooling or layer, a text without tokens, and 'cls' of a model whose
    texts no special token begins.
    """
    depth = model.network.encoder.depth
    pairs = combinations(depth, layers, poolings)
    given = dict(given or {})
    rows = [model.row(text) for text in texts]
    for name in poolings:
        pooling.check(name, model.ends()[0], rows, model.tokenizer.special_ids)
    if any(name.startswith('inverse_frequency') for name in poolings):
        counts_V = np.bincount(np.concatenate(rows), minlength=model.tokenizer.vocab_size)
        given['inverse_frequency'] = counts_V.astype(np.float32)
    start = checksums.checksum([identity.of(model), list(texts)])
    weights = {
        name: checksums.checksum(np.asarray(x).tolist()) for name, x in given.items()
    }
    names = {
        (layer, name): checksums.checksum([start, layer, weights.get(pooling.base(name))])
        + f'-{name}'
        for layer, name in pairs
    }
    tokens_N = np.array([len(row) for row in rows])
    found = Features(depth, names, tokens_N, array_cache.ArrayCache(folder))
    missing = [pair for pair, key in names.items() if found.cache.get(key) is None]
    if missing:
        _compute(model, rows, missing, names, given, found.cache, tell)
    return found


def combinations(depth, layers, poolings):
    """[(layer, pooling)] that there are; ValueError for what there is not."""
    for layer in layers or ():
        if layer not in range(-depth - 1, depth + 1):
            raise ValueError(
                f'There is no layer {layer}: 0 (embedding) to {depth}, or -1 for the '
                'last.'
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


def token_states(model, texts, max_tokens=TRAINED_ON, batch_size=64):
    """(hidden_NLD float16, valid_NL) of the last layer: what trained pooling learns from.

    The first `max_tokens` tokens, specials among them.
    """
    rows = [model.row(text)[:max_tokens] for text in texts]
    states = np.zeros((len(rows), max_tokens, model.network.encoder.width), np.float16)
    valid_NL = np.zeros((len(rows), max_tokens), bool)

    forward = _last_layer(model.network, model.causal)
    for start in range(0, len(rows), batch_size):
        chosen = rows[start : start + batch_size]
        batch = model.pad(chosen, batch_size)
        last_BLD = np.asarray(forward(model.params, *batch))
        count, length = len(chosen), min(last_BLD.shape[1], max_tokens)
        states[start : start + count, :length] = last_BLD[:count, :length]
        valid_NL[start : start + count, :length] = batch[1][:count, :length] > 0
    return states, valid_NL


@functools.lru_cache(maxsize=4)
def _last_layer(network, causal):
    """(params, batch) -> the last layer: one for a model and its control."""
    return jax.jit(lambda *inputs: _layers(network, causal, *inputs)[-1])


@functools.lru_cache(maxsize=4)
def _program(network, causal, special_ids, pairs):
    """(params, given, batch) -> vectors of the pairs: one for all tasks and controls."""

    @jax.jit
    def pooled(params, given, tokens_BL, segments_BL, positions_BL):
        batch = tokens_BL, segments_BL, positions_BL
        layers = _layers(network, causal, params, *batch)
        vectors = []
        for layer, name in pairs:
            valid_BL = pooling.counted(name, segments_BL > 0, tokens_BL, special_ids)
            vectors.append(_pool(name, layers, layer, tokens_BL, valid_BL, given))
        return vectors

    return pooled


def _layers(network, causal, params, tokens_BL, segments_BL, positions_BL):
    """[depth + 1, B, L, D]: the embedding, each layer, the last after its norm."""
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


def _compute(model, rows, pairs, names, given, cache, tell):
    """One pass over the texts, the shortest first; every pair is written."""
    reading = model.causal, tuple(model.tokenizer.special_ids)
    pooled = _program(model.network, *reading, tuple(pairs))
    given = {name: jnp.asarray(weights) for name, weights in given.items()}
    order_N = np.argsort([len(row) for row in rows], kind='stable')
    forms = {'rows': ((len(rows), model.network.encoder.width), np.float32)}
    with cache.writing([names[pair] for pair in pairs], forms) as arrays:
        for start in range(0, len(rows), _BATCH):
            chosen = order_N[start : start + _BATCH]
            batch = model.pad([rows[i] for i in chosen], _BATCH)
            found = jax.device_get(pooled(model.params, given, *batch))
            for (layer, name), kept, pooled_BD in zip(pairs, arrays.values(), found):
                kept['rows'][chosen] = pooled_BD[: len(chosen)]
                bad_C = ~np.isfinite(kept['rows'][chosen]).all(axis=1)
                if bad_C.any():
                    raise ValueError(
                        f'Features {layer}/{name} hold NaN or infinity, as of text '
                        f'{chosen[bad_C.argmax()]}. Look at the model before its '
                        'vectors: did its training diverge?'
                    )
            if tell is not None:
                done = min(start + _BATCH, len(rows))
                tell(f'vectors of {done:,} of {len(rows):,} texts')


def _pool(name, layers, layer, tokens_BL, counted_BL, given):
    base, hidden_BLD = pooling.base(name), layers[layer]
    if base in pooling.POOLINGS:
        return pooling.POOLINGS[base](hidden_BLD, counted_BL)
    if base == 'last4':
        averaged_BLD = pooling.average_layers(layers, min(_AVERAGED, len(layers) - 1))
        return pooling.mean(averaged_BLD, counted_BL)
    if base not in given:
        raise ValueError(
            f'The pooling {name!r} needs weights: train them on the training split '
            '(trained_pooling.py) and give them.'
        )
    if base == 'attention':
        return pooling.attention(hidden_BLD, counted_BL, given[base])
    if base == 'inverse_frequency':
        weight_BL = pooling.inverse_frequency(tokens_BL, given[base])
    else:
        # Positions beyond the trained ones weigh as the last of them.
        place_L = jnp.minimum(jnp.arange(tokens_BL.shape[1]), len(given[base]) - 1)
        weight_BL = pooling.learned(given[base][place_L], counted_BL)
    return pooling.weighted(hidden_BLD, counted_BL, weight_BL)
