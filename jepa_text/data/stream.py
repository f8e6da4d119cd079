"""Batches of corrupted rows: a deterministic stream that can start at any step.

    parts --reshuffled every epoch, endlessly; by weight--> row of the run   (mixture.py)
         --corrupt(row, rng(seed, number of the row))--> example
         --batches of B / P, every P-th, from a step--> this process's part of each step

    step         0                     1
    row          0  1  2  3  4  5      6  7  8  9 10 11     B = 6
    process      0  0  0  1  1  1      0  0  0  1  1  1     P = 2

Everything is a function of (seed, row). So the global batch of a step is the same for any
number of processes, the only state is the number of steps taken, and resuming
costs nothing. The meaning of a step number depends on the rows, the batch size and the
seed, whose `fingerprint` is saved with it.
"""

import dataclasses
import hashlib
import itertools
import sys

import grain
import numpy as np

from jepa_text.data.mixture import PART

PREFETCH = 2  # maximum number of groups of batches read ahead
GROUP = 4  # batches read at a time


@dataclasses.dataclass(frozen=True)
class Cursor:
    """Where a phase starts reading: at step `step`, with row `row` of the run."""

    step: int = 0
    row: int = 0

    def at(self, step, batch_size):
        """Returns the first row of a step of the phase."""
        return self.row + (step - self.step) * batch_size


def fingerprint(rows, batch_size, seed):
    """Returns 48 hex digits, 16 each for rows, batch size and seed, which together
    determine the batch of a step number.

    `rows` is the fingerprint of a mixture. If phases differ, `rows` and `batch_size` list
    the values of all phases.
    """
    parts = (rows, batch_size, seed)
    digests = (hashlib.sha256(repr(part).encode()).hexdigest() for part in parts)
    return ''.join(digest[:16] for digest in digests)


def check_fingerprint(saved, now):
    """Raises ValueError if a checkpoint was trained on another stream of data."""
    if saved == now:
        return
    names = ('rows', 'batch size', 'seed')
    spans = [slice(start, start + 16) for start in (0, 16, 32)]
    changed = [name for name, span in zip(names, spans) if saved[span] != now[span]]
    raise ValueError(
        'This checkpoint was trained on another stream of data: other '
        f'{" and other ".join(changed)} (fingerprint {saved}, now {now}). To resume, use '
        'the original settings; to start over from its weights, use a new workdir.'
    )


def batches(
    mixture,
    corrupt,
    *,
    batch_size,
    seed,
    start=0,
    cursor=Cursor(),
    process_index=0,
    process_count=1,
):
    """Returns an endless iterator over the batches of this process from step `start` on:
    dicts of [B / P, ...]. Close it when done.

    `corrupt(row, rng, step)` returns an example; `rng` is keyed by (seed, row of the
    run), and `step` is the one whose batch has the row. If there are several parts,
    batches have the part of each row as mixture.PART. Raises ValueError if the batch size
    is not divisible by the number of processes.
    """
    local = _local_batch_size(batch_size, process_count)
    rows = _Rows(mixture, corrupt, seed)

    def batch(step):
        first = cursor.at(step, batch_size) + process_index * local
        return _stacked([rows.at(row, step) for row in range(first, first + local)])

    class Groups:
        """All batches of this process in groups, read on demand.

        Grouped, because each element taken from grain wakes its thread and waits for the
        GIL."""

        def __len__(self):
            return (sys.maxsize - start) // GROUP

        def __getitem__(self, index):
            first = start + index * GROUP
            return [batch(step) for step in range(first, first + GROUP)]

    dataset = grain.MapDataset.source(Groups())
    # Reading a row takes many short numpy calls, so several threads contend for the GIL:
    # on two cores, one thread reads 9 M tokens per second, four read 4.6 M.
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=PREFETCH)
    return _iterate(dataset.to_iter_dataset(options))


class _Rows:
    """Corrupted rows of a run, by their number in the run."""

    def __init__(self, mixture, corrupt, seed):
        self._mixture, self._corrupt, self._seed = mixture, corrupt, seed
        # The same for all phases that read a part, so that a phase can continue
        # another's.
        self._orders = [
            grain.MapDataset.range(len(part.rows)).seed(seed).shuffle()
            for part in mixture.parts
        ]

    def at(self, row, step):
        mixture = self._mixture
        number, index = mixture.at(row - mixture.begins)
        part = mixture.parts[number]
        example = part.rows[self._orders[number][part.before + index]]
        example = _corrupt_at(self._corrupt, self._seed, row, step, example)
        if len(mixture.parts) > 1:
            example[PART] = mixture.one_hot(number)
        return example


def _iterate(dataset):
    iterator = iter(dataset)
    try:
        yield from itertools.chain.from_iterable(iterator)
    finally:
        iterator.close()


def heldout_batches(
    rows, corrupt, *, batch_size, seed, max_rows=None, process_index=0, process_count=1
):
    """Yields one pass over the rows (or the first `max_rows`) in order, in full batches.

    The last batch is padded with rows of zeros: segment_ids 0, masks False. The generator
    of row i is keyed by (seed, i), the same in every pass.
    """
    local = _local_batch_size(batch_size, process_count)
    count = len(rows) if max_rows is None else min(max_rows, len(rows))
    first = process_index * local
    for begin in range(first, count + first, batch_size):
        indices = range(begin, min(begin + local, count))
        # Row 0 gives the shapes if this process has no row in the last batch.
        examples = [_corrupt_at(corrupt, seed, i, 0, rows[i]) for i in indices]
        like = examples[0] if examples else _corrupt_at(corrupt, seed, 0, 0, rows[0])
        blank = {key: np.zeros_like(value) for key, value in like.items()}
        yield _stacked(examples + [blank] * (local - len(examples)))


def _corrupt_at(corrupt, seed, number, step, row):
    return corrupt(row, np.random.default_rng([seed, number]), step)


def _stacked(examples):
    return {key: np.stack([example[key] for example in examples]) for key in examples[0]}


def _local_batch_size(batch_size, process_count):
    if batch_size % process_count:
        raise ValueError(
            f'batch_size {batch_size} cannot be divided evenly among {process_count} '
            f'processes. Use a multiple of {process_count}.'
        )
    return batch_size // process_count
