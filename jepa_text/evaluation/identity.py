"""Which model and task is it, and by what was it measured? Checksums of all that vectors
depend on and of all that is asked, and versions of what computes."""

import functools
import hashlib
import weakref
from importlib import metadata

import jax
import numpy as np

from jepa_text.evaluation.sets import retrieval
from jepa_text.files import checksums

VERSION = 5  # of what the numbers mean; another one is another model
PACKAGES = ('jepa-text', 'jax', 'jaxlib', 'flax', 'optax', 'numpy', 'tokenizers')
# What has a part in the metrics of a kind of task.
METRICS = {
    'labels': ('scikit-learn',),
    'scores': ('scipy',),
    'tags': ('scikit-learn', 'seqeval'),
    'retrieval': ('scikit-learn', 'ir-measures'),
}
# Of models and tasks that are there: to remember one would keep all that it holds.
_KNOWN = weakref.WeakKeyDictionary()


def of(model):
    """A checksum of what a load.Pretrained is: parameters, tokenizer, reading."""
    if model not in _KNOWN:
        reading = VERSION, model.causal, model.begin, model.end, model.length
        said = repr(model.network.encoder), repr(reading), model.tokenizer.fingerprint
        _KNOWN[model] = checksums.checksum([*said, _digest(model.params['encoder'])])
    return _KNOWN[model]


def of_data(task):
    """A checksum of the examples of a Task, or the texts and qrels of a Retrieval."""
    if task not in _KNOWN:
        if isinstance(task, retrieval.Retrieval):
            texts = [task.pairs, task.queries, task.corpus]
            held = [*texts, task.validation_qrels, task.qrels]
        else:
            parts = [task.train, task.validation, task.test]
            held = [[p.first, p.second, list(map(_json, p.target))] for p in parts]
        _KNOWN[task] = checksums.checksum(held)
    return _KNOWN[task]


def of_task(task):
    """A checksum of a task: its data, what is asked, in which words, by what metric."""
    names = ('name', 'kind', 'metric', 'template', 'zero_shot', 'revision')
    asked = {name: getattr(task, name, None) for name in names}
    return checksums.checksum([asked, of_data(task)])


def of_head(model):
    """A checksum of what names tokens: the LM head of a load.Pretrained."""
    return _digest(model.params['lm_head'])


def _digest(params):
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        digest.update(jax.tree_util.keystr(path).encode())
        digest.update(np.ascontiguousarray(jax.device_get(leaf)))
    return digest.hexdigest()


@functools.cache
def versions(kind, *more):
    """{package: version} of what computes a number of a kind of task, with `more`."""
    names = dict.fromkeys((*PACKAGES, *METRICS.get(kind, ()), *more))
    return {name: metadata.version(name) for name in names}


def _json(value):
    if isinstance(value, list | tuple):
        return [_json(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value
