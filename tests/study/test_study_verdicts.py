"""Verdicts of a study: false positive rate, power, and missing verdicts."""

import math

import numpy as np
import pytest

from jepa_text.measures import power, statistics
from jepa_text.study import arms as of_arms
from jepa_text.study import verdicts

LOSS = of_arms.LOSS


def drawn(rng, means, seeds=5):
    """Returns normally distributed arms with these means, correlated by seed."""
    of_seed = rng.normal(size=seeds)
    return {
        arm: {n: {LOSS: mean + rng.normal() + of_seed[n]} for n in range(seeds)}
        for arm, mean in means.items()
    }


def every(arms):
    return verdicts.decide(arms, verdicts.questions(arms, [LOSS]))


def test_the_power_is_that_of_the_published_effect_and_the_measured_deviation():
    known = verdicts.Question('a', 'b', LOSS, effect=-7.0)
    arms = drawn(np.random.default_rng(1), dict(a=0.0, b=7.0, c=0.0, d=0.0))
    questions = verdicts.questions(arms, [LOSS], [('a', 'c'), ('a', 'd')], [known])
    first, *others = verdicts.decide(arms, questions)
    assert first.tests == 3 and [one.power for one in others] == [None, None]
    difference_S = [arms['a'][n][LOSS] - arms['b'][n][LOSS] for n in range(5)]
    expected = power.power(7.0, np.std(difference_S, ddof=1), 5, tests=3)
    assert first.power == pytest.approx(expected)


@pytest.mark.parametrize('seeds', [1, 2, 4])
def test_below_five_seeds_there_is_no_verdict(seeds):
    arms = drawn(np.random.default_rng(0), dict(a=0.0, b=99.0), seeds)
    (one,) = verdicts.decide(arms, [verdicts.Question('a', 'b', LOSS, effect=-99.0)])
    assert not one.is_sure and one.why.endswith('5 needed') and math.isnan(one.p)
    assert one.words.startswith('no verdict')
    # Nothing can be shown, however small the deviation.
    assert math.isnan(one.detectable) and one.power is None


def test_a_diverged_member_prevents_a_verdict():
    arms = drawn(np.random.default_rng(0), dict(a=0.0, b=99.0, c=0.0), 6)
    arms['b'][3][LOSS] = math.nan
    found = {(v.question.first, v.question.second): v for v in every(arms)}
    assert found['a', 'b'].why == '1 value not finite' and not found['a', 'b'].is_sure
    # The correction only counts the one test that was made.
    assert found['a', 'c'].tests == 1 and not found['a', 'c'].why


def test_only_seeds_that_both_have_are_paired():
    arms = drawn(np.random.default_rng(0), dict(a=0.0, b=9.0), 8)
    del arms['a'][0], arms['b'][7]
    (one,) = every(arms)
    assert one.result.seeds == 6
    assert one.words == f'a is below b (p = {one.p:.2g}, 6 seeds)'


def test_verdicts_use_the_tests_of_evaluation():
    arms = drawn(np.random.default_rng(3), dict(a=0.0, b=3.0, c=0.0))
    values = {arm: [one[LOSS] for one in own.values()] for arm, own in arms.items()}
    pairs = [[values[arm] for arm in pair] for pair in ('ab', 'ac', 'bc')]
    for (found, p), one in zip(statistics.corrected(pairs), every(arms)):
        assert one.result == found and one.p == p


def test_the_wide_interval_corresponds_to_the_smallest_p():
    """It touches zero if p is 0.05 / tests."""
    arms = drawn(np.random.default_rng(3), dict(a=0.0, b=3.0, c=0.0))
    for one in every(arms):
        assert one.low < one.result.low < one.result.high < one.high
        assert (one.low > 0 or one.high < 0) == (one.result.p < 0.05 / 3)


def test_questions_are_unique_and_keep_published_effects():
    arms = drawn(np.random.default_rng(0), dict(a=0.0, b=1.0, c=2.0))
    assert len(verdicts.questions(arms, [LOSS])) == 3
    known = verdicts.Question('a', 'b', LOSS, 0.5)
    asked = verdicts.questions(arms, [LOSS], [('a', 'b'), ('b', 'c')], [known])
    assert asked == [known, verdicts.Question('b', 'c', LOSS)]
    assert verdicts.questions(arms, [LOSS], (), [known]) == [known]
    # The same two runs in the other order are no further test.
    assert verdicts.questions(arms, [LOSS], [('b', 'a')], [known]) == [known]
    # A failed run only loses its own comparisons.
    questions = verdicts.questions(arms, [LOSS], [('a', 'b'), ('a', 'given up')])
    assert [one.question.second for one in verdicts.decide(arms, questions)] == ['b']


def test_a_spread_is_a_side_of_a_comparison():
    arms = {
        name: {seed: {LOSS: wide * n * (1 + seed / 100) + seed} for seed in range(-2, 3)}
        for wide, names in ((1.0, 'abc'), (0.1, 'def'))
        for n, name in enumerate(names)
    }
    sides = {'spread': list('def')}, {'spread': list('abc')}
    (one,) = verdicts.decide(arms, [verdicts.Question(*sides, LOSS)])
    assert one.result.difference == pytest.approx(-0.9) and one.is_sure
    assert 'spread of d, e, f is below' in one.words
