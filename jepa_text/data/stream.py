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

import contextlib
import itertools
import sys

import grain
import numpy as np

from jepa_text.data.mixture import PART
from jepa_text.settings import ranges

PREFETCH = 2  # maximum number of groups of batches read ahead
GROUP = 4  # batches read at a time


def batches(
    mixture,
    corrupt,
    *,
    batch_size,
    seed,
    start=0,
    stop=sys.maxsize,
    row_of=None,
    process_index=0,
    process_count=1,
):
    """Returns an iterator over the batches of this process from step `start` to `stop`:
    dicts of [B / P, ...]. Close it when done.

    `corrupt(row, rng, step)` returns an example; `rng` is keyed by (seed, row of the
    run), and `step` is the one whose batch has the row. `row_of(step)` is the first row
    of a step; by default all steps of the run have the same size. If there are several
    parts, batches have the part of each row as mixture.PART. Raises as
    `local_batch_size`.
    """
    local = local_batch_size(batch_size, process_index, process_count)
    # The same for all phases that read a part, so that a phase can continue another's.
    orders = [
        grain.MapDataset.range(len(part.rows)).seed(seed).shuffle()
        for part in mixture.parts
    ]

    def example(row, step):
        number, index = mixture.at(row - mixture.begins)
        part = mixture.parts[number]
        read = part.rows[orders[number][part.before + index]]
        made = corrupt_at(corrupt, seed, row, step, read)
        if len(mixture.parts) > 1:
            made[PART] = mixture.one_hot(number)
        return made

    def batch(step):
        first = row_of(step) if row_of else step * batch_size
        first += process_index * local
        return stacked([example(row, step) for row in range(first, first + local)])

    # Grouped, because each element taken from grain wakes its thread and waits for the
    # GIL.
    def group(number):
        first = start + number * GROUP
        return [batch(step) for step in range(first, min(first + GROUP, stop))]

    dataset = grain.MapDataset.range(-(-(stop - start) // GROUP)).map(group)
    # Reading a row takes many short numpy calls, so several threads contend for the GIL:
    # on two cores, one thread reads 9 M tokens per second, four read 4.6 M.
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=PREFETCH)
    return _iterate(dataset.to_iter_dataset(options))


def _iterate(dataset):
    with contextlib.closing(iter(dataset)) as groups:
        yield from itertools.chain.from_iterable(groups)


def corrupt_at(corrupt, seed, number, step, row):
    """Returns the example of a row; its generator is keyed by (seed, number)."""
    return corrupt(row, np.random.default_rng([seed, number]), step)


def stacked(examples):
    """Returns a batch of examples."""
    return {key: np.stack([example[key] for example in examples]) for key in examples[0]}


def local_batch_size(batch_size, process_index, process_count):
    """Returns the rows of each process. Raises ValueError if they would be unequal, and
    for the index of no process, which would read rows of another step."""
    ranges.number(
        'process_index', process_index, whole=True, minimum=0, below=process_count
    )
    if batch_size % process_count:
        raise ValueError(
            f'batch_size {batch_size} cannot be divided evenly among {process_count} '
            f'processes. Use a multiple of {process_count}.'
        )
    return batch_size // process_count
