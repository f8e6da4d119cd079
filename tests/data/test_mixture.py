"""Tests for mixtures of rows by weight."""

import types
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from jepa_text.data import mixture as mixtures


def mixture(*weights):
    return mixtures.Mixture(
        [
            mixtures.Part(name=str(n), rows=range(9), weight=Fraction(str(weight)))
            for n, weight in enumerate(weights)
        ]
    )


weights = st.lists(
    st.sampled_from([1, 1, 2, 3, 0.1, 0.7, 1 / 3, 100, 997]), min_size=1, max_size=9
)


@settings(max_examples=200, deadline=None)
@given(weights, st.integers(0, 300) | st.integers(0, 10**15))
def test_every_prefix_is_near_the_weights(chosen, index):
    made = mixture(*chosen)
    part, row = made.at(index)
    before, after = made.counts(index), made.counts(index + 1)
    assert sum(after) == index + 1
    # The rows of a part are in order, without repeats or gaps.
    assert row == before[part] and after[part] == row + 1
    assert all(new >= old for new, old in zip(after, before))
    bound = (1 + sum(1 / k for k in range(1, len(chosen) - 1))) / 2
    assert all(abs(n - index * s) <= bound for n, s in zip(before, made.shares))


def test_seven_to_three():
    made = mixture(0.7, 0.3)
    assert [made.at(i)[0] for i in range(10)] == [0, 1, 0, 0, 0, 1, 0, 0, 1, 0]
    # 0.7 is seven tenths, not the nearest binary fraction: ten rows are a period.
    assert made.counts(10**15) == [7 * 10**14, 3 * 10**14]
    assert made.shares == [Fraction(7, 10), Fraction(3, 10)]


def test_the_fingerprint_depends_on_rows_order_and_weights():
    def of(*pairs):
        rows = [types.SimpleNamespace(fingerprint=name) for name, _ in pairs]
        shares = [Fraction(weight) for _, weight in pairs]
        parts = [mixtures.Part(name='', rows=r, weight=w) for r, w in zip(rows, shares)]
        return mixtures.Mixture(parts).fingerprint

    assert of(('a', 1)) == of(('a', 5)) == 'a'
    assert of(('a', 7), ('b', 3)) == of(('a', 14), ('b', 6))
    different = {
        of(('a', 7), ('b', 3)),
        of(('b', 3), ('a', 7)),
        of(('a', 3), ('b', 7)),
        of(('a', 7), ('c', 3)),
    }
    assert len(different) == 4
