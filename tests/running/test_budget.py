"""The number of steps, from either of two budgets."""

import pytest

from jepa_text.running import budget


@pytest.mark.parametrize(
    'tokens, steps', [(1, 1), (512, 1), (513, 2), (5_120, 10), (1e6, 1954)]
)
def test_steps_cover_the_tokens(tokens, steps):
    data = {'batch_size': 16, 'row_length': 32}
    assert budget.total_steps(dict(data=data, tokens=tokens, phases=[{}])) == steps
    assert budget.total_steps(dict(data=data, steps=steps)) == steps


@pytest.mark.parametrize(
    'fractions, total, stops',
    [
        ((0.5, 0.5), 5, [2, 5]),
        ((0.25, 0.25, 0.5), 10, [2, 4, 10]),
        ((0.1, 0.9), 15, [2, 15]),
    ],
)
def test_the_last_phase_takes_what_rounding_leaves(fractions, total, stops):
    spans = budget.spans([{'fraction': one} for one in fractions], total)
    assert [stop for _, stop in spans] == stops
    with pytest.raises(ValueError, match='must cover all steps'):
        budget.spans([{'fraction': 0.5}, {'fraction': 0.3}], 10)


@pytest.mark.parametrize('given', [{}, {'steps': 0, 'tokens': None}])
def test_one_is_given(given):
    with pytest.raises(ValueError, match='steps'):
        budget.total_steps(given | {'data': {'batch_size': 4, 'row_length': 8}})
