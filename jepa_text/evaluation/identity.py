"""Which model is it? A checksum of all that its vectors depend on."""

import hashlib
import weakref

import jax
import numpy as np

from jepa_text.files import checksums

VERSION = 5  # of what the numbers mean; another one is another model
# Of models that are there: to remember a model would keep its parameters.
_KNOWN = weakref.WeakKeyDictionary()


def of(model):
    """A checksum of what a load.Pretrained is: parameters, tokenizer, reading."""
    if model not in _KNOWN:
        digest = hashlib.sha256()
        for path, leaf in jax.tree_util.tree_leaves_with_path(model.params['encoder']):
            digest.update(jax.tree_util.keystr(path).encode())
            digest.update(np.ascontiguousarray(jax.device_get(leaf)))
        reading = VERSION, model.causal, model.begin, model.end, model.length
        said = repr(model.network.encoder), repr(reading), model.tokenizer.fingerprint
        _KNOWN[model] = checksums.checksum([*said, digest.hexdigest()])
    return _KNOWN[model]
