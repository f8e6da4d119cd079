"""Batched inference with a task head, using few batch shapes."""

import jax
import numpy as np

from jepa_text.data import batching, truncation
from jepa_text.models import memo
from jepa_text.parallel import sharding
from jepa_text.pretrained import base
from jepa_text.settings import ranges

# Tokens per batch, with padding. On a CPU larger batches do not fit the cache, and the
# kernel zeroes arrays of 32 MiB or more on every allocation.
BATCH_TOKENS, MANY = {'cpu': 1024}, 32_768


def answers(model, kind, examples, max_length=None):
    """One answer per example, from a load.Pretrained whose parameters have the head.

    Warns of truncated texts, at the caller of the method that calls this.
    """
    read = reader(model, max_length)
    rows = kind.rows(read, examples)
    truncation.warn(model.name, read.counts['cut'], read.counts['texts'], read.length)
    return kind.answers(outputs(model, kind, rows), rows, examples)


def reader(model, max_length=None):
    """The Reader of a load.Pretrained, for rows of at most `max_length` tokens.

    Raises ValueError for more tokens than the model reads, and if the special tokens
    leave no room for a text.
    """
    begin, end = model.ends()
    length = model.length
    if max_length is not None:
        length = ranges.whole('max_length', max_length, minimum=1)
    if length > model.length:
        raise ValueError(
            f'max_length={max_length}, but {model.name or "the model"} reads at most '
            f'{model.length} tokens: give that or fewer.'
        )
    return base.Reader(model.tokenizer, begin, end, length)


def outputs(model, kind, rows, params=None, run=None):
    """The head's outputs for each row, in order, in numpy.

    Rows of similar lengths share a batch. `run(params, batch)` defaults to
    `program(model.network, kind)`.
    """
    params = model.params if params is None else params
    devices = 1
    if run is None:
        run, devices = sharding.on_rows(program(model.network, kind), params)
    outputs, pad_id = [None] * len(rows), model.tokenizer.pad_id
    for chosen, batch in batches(rows, pad_id, model.length, devices=devices):
        made = np.asarray(run(params, batch))
        for index, output in zip(chosen, made):
            outputs[index] = output
    return outputs


def usual_tokens():
    """The default tokens per batch on the present devices."""
    return BATCH_TOKENS.get(jax.default_backend(), MANY)


def batches(rows, pad_id, maximum, tokens=None, devices=1):
    """Yields (indices of rows, their batch) for all rows, the longest first.

    Batches have at most `tokens` tokens, None: `usual_tokens`; their number of rows is a
    multiple of `devices`.
    """
    tokens = usual_tokens() if tokens is None else tokens
    lengths_N = [len(row.tokens) for row in rows]
    for chosen, size, length in batching.batches(lengths_N, tokens, maximum, devices):
        yield chosen, base.collate([rows[i] for i in chosen], size, length, pad_id)


@memo.memoize
def program(network, kind):
    """The function (params, batch) -> outputs of the head.

    It is compiled for each shape, and shared by models with equal networks.
    """

    def run(params, batch):
        inputs = {k: batch[k] for k in base.INPUTS if k in batch}
        return kind.outputs(network, params, inputs)

    return jax.jit(run)
