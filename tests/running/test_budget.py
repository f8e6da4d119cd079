"""Rows and steps from whichever of the two ways they are given."""

import pytest

from jepa_text.running import budget


def test_rows_of_all_or_of_each():
    assert budget.rows({'batch_size': 16, 'batch_per_device': 0}, 8) == 16
    assert budget.rows({'batch_per_device': 2}, 8) == 16


@pytest.mark.parametrize(
    ('tokens', 'steps'), [(1, 1), (512, 1), (513, 2), (5_120, 10), (1e6, 1954)]
)
def test_steps_cover_the_tokens(tokens, steps):
    config = {'steps': 0, 'tokens': tokens, 'data': {'row_length': 32}}
    assert budget.steps(config, 16) == steps
    assert budget.tokens_per_step(config, 16) == 512


def test_a_budget_in_tokens_does_not_change_with_the_batch():
    config = {'tokens': 10**6, 'data': {'row_length': 64}}
    for rows in (8, 16, 64):
        spent = budget.steps(config, rows) * budget.tokens_per_step(config, rows)
        assert 10**6 <= spent < 10**6 + rows * 64


@pytest.mark.parametrize(
    'config',
    [
        {},
        {'steps': 0, 'tokens': None},
        {'steps': 3, 'tokens': 5},
        {'steps': -3},
        {'steps': 1.5},
    ],
)
def test_exactly_one_is_given(config):
    with pytest.raises(ValueError, match='steps'):
        budget.steps({**config, 'data': {'row_length': 8}}, 4)


def test_the_batch_too():
    with pytest.raises(
        ValueError, match='exactly one of data.batch_size and data.batch_'
    ):
        budget.rows({'batch_size': 4, 'batch_per_device': 2}, 4)
