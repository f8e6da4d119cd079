"""Forecasts the hours of an evaluation on this machine: `jepa-text evaluate --dry-run`.

A token that is trained on takes 6 P FLOPs, one that is answered 2 P, with P parameters
without the embedding (Kaplan et al. 2020, section 2.1).
"""

import functools
import itertools
import os

import jax
import numpy as np

from jepa_text.evaluation.members import grid
from jepa_text.models import network
from jepa_text.parallel import hardware
from jepa_text.pretrained import prediction

DRAWN = 200  # texts whose tokens are counted
# Speed as a share of that of pretraining, whose batches have more tokens (LOG.md).
REACHED = 0.6


def speed():
    """Returns (FLOP/s of fine-tuning on this machine, its name), or (None, '')."""
    device, count = jax.devices()[0], jax.device_count()
    name = hardware.name_of(device.device_kind)
    if device.platform == 'cpu':
        name, count = 'core', os.cpu_count()
    if name is None:
        return None, ''
    chip = hardware.CHIPS[name]
    return REACHED * chip.peak * chip.share('float32') * count, f'{name}:{count}'


def flops(model, task, settings, steps):
    """Returns about how many FLOPs a member takes; `model` may be without weights."""
    reader = prediction.reader(model, settings.max_length or None)
    if task.kind == 'retrieval':
        asked = task.qrels | (task.validation_qrels or {})
        ranked = [*task.corpus.values(), *(task.queries[name] for name in asked)]
        answered = len(ranked) * _tokens(ranked, reader)
        trained = 2 * _tokens(list(itertools.chain(*task.pairs)) or ranked, reader)
    else:
        parts = filter(None, (task.validation, task.test))
        answered = sum(len(part) * _of_example(part, reader) for part in parts)
        trained = _of_example(task.train if steps else task.test, reader)
    trained *= steps * settings.batch_size
    return _parameters(model.network.encoder) * (6 * trained + 2 * answered)


def _of_example(examples, reader):
    """Returns the mean number of tokens of a row of these examples."""
    texts = 1 if examples.second is None else 2
    return min(texts * _tokens(examples.texts(), reader), reader.length)


def _tokens(texts, reader):
    """Returns the mean number of tokens of texts, of which DRAWN are read."""
    drawn = texts[:: -(-len(texts) // DRAWN)]
    lengths = [len(ids) for ids, _ in reader.encode(drawn, allow_empty=True)]
    return np.minimum(lengths, reader.room).mean() + reader.length - reader.room


def _parameters(encoder):
    init = functools.partial(network.init_module, 'encoder', encoder, 0)
    shapes = {**jax.eval_shape(init), grid.EMBEDDING: ()}
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))
