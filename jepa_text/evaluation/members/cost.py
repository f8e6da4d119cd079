"""How much arithmetic a member is, before it is trained (`--dry-run`).

    member   steps x (forward, and backward through what is trained)
             + forward of all that validates and tests
    once     what all members share: the features of an encoder that stays as it is

It is counted in the programs that train and measure (cost/flops.py), at the shapes of the
task's own rows. What fills a row is computed, and counts. No weights are needed.
"""

import collections
import dataclasses
import functools
import itertools
from typing import NamedTuple

import jax
import numpy as np

from jepa_text import pretrained
from jepa_text.cost import flops
from jepa_text.data import batching
from jepa_text.evaluation import finetune, retrieving, zero_shot
from jepa_text.evaluation.members import grid, packed, partition
from jepa_text.evaluation.members import step as member_step
from jepa_text.evaluation.sets import retrieval
from jepa_text.evaluation.sets import task as tasks
from jepa_text.kinds import base, prediction, vectors
from jepa_text.models.network import Network

# Examples of a part whose tokens are counted; of more, so many stand for all.
SAMPLE = 4096


class Cost(NamedTuple):
    """`steps` and FLOPs of one `member`, and of what is done `once` for all of them."""

    steps: int
    member: float
    once: float


class _Part(NamedTuple):
    """Rows of some examples of a set, which has `times` as many."""

    rows: list
    times: float


def of_member(model, task, settings):
    """The Cost of each member: a load.outline, fine-tuned on a task as a
    config.Finetuning says. Members differ by the order of their rows; it is seed 0's.

    Raises ValueError for what cannot be learned or read.
    """
    if zero_shot.as_it_is(task):
        return _untaught(model, task, settings)
    ranks = isinstance(task, retrieval.Retrieval)
    kind = (retrieving if ranks else finetune).kind_of(task, settings)
    reader = prediction.reader(model, settings.max_length or None)
    pairs = tasks.Examples(*map(list, zip(*task.pairs))) if ranks else task.train
    learned = _part(kind, reader, pairs)
    size = settings.batch_size
    batches = -(-round(len(learned.rows) * learned.times) // size)
    steps = min(settings.steps, settings.epochs * batches)
    counting = _Counting(model, kind, settings.recipe(1), reader.length)
    order_TB = grid.orders(len(learned.rows), 0, steps, size)
    once, features = counting.shared(learned)
    member = counting.trained(learned.rows, order_TB, features)
    if ranks:
        return Cost(steps, member + counting.ranked(task, reader), once)
    for examples in (task.validation, task.test):
        part = _part(kind, reader, examples)
        read, features = counting.shared(part)
        once += read
        member += counting.measured(part, features)
    return Cost(steps, member, once)


def _untaught(model, task, settings):
    """The Cost of reading each text once; of masks also that of naming a word."""
    kind, reader = (
        vectors.Vectors(),
        prediction.reader(model, settings.max_length or None),
    )
    counting = _Counting(model, kind, settings.recipe(1), reader.length)
    texts = [
        text
        for part in (task.validation, task.test)
        for text in zero_shot.texts(task, part)
    ]
    encoder, named = counting.encoder, 0
    if zero_shot.fills(task):
        named = 2 * len(texts) * encoder.width * encoder.vocab_size
    return Cost(0, counting.encoded([texts], reader) + named, 0.0)


def _part(kind, reader, examples):
    """The _Part of Examples, evenly drawn."""
    count = len(examples)
    index_M = np.linspace(0, count - 1, min(SAMPLE, count)).round().astype(int)
    return _Part(kind.rows(reader, examples.take(index_M)), count / len(index_M))


class _Counting:
    """FLOPs of the programs of a model, a kind and a grid.Recipe on rows."""

    def __init__(self, model, kind, recipe, maximum):
        # Whatever it attends by: products in kernels are not seen.
        self.encoder = model.network.encoder.clone(attention='xla')
        self.kind, self.recipe = kind, recipe
        partition.check_head(Network(self.encoder, kind), recipe)
        self.pad_id, self.length = model.tokenizer.pad_id, model.length
        self.maximum = maximum

    def shared(self, part):
        """(FLOPs of what the head reads of a part, an example of it), where all members
        share that, as prediction.with_features has it; else (0, None)."""
        if self.recipe.layers != 0:
            return 0.0, None
        shape = _shape_of(self.encoder, self.kind, self._batch(_blank(part.rows[0]), 1))
        # A vector of each row, or of each of its tokens.
        each = (1 if len(shape) == 2 else len(row.tokens) for row in part.rows)
        if 4 * shape[-1] * sum(each) * part.times > prediction.ROOM:
            return 0.0, None
        row, lengths = _blank(part.rows[0]), self._read(part, self.maximum)
        return self._sum('features', row, lengths), np.zeros(shape[1:], np.float32)

    def trained(self, rows, order_TB, features):
        """FLOPs of the steps."""
        row, (steps, size) = _blank(rows[0], features), order_TB.shape
        recipe = dataclasses.replace(self.recipe, steps=steps)
        given = self.encoder, self.kind, recipe, self.maximum, rows
        if features is None and (shape := grid.shape_of(*given)):
            batch = self._batch(row, size, shape.length, shape)
            return steps * self._traced('gradients', batch)
        chosen = ([rows[i] for i in index_B if i >= 0] for index_B in order_TB)
        longest = map(self.kind.row_length, chosen)
        lengths = collections.Counter(batching.padded(n, self.maximum) for n in longest)
        return self._sum('gradients', row, lengths, size)

    def measured(self, part, features):
        """FLOPs of answering all of a part."""
        row, lengths = _blank(part.rows[0], features), self._read(part, self.length)
        return self._sum('outputs', row, lengths)

    def ranked(self, task, reader):
        """FLOPs of the vectors of queries and corpus, and of their products."""
        asked = list(dict.fromkeys([*task.qrels, *task.validation_qrels]))
        sides = [task.queries[query] for query in asked], list(task.corpus.values())
        products = 2 * len(asked) * len(task.corpus) * self.encoder.width
        return products + self.encoded(sides, reader)

    def encoded(self, sides, reader):
        """FLOPs of the vectors of texts, each side by itself, of a kind of pairs."""
        lengths = collections.Counter()
        for texts in sides:
            part = _part(self.kind, reader, tasks.Examples(texts, texts))
            given = [len(row.tokens) for row in part.rows], pretrained.usual_tokens()
            for _, rows, length in batching.batches(*given, self.maximum):
                lengths[length] += rows * part.times
        # A row of the kind is a pair.
        return self._sum('features', _blank(part.rows[0]), lengths) / 2

    def _read(self, part, maximum):
        """{length: how many rows are read at it}."""
        lengths = collections.Counter()
        for _, batch in prediction.batches(part.rows, self.pad_id, maximum):
            rows, length = batch['tokens'].shape
            lengths[length] += rows * part.times
        return lengths

    def _sum(self, program, row, lengths, size=1):
        """FLOPs of a program on batches of `size` rows, so many of each length."""

        def count(length):
            return self._traced(program, self._batch(row, size, length))

        found = _by_length(count, sorted(lengths), _windows(self.encoder))
        return float(sum(found[length] * times for length, times in lengths.items()))

    def _traced(self, program, batch):
        return _traced(self.encoder, self.kind, self.recipe, program, batch)

    def _batch(self, row, size, length=1, shape=None):
        """((name, shape, dtype), ...) of a batch of rows, packed in a Shape if given."""
        batch = self.kind.collate([row], size, length, self.pad_id)
        if shape is not None:
            (batch,) = packed.batches([batch], shape)
        return tuple((name, x.shape, str(x.dtype)) for name, x in sorted(batch.items()))


def _blank(row, features=None):
    """A row of one token with the targets that a row has: a batch of them has any
    length."""
    targets = {k: v[:1] if np.ndim(v) else v for k, v in row.targets.items()}
    return base.Row(row.tokens[:1], targets, 0, row.tokens[:1], features)


def _windows(encoder):
    found = getattr(encoder, 'window', None)
    return set(found if isinstance(found, tuple) else (found,)) - {None}


def _by_length(count, lengths, windows):
    """{length: count(length)} of increasing lengths.

    What reaches beyond all windows, and what does not, is a polynomial of degree two in
    the length, which three of them determine.
    """
    found = {}
    for _, piece in itertools.groupby(lengths, lambda n: sum(n > w for w in windows)):
        piece = list(piece)
        known = sorted({piece[0], piece[len(piece) // 2], piece[-1]})
        counts = [count(length) for length in known]
        fit = np.polynomial.Polynomial.fit(known, counts, len(known) - 1)
        found |= {length: fit(length) for length in piece}
    return found


@functools.lru_cache(maxsize=4096)
def _traced(encoder, kind, recipe, program, batch):
    """FLOPs of a program on a batch as _Counting._batch describes it."""
    run = functools.partial(_run, encoder, kind, recipe, program)
    return flops.traced(run, _params(encoder, kind), _shapes(batch)).model


def _shape_of(encoder, kind, batch):
    """The shape of the features of a batch."""
    run = functools.partial(_run, encoder, kind, grid.Recipe(steps=1), 'features')
    return jax.eval_shape(run, _params(encoder, kind), _shapes(batch)).shape


def _params(encoder, kind):
    return jax.eval_shape(lambda: Network(encoder, kind).init(0))


def _shapes(batch):
    return {name: jax.ShapeDtypeStruct(shape, dtype) for name, shape, dtype in batch}


def _run(encoder, kind, recipe, program, params, batch):
    """One of the programs of a member, as grid.Grid and predicting have them."""
    encoder, own = partition.arranged(encoder, params['encoder'], recipe)
    trained, frozen = partition.split(own, recipe.layers)
    network, trained = Network(encoder, kind), {**params, **trained}
    if program == 'gradients':
        given = network, kind, recipe, trained, frozen, batch
        return member_step.gradients(*given, jax.random.key(0))
    inputs = {key: batch[key] for key in base.INPUTS if key in batch}
    return getattr(kind, program)(network, partition.merged(trained, frozen), inputs)
