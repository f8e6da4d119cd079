"""Vectors of texts, every layer and pooling in one pass, kept on disk.

    of(model, texts, poolings)    -> Features
    Features.vectors(layer, pooling)  -> [N, D] float32

On disk a vector is float16 beside a float32 centre: what is kept to 3 digits is the
difference from the others, so that vectors which share nearly all of their length lose
nothing that a measure looks at. A name is the checksum of all that its numbers depend
on: parameters, architecture, tokenizer, texts in their order, options.
"""

import dataclasses
import functools
import hashlib
import weakref

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.analysis import array_cache
from jepa_text.config import resolve
from jepa_text.files import seal
from jepa_text.models import pooling

VERSION = 4  # of what the numbers mean; another one is another file
TRAINED = ('attention', 'weighted')
TRAINED_ON = 64  # tokens of a text
POOLINGS = (*pooling.POOLINGS, 'inverse_frequency', 'last4', *TRAINED)
_AVERAGED = 4
_BATCH = 64
# Of models that are there: to remember a model would keep its parameters.
_IDENTITIES = weakref.WeakKeyDictionary()


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
        kept = self.cache.get(self.names[layer, name])
        center = kept['center']
        return kept['rows'].astype(np.float32) * center[-1] + center[:-1]


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
    start = seal.checksum([identity(model), list(texts)])
    weights = {name: seal.checksum(np.asarray(x).tolist()) for name, x in given.items()}
    names = {
        (layer, name): seal.checksum([start, layer, weights.get(pooling.base(name))])
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


def identity(model):
    """A checksum of what a load.Pretrained is: parameters, tokenizer, reading."""
    if model not in _IDENTITIES:
        digest = hashlib.sha256()
        for path, leaf in jax.tree_util.tree_leaves_with_path(model.params['encoder']):
            digest.update(jax.tree_util.keystr(path).encode())
            digest.update(np.ascontiguousarray(jax.device_get(leaf)))
        reading = VERSION, model.causal, model.begin, model.end, model.length
        said = repr(model.network.encoder), repr(reading), model.tokenizer.fingerprint
        _IDENTITIES[model] = seal.checksum([*said, digest.hexdigest()])
    return _IDENTITIES[model]


def token_states(model, texts, most_tokens=TRAINED_ON, batch_size=64):
    """(hidden_NLD float16, valid_NL) of the last layer: what trained pooling learns from.

    The first `most_tokens` tokens, specials among them.
    """
    rows = [model.row(text)[:most_tokens] for text in texts]
    states = np.zeros((len(rows), most_tokens, model.network.encoder.width), np.float16)
    valid_NL = np.zeros((len(rows), most_tokens), bool)
    forward = _last_layer(model.network, model.causal)
    for start in range(0, len(rows), batch_size):
        chosen = rows[start : start + batch_size]
        batch = model.pad(chosen, batch_size)
        last_BLD = np.asarray(forward(model.params, *batch))
        count, length = len(chosen), min(last_BLD.shape[1], most_tokens)
        states[start : start + count, :length] = last_BLD[:count, :length]
        valid_NL[start : start + count, :length] = batch[1][:count, :length] > 0
    return states, valid_NL


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


@functools.lru_cache(maxsize=4)
def _last_layer(network, causal):
    return jax.jit(lambda params, *batch: _layers(network, causal, params, *batch)[-1])


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
    """One pass over the texts, alike lengths together; every pair is written."""
    reading = model.causal, tuple(model.tokenizer.special_ids)
    pooled = _program(model.network, *reading, tuple(pairs))
    given = {name: jnp.asarray(weights) for name, weights in given.items()}
    width = model.network.encoder.width
    forms = {
        'rows': ((len(rows), width), np.float16),
        'center': ((width + 1,), np.float32),
    }
    with cache.writing([names[pair] for pair in pairs], forms) as arrays:
        for start, chosen in enumerate(_batches(rows, _BATCH)):
            batch = model.pad([rows[i] for i in chosen], _BATCH)
            found = jax.device_get(pooled(model.params, given, *batch))
            for (layer, name), kept, pooled_BD in zip(pairs, arrays.values(), found):
                pooled_CD, center = pooled_BD[: len(chosen)], kept['center']
                with np.errstate(over='ignore', invalid='ignore'):
                    if not start:
                        center[:] = _center(pooled_CD)
                    kept_CD = ((pooled_CD - center[:-1]) / center[-1]).astype(np.float16)
                _check_finite(pooled_CD, kept_CD, chosen, f'{layer}/{name}')
                kept['rows'][chosen] = kept_CD
            if tell is not None:
                done = min((start + 1) * _BATCH, len(rows))
                tell(f'vectors of {done:,} of {len(rows):,} texts')


def _batches(rows, size):
    """Indices of rows: first some of all lengths, then the others, shortest first."""
    order_N = np.argsort([len(row) for row in rows], kind='stable')
    # The first batch gives centre and scale, so it must not be of one kind.
    spread_N = np.zeros(len(rows), bool)
    spread_N[np.linspace(0, len(rows) - 1, min(size, len(rows))).astype(int)] = True
    order_N = np.concatenate([order_N[spread_N], order_N[~spread_N]])
    return [order_N[start : start + size] for start in range(0, len(rows), size)]


def _center(pooled_CD):
    """The mean of the vectors, and a scale that keeps float16 far from its ends."""
    mean_D = pooled_CD.mean(axis=0)
    size = float(np.abs(pooled_CD).max()) or 1.0
    # Vectors that are alike differ by rounding error, which is no scale for others.
    scale = max(float(np.abs(pooled_CD - mean_D).max()), 1e-3 * size)
    return np.append(mean_D, scale)


def _check_finite(pooled_CD, kept_CD, chosen, where):
    """ValueError for vectors that are not finite, or too far from the others to keep."""
    bad_C = ~np.isfinite(kept_CD).all(axis=1)
    if not bad_C.any():
        return
    text = f'text {chosen[bad_C.argmax()]}'
    if not np.isfinite(pooled_CD).all():
        raise ValueError(
            f'Features {where} hold NaN or infinity, as of {text}. Look at the model '
            'before its vectors: did its training diverge?'
        )
    raise ValueError(
        f'The vector {where} of {text} is more than 65,000 times as far from the mean as '
        'others are, and cannot be kept. Leave this text out, or look at the model.'
    )


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
    weights = given[base]
    if base == 'attention':
        return pooling.attention(hidden_BLD, counted_BL, weights)
    if base == 'inverse_frequency':
        weight_BL = pooling.inverse_frequency(tokens_BL, weights)
        return pooling.weighted(hidden_BLD, counted_BL, weight_BL)
    # Positions beyond the trained ones weigh as the last of them.
    length = tokens_BL.shape[1]
    logit_L = jnp.pad(weights, (0, max(0, length - len(weights))), mode='edge')[:length]
    weight_BL = pooling.learned(logit_L, counted_BL)
    return pooling.weighted(hidden_BLD, counted_BL, weight_BL)
