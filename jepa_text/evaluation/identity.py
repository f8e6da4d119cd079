"""Checksums that identify models, tasks and data, and versions of packages."""

import contextlib
import functools
import hashlib
import weakref
from importlib import metadata

import jax
import numpy as np

from jepa_text.evaluation.results import result_files
from jepa_text.files import checksums

VERSION = 8  # increased when results change meaning; part of the model's identity
# Packages that train members, and those that fit controls and compute metrics.
PACKAGES = (
    *('jepa-text', 'jax', 'jaxlib', 'flax', 'optax', 'numpy', 'tokenizers'),
    *('scipy', 'scikit-learn', 'seqeval', 'ir-measures'),
)
# Weak references, so that the cache does not keep models and tasks in memory.
_KNOWN = weakref.WeakKeyDictionary()


def of(model):
    """Returns a checksum of a load.Pretrained: the parameters of its encoder, its
    tokenizer and its input format."""
    if model not in _KNOWN:
        inputs = VERSION, model.causal, model.begin, model.end, model.length
        parts = repr(model.network.encoder), repr(inputs), model.tokenizer.fingerprint
        _KNOWN[model] = checksums.checksum([*parts, _digest(model.params['encoder'])])
    return _KNOWN[model]


def of_data(task):
    """Returns a checksum of a Task's examples, or of a Retrieval's texts and qrels."""
    if task not in _KNOWN:
        if task.kind == 'retrieval':
            texts = [task.pairs, task.queries, task.corpus]
            data = [*texts, task.validation_qrels, task.qrels]
        else:
            parts = [task.train, task.validation, task.test]
            data = [[p.first, p.second, result_files.plain(p.target)] for p in parts]
        _KNOWN[task] = checksums.checksum(data)
    return _KNOWN[task]


def of_task(task):
    """Returns a checksum of a task: its data, kind, template and metric."""
    names = ('name', 'kind', 'metric', 'template', 'zero_shot', 'revision')
    # As in results of earlier versions: without what all Retrievals share.
    settings = {name: vars(task).get(name) for name in names}
    settings['zero_shot'] = task.zero_shot or None
    if getattr(task, 'classes', ()):
        settings['classes'] = repr(task.classes)
    return checksums.checksum([settings, of_data(task)])


def _digest(params):
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        digest.update(jax.tree_util.keystr(path).encode())
        digest.update(np.ascontiguousarray(jax.device_get(leaf)))
    return digest.hexdigest()


@functools.cache
def versions():
    """Returns {package: version} of those of PACKAGES that are installed."""
    installed = {}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed
