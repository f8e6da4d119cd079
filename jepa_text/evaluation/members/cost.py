"""The compute of fine-tuning a member in FLOPs, counted before training (`--dry-run`).

    member   steps x (forward, and backward through the trained parameters)
             + forward of all validation and test examples
    shared   computed once for all members: the features of a frozen encoder

FLOPs are counted in the programs that train and measure (cost/flops.py), at the shapes of
the task's own rows, including padding. No weights are needed.
"""

import collections
import dataclasses
import functools
import itertools
from typing import NamedTuple

import jax
import numpy as np

from jepa_text.cost import flops
from jepa_text.data import batching
from jepa_text.evaluation import finetune, retrieving, zero_shot
from jepa_text.evaluation.members import grid, packed, partition
from jepa_text.evaluation.members import step as member_step
from jepa_text.evaluation.sets import retrieval
from jepa_text.evaluation.sets import task as tasks
from jepa_text.kinds import base, prediction, vectors
from jepa_text.models.network import Network, key_of

# Maximum number of examples of a split whose tokens are counted, evenly drawn.
SAMPLE = 4096


class Cost(NamedTuple):
    """Training steps and FLOPs of one member, and the FLOPs that all members share."""

    steps: int
    member: float
    shared: float


class _Part(NamedTuple):
    """Rows of a sample of a split, which has `times` as many examples."""

    rows: list
    times: float


def of_member(model, task, settings):
    """Returns the Cost of each member: a load.outline, fine-tuned by a config.Finetuning.

    Members differ only in the order of their rows; the order of seed 0 is counted. Raises
    ValueError for a task that cannot be fine-tuned or read.
    """
    if zero_shot.is_zero_shot(task):
        return _zero_shot_cost(model, task, settings)
    is_retrieval = isinstance(task, retrieval.Retrieval)
    kind = (retrieving if is_retrieval else finetune).kind_of(task, settings, model)
    reader = prediction.reader(model, settings.max_length or None)
    pairs = tasks.Examples(*map(list, zip(*task.pairs))) if is_retrieval else task.train
    train = _part(kind, reader, pairs)
    size = settings.batch_size
    batches = -(-round(len(train.rows) * train.times) // size)
    steps = min(settings.steps, settings.epochs * batches)
    counting = _Counting(model, kind, settings.recipe(1), reader.length)
    order_TB = grid.orders(len(train.rows), 0, steps, size)
    shared, features = counting.shared(train, is_training=True)
    member = counting.trained(train.rows, order_TB, features)
    if is_retrieval:
        return Cost(steps, member + counting.ranked(task, reader), shared)
    for examples in (task.validation, task.test):
        part = _part(kind, reader, examples)
        read, features = counting.shared(part)
        shared += read
        member += counting.measured(part, features)
    return Cost(steps, member, shared)


def _zero_shot_cost(model, task, settings):
    """Returns the Cost of encoding each text once; for cloze, also of output logits."""
    reader = prediction.reader(model, settings.max_length or None)
    # The model reads as it is, whatever is trained for other tasks.
    counting = _Counting(model, vectors.Vectors(), grid.Recipe(steps=1), reader.length)
    if isinstance(task, retrieval.Retrieval):
        return Cost(0, counting.ranked(task, reader), 0.0)
    texts = zero_shot.texts(task)
    encoder, logits = counting.encoder, 0
    if zero_shot.fills_masks(task):
        logits = 2 * len(texts) * encoder.width * encoder.vocab_size
    return Cost(0, counting.encoded([texts], reader) + logits, 0.0)


def _part(kind, reader, examples):
    """Returns the _Part of evenly drawn Examples."""
    count = len(examples)
    index_M = np.linspace(0, count - 1, min(SAMPLE, count)).round().astype(int)
    return _Part(kind.rows(reader, examples.take(index_M)), count / len(index_M))


class _Counting:
    """FLOPs of the programs of a model, a kind and a grid.Recipe on rows."""

    def __init__(self, model, kind, recipe, maximum):
        # FLOPs inside attention kernels cannot be counted, so use plain XLA attention.
        self.encoder = model.network.encoder.clone(attention='xla')
        self.kind, self.recipe = kind, recipe
        partition.check_head(Network(self.encoder, kind), recipe)
        self.pad_id, self.length = model.tokenizer.pad_id, model.length
        self.maximum = maximum

    def shared(self, part, is_training=False):
        """Returns (FLOPs of a part's features, example features) of a frozen encoder.

        The features are None if members do not share them, by the rule of
        prediction.with_features.
        """
        if self.recipe.layers != 0:
            return 0.0, None
        shape = _shape_of(self.encoder, self.kind, self._batch(_blank(part.rows[0]), 1))
        row, lengths = _blank(part.rows[0]), self._row_counts(part, self.maximum)
        if prediction.feature_bytes(part.rows, shape) * part.times > prediction.ROOM:
            # Their moments are computed all the same, of the training set.
            return self._sum('features', row, lengths) if is_training else 0.0, None
        return self._sum('features', row, lengths), np.zeros(shape[1:], np.float32)

    def trained(self, rows, order_TB, features):
        """Returns the FLOPs of the training steps."""
        row, (steps, size) = _blank(rows[0], features), order_TB.shape
        recipe = dataclasses.replace(self.recipe, steps=steps)
        if features is None:
            shape = grid.shape_of(self.encoder, self.kind, recipe, self.maximum, rows)
            if shape is not None:
                batch = self._batch(row, size, shape.length, shape)
                return steps * self._traced('gradients', batch)
        chosen = ([rows[i] for i in index_B if i >= 0] for index_B in order_TB)
        longest = map(self.kind.row_length, chosen)
        lengths = collections.Counter(batching.padded(n, self.maximum) for n in longest)
        return self._sum('gradients', row, lengths, size)

    def measured(self, part, features):
        """Returns the FLOPs of predictions for all examples of a part."""
        row, lengths = _blank(part.rows[0], features), self._row_counts(part, self.length)
        return self._sum('outputs', row, lengths)

    def ranked(self, task, reader):
        """Returns the FLOPs of vectors of queries and corpus, and of their products."""
        queries = list(dict.fromkeys([*task.qrels, *(task.validation_qrels or ())]))
        sides = [task.queries[query] for query in queries], list(task.corpus.values())
        products = 2 * len(queries) * len(task.corpus) * self.encoder.width
        return products + self.encoded(sides, reader)

    def encoded(self, sides, reader):
        """Returns the FLOPs of the vectors of lists of texts, for a kind of pairs."""
        lengths = collections.Counter()
        for texts in sides:
            part = _part(self.kind, reader, tasks.Examples(texts, texts))
            counts, tokens = [len(r.tokens) for r in part.rows], prediction.usual_tokens()
            for _, rows, length in batching.batches(counts, tokens, self.maximum):
                lengths[length] += rows * part.times
        # A row of this kind is a pair of texts.
        return self._sum('features', _blank(part.rows[0]), lengths) / 2

    def _row_counts(self, part, maximum):
        """Returns {length: number of rows of this padded length}."""
        lengths = collections.Counter()
        for _, batch in prediction.batches(part.rows, self.pad_id, maximum):
            rows, length = batch['tokens'].shape
            lengths[length] += rows * part.times
        return lengths

    def _sum(self, program, row, lengths, size=1):
        """Returns a program's FLOPs on `lengths`, a Counter of batches of `size` rows."""

        def count(length):
            return self._traced(program, self._batch(row, size, length))

        flops_of = _by_length(count, sorted(lengths), _windows(self.encoder))
        return float(sum(flops_of[length] * times for length, times in lengths.items()))

    def _traced(self, program, batch):
        return _traced(self.encoder, self.kind, self.recipe, program, batch)

    def _batch(self, row, size, length=1, shape=None):
        """Returns ((name, shape, dtype), ...) of a batch, packed if a Shape is given."""
        batch = self.kind.collate([row], size, length, self.pad_id)
        if shape is not None:
            (batch,) = packed.batches([batch], shape)
        return tuple((name, x.shape, str(x.dtype)) for name, x in sorted(batch.items()))


def _blank(row, features=None):
    """Returns a one-token row with the targets of `row`, for batches of any length."""
    targets = {k: v[:1] if np.ndim(v) else v for k, v in row.targets.items()}
    return base.Row(row.tokens[:1], targets, 0, row.tokens[:1], features)


def _windows(encoder):
    window = getattr(encoder, 'window', None)
    return set(window if isinstance(window, tuple) else (window,)) - {None}


def _by_length(count, lengths, windows):
    """Returns {length: count(length)} for increasing lengths, by interpolation.

    Between two attention windows FLOPs are a polynomial of degree two in the length,
    which three lengths determine.
    """
    flops_of = {}
    for _, piece in itertools.groupby(lengths, lambda n: sum(n > w for w in windows)):
        piece = list(piece)
        known = sorted({piece[0], piece[len(piece) // 2], piece[-1]})
        counts = [count(length) for length in known]
        fit = np.polynomial.Polynomial.fit(known, counts, len(known) - 1)
        flops_of |= {length: fit(length) for length in piece}
    return flops_of


@functools.lru_cache(maxsize=4096)
def _traced(encoder, kind, recipe, program, batch):
    """Returns the FLOPs of a program on a batch described as by _Counting._batch."""
    run = functools.partial(_run, encoder, kind, recipe, program)
    return flops.count(run, _params(encoder, kind), _shapes(batch)).model


def _shape_of(encoder, kind, batch):
    """Returns the shape of the features of a batch."""
    run = functools.partial(_run, encoder, kind, grid.Recipe(steps=1), 'features')
    return jax.eval_shape(run, _params(encoder, kind), _shapes(batch)).shape


def _params(encoder, kind):
    return jax.eval_shape(lambda: Network(encoder, kind).init(0))


def _shapes(batch):
    return {name: jax.ShapeDtypeStruct(shape, dtype) for name, shape, dtype in batch}


def _run(encoder, kind, recipe, program, params, batch):
    """Runs one of a member's programs, as in grid.Grid and kinds/prediction.py."""
    encoder, encoder_params = partition.prepare(encoder, params['encoder'], recipe)
    trained, frozen = partition.split(encoder_params, recipe.layers)
    network, trained = Network(encoder, kind), {**params, **trained}
    if program == 'gradients':
        dropout = key_of(0)
        return member_step.gradients(
            network, kind, recipe, trained, frozen, batch, dropout
        )
    inputs = {key: batch[key] for key in base.INPUTS if key in batch}
    return getattr(kind, program)(network, partition.merged(trained, frozen), inputs)
