"""Inputs are equal if their contents are, and only then."""

import jax
import numpy as np
from test_objectives import TOKENIZER

from jepa_text.models import memo
from jepa_text.objectives import hybrid, mlm


def test_objectives_are_compared_by_their_contents():
    def build(module, steps, **section):
        return module.make(TOKENIZER, 16, steps, **section)

    assert memo.equal(build(mlm, 10), build(mlm, 20))
    assert not memo.equal(build(mlm, 10), build(mlm, 10, rate=0.31))
    assert not memo.equal(build(mlm, 10), build(hybrid, 10))
    assert memo.equal(build(hybrid, 10), build(hybrid, 10))
    assert not memo.equal(build(hybrid, 10), build(hybrid, 20))  # its EMA
    two = [lambda x, by=by: x * by for by in (2, 3)]
    assert not memo.equal(*two)
    assert memo.equal([np.arange(3), {'a': np.nan}], [np.arange(3), {'a': np.nan}])
    assert not memo.equal(np.arange(3), np.arange(3.0))
    assert memo.equal([jax.random.key(0)], [jax.random.key(0)])
    assert not memo.equal(jax.random.key(0), jax.random.key(1))
    # Objects that cannot be inspected are different.
    assert not memo.equal(iter(()), iter(()))
