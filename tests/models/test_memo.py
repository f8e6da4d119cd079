"""Results are reused for inputs with equal contents, and only for these."""

import jax
import numpy as np
import pytest

from jepa_text.models import memo
from jepa_text.objectives import hybrid, mlm


def test_objectives_are_compared_by_their_contents():
    class Words:
        vocab_size, mask_id, special_ids = 50, 4, (0, 1, 2, 3, 4)

    def build(module, steps, **section):
        return module.make(Words, 16, steps, **section)

    assert memo.equal(build(mlm, 10), build(mlm, 20))
    assert not memo.equal(build(mlm, 10), build(mlm, 10, rate=0.31))
    assert not memo.equal(build(mlm, 10), build(hybrid, 10))
    assert memo.equal(build(hybrid, 10), build(hybrid, 10))
    assert not memo.equal(build(hybrid, 10), build(hybrid, 20))  # its EMA
    two = [lambda x, by=by: x * by for by in (2, 3)]
    assert not memo.equal(*two)
    assert memo.equal([np.arange(3), {'a': np.nan}], [np.arange(3), {'a': np.nan}])
    assert not memo.equal(np.arange(3), np.arange(3.0))
    # Objects that cannot be inspected are different.
    assert not memo.equal(iter(()), iter(()))


@pytest.fixture
def counted():
    """A memoized function, and the inputs that it was computed for."""
    asked = []

    def function(*inputs):
        asked.append(inputs)
        return len(asked)

    return memo.memoize(function), asked


def test_equal_inputs_are_computed_once(counted):
    function, asked = counted
    row = jax.ShapeDtypeStruct((2, 8), 'int32')
    assert function({'a': row}, [1]) == function({'a': row.update()}, [1]) == 1
    assert function({'a': row.update(shape=(3, 8))}, [1]) == 2
    assert function({'a': row.update(dtype='int8')}, [1]) == 3
    assert function({'b': row}, [1]) == 4
    assert function({'a': row}, [1]) == 1 and len(asked) == 4


def test_the_last_results_are_kept(counted):
    function, asked = counted
    for number in range(memo.MAX_ENTRIES + 1):
        function(number)
    function(memo.MAX_ENTRIES)
    assert len(asked) == memo.MAX_ENTRIES + 1
    function(0)
    assert len(asked) == memo.MAX_ENTRIES + 2


def test_errors_are_not_cached():
    @memo.memoize
    def function(value):
        raise ValueError(value)

    for _ in range(2):
        with pytest.raises(ValueError, match='7'):
            function(7)
