"""Verdicts between ways of training err as often as they say, and see what is there."""

import numpy as np
import pytest
from scipy import stats

from jepa_text.analysis import between, cells, findings, verdicts
from jepa_text.evaluation import controls
from jepa_text.measures import significance, statistics


def row(model, seed, value, task='t', metric='probe_accuracy', **changes):
    made = dict(
        **dict(task=task, model=model, seed=seed, control='', layer=2, other=''),
        **dict(pooling='mean', form='', metric=metric, value=value, count=9),
        **dict(low=value - 0.01, high=value + 0.01),
    )
    return made | changes


def simulated(tasks, seeds, gap, between_seeds=0.04, count=30):
    """(rows, single): tasks that two models pass alike but for `gap`, run by run."""
    rng, rows, single = np.random.default_rng(0), [], {}
    for t in range(tasks):
        hard_N = 0.3 * rng.normal(size=count)
        for model, share in (('a', 0.7 + gap), ('b', 0.7)):
            for seed in range(seeds):
                values_N = share + between_seeds * rng.normal() + hard_N
                rows.append(row(model, seed, values_N.mean(), task=f't{t}'))
                cell = cells.Cell(f't{t}', model, seed, '', 2, 'mean')
                single[cell] = {'probe_accuracy': values_N + 0.1 * rng.normal(size=count)}
    return rows, single


def rejected(tests):
    """The share of tests with p <= 0.05 before correction, each a simulated study."""
    return np.mean([test['p'] <= 0.05 for test in tests])


def test_true_nulls_are_rejected_as_often_as_said_and_differences_are_found():
    """Seeds differ by 0.04: tests paired over sentences rejected 42 % of these nulls."""
    tests = findings.compare(*_with_deviations(simulated(1200, 5, gap=0.0)))['tests']
    assert len(tests) == 1200 and 0.04 <= rejected(tests) <= 0.06
    assert np.mean([between.is_sure(test) for test in tests]) == 0  # after Holm
    # 2 standard deviations of the paired difference.
    gap = 2 * np.sqrt(2) * 0.04
    tests = findings.compare(*_with_deviations(simulated(300, 5, gap=gap)))['tests']
    assert rejected(tests) >= 0.8
    assert all(test['low'] < test['difference'] < test['high'] for test in tests)


def _with_deviations(made):
    rows, single = made
    return rows, {}, single


@pytest.mark.parametrize('seeds', [5, 6, 8, 12])
def test_the_size_of_the_verdict_for_any_number_of_seeds(seeds):
    rng = np.random.default_rng(1)
    p = [significance.over_seeds(*rng.normal(size=(2, seeds))).p for _ in range(1500)]
    assert 0.03 <= np.mean(np.array(p) <= 0.05) <= 0.06


def test_the_verdict_is_the_paired_t_test_and_sign_flips_from_eight():
    rng = np.random.default_rng(2)
    for seeds in (5, 7, 8):
        first_S, second_S = rng.normal(size=(2, seeds)) + [[0.5], [0]]
        found = significance.over_seeds(first_S, second_S)
        theirs = stats.ttest_rel(first_S, second_S)
        ends = theirs.confidence_interval(0.95)
        assert found.low == pytest.approx(ends.low)
        assert found.high == pytest.approx(ends.high)
        expected = theirs.pvalue
        if seeds == 8:
            assert found.test == 'sign flips'
            expected = significance.sign_flip(first_S, second_S)
        assert found.p == pytest.approx(expected)
    # Where 2^-7 times the number of tests can never be small enough, the t-test.
    many = significance.over_seeds(first_S, second_S, tests=7)
    assert many.test == 't-test' and many.p == pytest.approx(theirs.pvalue)


def test_what_differs_by_rounding_or_not_at_all_is_no_difference():
    same_S = np.array([0.1, 0.2, 0.3, 0.4, 0.7])
    assert significance.over_seeds(same_S, same_S).p == 1
    assert significance.over_seeds(same_S + 1e-16, same_S).p == 1
    assert significance.over_seeds(same_S + 1, same_S).p == 0


@pytest.mark.parametrize('seeds', [1, 2, 4])
def test_fewer_than_five_seeds_give_no_verdict(seeds):
    rows, single = simulated(2, seeds, gap=0.5)
    found = findings.compare(rows, {}, single)
    for test in found['tests']:
        count = f'{seeds} seed' + 's' * (seeds > 1)
        assert test['verdict'] == f'no verdict: {count}, 5 needed'
        assert np.isnan([test['p'], test['p_holm']]).all() and test['low'] > 0
        assert test['over'].startswith('over texts')
    said = verdicts.headline(found)
    assert 'no verdict' in said and 'remain after correction' not in said
    table = verdicts.differences(found | {'tasks': [{'name': 't0'}]})['table']
    assert all(row[-1] == test['verdict'] for row in table['rows'])


def test_seeds_are_paired_by_their_number():
    """What a seed does to both models, as its order of the rows does, cancels."""
    rng, rows = np.random.default_rng(3), []
    for seed in range(6):
        shared = 0.2 * rng.normal()
        for model, share in (('a', 0.6), ('b', 0.5)):
            value = share + shared + 0.01 * rng.normal()
            rows.append(row(model, seed, value))
    rows = rows[:-1]  # seed 5 has only one of them
    rng.shuffle(rows)
    (test,) = findings.compare(rows, {}, {})['tests']
    assert test['seeds'] == 5 and test['p'] < 1e-3
    assert test['verdict'].startswith('a is above b (p = ')
    apart = [one | dict(seed=one['seed'] + 9 * (one['model'] == 'b')) for one in rows]
    (test,) = findings.compare(apart, {}, {})['tests']
    assert test['verdict'] == 'no verdict: 0 seeds, 5 needed'


def test_a_model_beside_its_control_is_told_as_one_training_run():
    rows = [row('a', 0, 0.5), row('a', 0, 0.6, control=controls.UNTRAINED)]
    found = findings.compare(rows, {}, {})
    assert 'Over texts, this one training run' in found['warnings'][0]['words']
    said = verdicts.headline(found)
    assert said.startswith('Worse than untrained on t: `a` (probe accuracy 0.500 against')
    rows = [one | dict(seed=seed) for one in rows for seed in range(6)]
    words = findings.compare(rows, {}, {})['warnings'][0]['words']
    assert 'Over texts and 6 training runs, described: no verdict' in words
    rows = [row('a', 0, 0.6), row('a', 0, 0.6, control=controls.UNTRAINED)]
    assert findings.compare(rows, {}, {})['worse'] == []


def shapes(uniformity, rank, nearness, **changes):
    values = dict(uniformity=uniformity, effective_rank=rank, class_alignment=nearness)
    return [
        row('a', 0, value, metric=metric, form='raw', **changes)
        for metric, value in values.items()
    ]


@pytest.mark.parametrize(
    ('uniformity', 'rank', 'merits'),
    [
        (-2.6, 40.0, {'uniformity', 'effective_rank', 'class_alignment'}),
        (-0.5, 40.0, {'effective_rank'}),  # nearer, as all texts are
        (-1e-6, 90.0, set()),  # collapsed: the rank is that of rounding errors
        (-2.6, 1.0, set()),
    ],
)
def test_where_all_texts_lie_close_together_nearness_is_no_merit(
    uniformity, rank, merits
):
    rows = shapes(uniformity, rank, 0.2)
    rows += shapes(-2.0, 30.0, 0.9, control=controls.UNTRAINED)
    found = findings.compare(rows, {}, {})
    beyond = {one['metric'] for one in found['examined'] if one['beyond']}
    assert beyond == merits
    collapsed = uniformity > -1e-3 or rank < 1.5
    assert found['collapsed'] == [('t', 'a')] * collapsed
    assert verdicts.headline(found).startswith('Collapsed on t') == collapsed


def test_the_two_level_interval_is_no_test():
    """So it describes: over five seeds it leaves out far more than 5 % of true means."""
    rng = np.random.default_rng(4)
    outside = 0
    for seed in range(200):
        values_SN = 0.04 * rng.normal(size=(5, 1)) + 0.1 * rng.normal(size=(5, 200))
        found = statistics.two_level_interval(values_SN, resamples=200, seed=seed)
        outside += not found.low <= 0 <= found.high
    assert outside / 200 > 0.06
    assert 'no test' in statistics.two_level_interval.__doc__
