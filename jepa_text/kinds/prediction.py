"""A model with a head -> answers, in batches of few shapes."""

import dataclasses
import functools

import jax
import numpy as np

from jepa_text.data import batching
from jepa_text.kinds import base

TOKENS = 8192  # of a batch, with what fills it
ROOM = 2 * 2**30  # bytes of features


def answers(model, kind, examples, max_length=None):
    """One answer an example, by a load.Pretrained whose parameters have the head."""
    rows = kind.rows(reader(model, max_length), examples)
    return kind.answers(outputs(model, kind, rows), rows, examples)


def reader(model, max_length=None):
    """How a load.Pretrained reads, in rows of at most `max_length` tokens. Raises
    ValueError for more than it reads, and for fewer than its special tokens take."""
    begin, end = model.ends()
    length = model.length if max_length is None else max_length
    if length > model.length:
        raise ValueError(
            f'max_length={max_length}, but {model.name or "the model"} reads at most '
            f'{model.length} tokens: give that or fewer.'
        )
    return base.Reader(model.tokenizer, begin, end, length)


def outputs(model, kind, rows, params=None, run=None):
    """What the head makes of each row, in their order, in numpy; rows of alike lengths
    share a batch. `run(params, batch)` is `program(model.network, kind)` if None."""
    params = model.params if params is None else params
    run = program(model.network, kind) if run is None else run
    found = [None] * len(rows)
    for chosen, batch in batches(rows, model.tokenizer.pad_id, model.length):
        made = np.asarray(run(params, batch))
        for index, one in zip(chosen, made):
            found[index] = one
    return found


def batches(rows, pad_id, maximum, tokens=TOKENS):
    """(indices of rows, a batch of them) over all rows, the longest first."""
    lengths_N = [len(row.tokens) for row in rows]
    for chosen, size, length in batching.batches(lengths_N, tokens, maximum):
        yield chosen, base.collate([rows[i] for i in chosen], size, length, pad_id)


@functools.lru_cache(maxsize=8)
def program(network, kind):
    """(params, batch) -> what the head makes of it, compiled for each shape."""

    def run(params, batch):
        inputs = {k: batch[k] for k in base.INPUTS if k in batch}
        return kind.outputs(network, params, inputs)

    return jax.jit(run)


def with_features(network, kind, params, rows, pad_id, maximum):
    """The rows with what the head reads of each, for an encoder that stays as it is; as
    they were where that would take more than ROOM bytes."""
    run = jax.jit(lambda params, batch: kind.features(network, params, batch))
    made, used = [None] * len(rows), 0
    for chosen, batch in batches(rows, pad_id, maximum):
        inputs = {k: batch[k] for k in base.INPUTS if k in batch}
        found = np.asarray(run(params, inputs), np.float32)
        for index, one in zip(chosen, found):
            made[index] = one if one.ndim == 1 else one[: len(rows[index].tokens)].copy()
            used += made[index].nbytes
        if used > ROOM:
            return rows
    return [dataclasses.replace(row, features=one) for row, one in zip(rows, made)]
