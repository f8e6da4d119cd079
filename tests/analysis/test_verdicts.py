"""Verdicts between training methods: error rates, power, and their texts."""

import numpy as np
import pytest
from test_findings import row

from jepa_text.analysis import findings, verdicts
from jepa_text.analysis import results as measured
from jepa_text.evaluation import controls
from jepa_text.measures import statistics
from jepa_text.measures.statistics import Interval


def simulated(tasks, seeds, gap):
    """(rows, per_example): tasks on which two models differ by `gap` on average."""
    rng, rows, per_example = np.random.default_rng(0), [], {}
    for t in range(tasks):
        hard_N = 0.3 * rng.normal(size=30)
        for model, share in (('a', 0.7 + gap), ('b', 0.7)):
            for seed in range(seeds):
                values_N = share + 0.04 * rng.normal() + hard_N
                mean = values_N.mean()
                rows.append(row(model, 'probe_accuracy', mean, seed=seed, task=f't{t}'))
                result = measured.Result(f't{t}', model, seed, '', 2, 'mean')
                per_example[result] = {
                    'probe_accuracy': values_N + 0.1 * rng.normal(size=30)
                }
    return rows, per_example


def test_a_verdict_is_over_seeds_whatever_the_texts():
    """Seeds differ by 0.04: tests paired over texts rejected 42 % of nulls."""
    rows, per_example = simulated(3, 5, gap=0.02)
    tests = findings.compare(rows, {}, per_example)['tests']
    assert len(tests) == 3
    for test in tests:
        own = [row for row in rows if row['task'] == test['task']]
        sides = ([row['value'] for row in own if row['model'] == m] for m in 'ab')
        expected = statistics.over_seeds(*sides, tests=3)
        assert test['p'] == pytest.approx(expected.p)
        assert test['low'] < test['difference'] < test['high']
        assert test['p_holm'] >= test['p']


@pytest.mark.parametrize('seeds', [1, 2, 4])
def test_fewer_than_five_seeds_give_no_verdict(seeds):
    rows, per_example = simulated(2, seeds, gap=0.5)
    found = findings.compare(rows, {}, per_example)
    for test in found['tests']:
        count = f'{seeds} seed' + 's' * (seeds > 1)
        assert test['verdict'] == f'no verdict: {count}, 5 needed'
        assert np.isnan([test['p'], test['p_holm']]).all() and test['low'] > 0
        assert test['over'].startswith('over texts')
    text = verdicts.headline(found | dict(rows=rows))
    assert 'no verdict' in text and 'remain after correction' not in text
    table = verdicts.differences(found | {'tasks': [{'name': 't0'}]})['table']
    assert all(row[-1] == test['verdict'] for row in table['rows'])


def test_seeds_are_paired_by_their_number():
    """Effects of a seed on both models, such as the order of rows, cancel."""
    rng, rows = np.random.default_rng(3), []
    for seed in range(6):
        shared = 0.2 * rng.normal()
        for model, share in (('a', 0.6), ('b', 0.5)):
            value = share + shared + 0.01 * rng.normal()
            rows.append(row(model, 'probe_accuracy', value, seed=seed))
    rows = rows[:-1]  # seed 5 has only one of them
    rng.shuffle(rows)
    (test,) = findings.compare(rows, {}, {})['tests']
    assert test['seeds'] == 5 and test['p'] < 1e-3
    assert test['verdict'].startswith('a is above b (p = ')
    apart = [one | dict(seed=one['seed'] + 9 * (one['model'] == 'b')) for one in rows]
    (test,) = findings.compare(apart, {}, {})['tests']
    assert test['verdict'] == 'no verdict: 0 seeds, 5 needed'


def shapes(uniformity, rank, nearness, **changes):
    values = dict(uniformity=uniformity, effective_rank=rank, class_alignment=nearness)
    return [
        row('a', metric, value, form='raw', **changes) for metric, value in values.items()
    ]


@pytest.mark.parametrize(
    'uniformity, rank, merits',
    [
        (-2.6, 40.0, {'uniformity', 'effective_rank', 'class_alignment'}),
        (-0.5, 40.0, {'effective_rank'}),  # nearer, as all texts are
        (-1e-6, 90.0, set()),  # collapsed: the rank is that of rounding errors
        (-2.6, 1.0, set()),
    ],
)
def test_nearness_does_not_count_if_all_texts_are_close(uniformity, rank, merits):
    rows = shapes(uniformity, rank, 0.2)
    rows += shapes(-2.0, 30.0, 0.9, control=controls.UNTRAINED)
    found = findings.compare(rows, {}, {})
    beyond = {one['metric'] for one in found['examined'] if one['kind'] == 'beyond'}
    assert beyond == merits
    collapsed = uniformity > -1e-3 or rank < 1.5
    assert found['collapsed'] == [('t', 'a')] * collapsed
    said = verdicts.headline(found | dict(rows=rows))
    assert said.startswith('Collapsed on t') == collapsed


FOUND = Interval(-0.16, -0.19, -0.13)


def exactly(value):
    return Interval(value, value, value)


@pytest.mark.parametrize(
    'control, higher, p, kind',
    [
        (exactly(-0.15), False, None, 'unclear'),
        (exactly(-0.16), False, None, 'explained'),
        (exactly(-0.30), False, None, 'explained'),
        (exactly(-0.05), False, None, 'beyond'),
        (Interval(-0.10, -0.14, -0.06), False, None, 'unclear'),
        (exactly(-0.17), True, None, 'unclear'),
        (exactly(0.40), True, None, 'explained'),
        (exactly(-0.30), True, None, 'beyond'),
        (Interval(-0.25, -0.30, -0.18), True, None, 'unclear'),
        (FOUND, True, None, 'explained'),
        # A paired test decides, whether or not the intervals meet.
        (exactly(-0.17), True, 0.4, 'explained'),
        (exactly(-0.17), True, 6e-5, 'beyond'),
        (exactly(-0.30), True, 0.4, 'explained'),
        (exactly(-0.30), True, 6e-5, 'beyond'),
        (exactly(-0.15), True, 6e-5, 'explained'),
    ],
)
def test_control_explains_what_it_reaches(control, higher, p, kind):
    assert findings.conclusion(FOUND, control, higher, p) == kind
