"""Rows per step and number of steps, from either of two options each."""

import pytest

from jepa_text.running import budget


def test_batch_size_or_batch_per_device():
    for data in ({'batch_size': 16, 'batch_per_device': 0}, {'batch_per_device': 2}):
        assert budget.size(data, 8, steps=3) == (16, 3)


@pytest.mark.parametrize(
    ('tokens', 'steps'), [(1, 1), (512, 1), (513, 2), (5_120, 10), (1e6, 1954)]
)
def test_steps_cover_the_tokens(tokens, steps):
    data = {'batch_size': 16, 'row_length': 32}
    assert budget.size(data, 1, tokens=tokens) == (16, steps)


def test_a_budget_in_tokens_does_not_change_with_the_batch():
    for rows in (8, 16, 64):
        data = {'batch_size': rows, 'row_length': 64}
        spent = budget.size(data, 1, tokens=10**6)[1] * rows * 64
        assert 10**6 <= spent < 10**6 + rows * 64


@pytest.mark.parametrize(
    'given',
    [
        {},
        {'steps': 0, 'tokens': None},
        {'steps': 3, 'tokens': 5},
        {'steps': -3},
        {'steps': 1.5},
    ],
)
def test_exactly_one_is_given(given):
    with pytest.raises(ValueError, match='steps'):
        budget.size({'batch_size': 4, 'row_length': 8}, 1, **given)


def test_exactly_one_batch_option_is_given():
    with pytest.raises(
        ValueError, match='exactly one of data.batch_size and data.batch_'
    ):
        budget.size({'batch_size': 4, 'batch_per_device': 2}, 4, steps=1)
