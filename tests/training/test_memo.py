"""Answers are given again to inputs that hold the same, and to no others."""

import jax
import numpy as np
import pytest

from jepa_text.objectives import hybrid, mlm
from jepa_text.training import memo


def test_objectives_are_alike_by_all_that_they_hold():
    class Words:
        vocab_size, mask_id, special_ids = 50, 4, (0, 1, 2, 3, 4)

    def build(module, steps, **section):
        return module.make(Words, 16, steps, **section)

    assert memo.alike(build(mlm, 10), build(mlm, 20))
    assert not memo.alike(build(mlm, 10), build(mlm, 10, rate=0.31))
    assert not memo.alike(build(mlm, 10), build(hybrid, 10))
    assert memo.alike(build(hybrid, 10), build(hybrid, 10))
    assert not memo.alike(build(hybrid, 10), build(hybrid, 20))  # its EMA
    two = [lambda x, by=by: x * by for by in (2, 3)]
    assert not memo.alike(*two)
    assert memo.alike([np.arange(3), {'a': np.nan}], [np.arange(3), {'a': np.nan}])
    assert not memo.alike(np.arange(3), np.arange(3.0))
    # Where one cannot look, they are not.
    assert not memo.alike(iter(()), iter(()))


@pytest.fixture
def counted():
    """A function that is remembered, and the inputs that it computed."""
    asked = []

    def function(*inputs):
        asked.append(inputs)
        return len(asked)

    return memo.once(function), asked


def test_what_is_alike_is_computed_once(counted):
    function, asked = counted
    row = jax.ShapeDtypeStruct((2, 8), 'int32')
    assert function({'a': row}, [1]) == function({'a': row.update()}, [1]) == 1
    assert function({'a': row.update(shape=(3, 8))}, [1]) == 2
    assert function({'a': row.update(dtype='int8')}, [1]) == 3
    assert function({'b': row}, [1]) == 4
    assert function({'a': row}, [1]) == 1 and len(asked) == 4


def test_the_last_answers_are_kept(counted):
    function, asked = counted
    for number in range(memo.KEPT + 1):
        function(number)
    function(memo.KEPT)
    assert len(asked) == memo.KEPT + 1
    function(0)
    assert len(asked) == memo.KEPT + 2


def test_an_error_is_no_answer():
    @memo.once
    def function(value):
        raise ValueError(value)

    for _ in range(2):
        with pytest.raises(ValueError, match='7'):
            function(7)
