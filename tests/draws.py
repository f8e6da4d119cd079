"""Cases of costly tests: seeds, others each day and the same all day, and stages; and
parameters."""

import datetime
import os

import jax
import numpy as np
import pytest

NAME = 'TEST_DRAW'


def seed():
    """The seed of today, or of the environment, which is told beside a failure."""
    given = os.environ.get(NAME) or datetime.date.today().toordinal()
    print(f'{NAME}={given} draws the same again.')
    return int(given)


def in_stages(*cases, fast=0, slow=1):
    """Returns cases of a parametrized test: the first are fast, the next ones slow, and
    those after them long."""
    marks = [()] * fast + [pytest.mark.slow] * slow + [pytest.mark.long] * len(cases)
    cases = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*case, marks=mark) for case, mark in zip(cases, marks)]


def params(init, spread=0.16, seed=0):
    """Numpy parameters like those that `init()` returns, without its program, which takes
    long to compile; scales are near 1, all others near 0."""
    rng = np.random.default_rng(seed)

    def draw(path, leaf):
        is_scale = path[-1].key == 'scale'
        return np.asarray(rng.normal(is_scale, spread, leaf.shape), leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, jax.eval_shape(init))
