"""Tests for batches of mixtures on several processes, from any step, and by phase."""

from fractions import Fraction

import numpy as np
import pytest
import read_back
from numpy.testing import assert_array_equal
from read_back import assert_same, joined

from jepa_text.data import mixture as mixtures


def part(number, count, weight=1, before=0):
    rows = read_back.Numbered(count, number)
    weight = Fraction(str(weight))
    return mixtures.Part(name=str(number), rows=rows, weight=weight, before=before)


def three(times=1, **given):
    """A mixture of small parts, whose epochs end often, or of larger ones: shuffling a
    few rows takes grain thousands of times longer per row than shuffling many."""
    parts = [part(0, 40 * times, 0.5), part(1, 11 * times, 0.3), part(2, 7 * times, 0.2)]
    return mixtures.Mixture(parts, **given)


def take(count, mixture, **changed):
    return read_back.take(count, mixture, **({'batch_size': 8, 'seed': 3} | changed))


def test_the_order_of_a_single_folder_is_stable():
    """The order must not change, so that existing checkpoints can be resumed."""
    alone = mixtures.Mixture([part(0, 12)])
    rows = [batch['row'][:, 1] for batch in take(3, alone, seed=0)]
    first = [1, 2, 11, 5, 9, 7, 10, 6, 0, 3, 8, 4]
    second = [9, 11, 1, 8, 2, 0, 3, 5, 4, 7, 6, 10]
    assert np.concatenate(rows).tolist() == first + second
    assert set(take(1, alone)[0]) == {'row', 'segment_ids', 'draw', 'step'}


@pytest.mark.parametrize(
    'processes, start, times', [(2, 5, 1), (1, 1, 99), (4, 6, 1), (8, 17, 99)]
)
def test_processes_share_the_global_batch_from_any_step(processes, start, times):
    alone = take(start + 4, three(times))[start:]
    parts = [
        take(4, three(times), start=start, process_index=index, process_count=processes)
        for index in range(processes)
    ]
    assert_same(joined(parts), alone)


def test_starting_at_a_large_step_is_fast():
    (batch,) = take(1, three(99), start=10**11)
    expected = np.random.default_rng([3, 8 * 10**11]).random(2)
    assert_array_equal(batch['draw'][0], expected)


def test_each_part_is_read_once_per_epoch():
    rows = np.concatenate([batch['row'] for batch in take(20, three())])
    for number, count in ((1, 11), (2, 7)):  # also fewer than in a batch
        of_part = rows[rows[:, 0] == number][: 4 * count, 1]
        epochs = of_part.reshape(4, count).tolist()
        assert [sorted(epoch) for epoch in epochs] == [[*range(count)]] * 4
        assert len({tuple(epoch) for epoch in epochs}) == 4


def test_batches_have_the_part_of_each_row():
    for batch in take(3, three(99)):
        assert batch[mixtures.PART].dtype == bool and batch[mixtures.PART].shape == (8, 3)
        assert_array_equal(batch[mixtures.PART].argmax(1), batch['row'][:, 0])
        assert (batch[mixtures.PART].sum(1) == 1).all()


def test_a_phase_continues_where_the_last_one_stopped():
    """40 rows of one folder, then 24 rows of it and another: no row is read twice, and no
    mask is drawn twice."""
    first = mixtures.Mixture([part(0, 60)])
    second = mixtures.Mixture([part(1, 30), part(0, 60, before=40)], begins=40)
    ones = take(5, first)
    later = dict(batch_size=4, row_of=lambda step: 40 + 4 * (step - 5))
    others = take(6, second, start=5, **later)
    rows = np.concatenate([batch['row'] for batch in (*ones, *others)])
    of_0 = rows[rows[:, 0] == 0][:, 1]
    assert len(of_0) == 40 + 12 and len(set(of_0)) == len(of_0)
    # As the first alone would have continued, in larger batches.
    alone = {
        key: np.concatenate([batch[key] for batch in take(8, first)])
        for key in ('row', 'draw')
    }
    assert_array_equal(of_0, alone['row'][:52, 1])
    draws = np.concatenate([batch['draw'] for batch in (*ones, *others)])
    assert_array_equal(draws, alone['draw'])
    steps = [batch['step'][:, 0].tolist() for batch in others]
    assert steps == [[5 + n] * 4 for n in range(6)]
    # From any of its steps.
    assert_same(take(3, second, start=8, **later), others[3:])
