"""Learning rate selection, and comparison of models."""

import math

import numpy as np
import pytest
from scipy import stats

from jepa_text.evaluation.results import selection
from jepa_text.measures import statistics

RATES = (1e-5, 5e-5, 5e-4)


def line(rate, seed, validation, test, status='done', **given):
    """One member; the paper's values are 1 minus the standard ones."""
    sides = {
        side: {'standard': {'accuracy': x, 'mcc': 0.5}, 'paper': {'accuracy': 1 - x}}
        for side, x in (('validation', validation), ('test', test))
    }
    if status == 'not finite':
        sides = {'validation': None, 'test': None}
    made = {'model': 'a', 'task': 'sst2', 'kind': 'labels', 'metric': 'accuracy'}
    return made | {'learning_rate': rate, 'seed': seed, 'status': status} | sides | given


def grid(seeds=5, draw=0, rise=0.0, **given):
    """Members of all rates; mean validation is best at the middle rate."""
    rng, found = np.random.default_rng(draw), []
    for place, rate in enumerate(RATES):
        for seed in range(seeds):
            validation = 0.8 - 0.02 * abs(place - 1) + 0.015 * rng.random()
            test = 0.7 + 0.05 * rng.random() + rise
            found.append(line(rate, seed, validation, test, **given))
    return found


def test_the_rate_with_the_best_mean_validation_is_selected():
    lines = grid()
    (chosen,) = selection.select(lines)
    assert chosen.rate == 5e-5 and chosen.lost == ()
    test = [row['test']['standard']['accuracy'] for row in lines[5:10]]
    assert chosen.values() == dict(enumerate(test))
    low, high = stats.t.interval(0.95, 4, np.mean(test), stats.sem(test))
    assert chosen.interval() == pytest.approx((np.mean(test), low, high))
    everything = [row['test']['standard']['accuracy'] for row in lines]
    assert chosen.sensitivity == pytest.approx(np.std(everything, ddof=1))
    assert chosen.statuses['done'] == 15


def test_sensitivity_covers_the_given_rates():
    lines = grid()
    (chosen,) = selection.select(lines, rates=selection.PAPER_RATES)
    below = [row['test']['standard']['accuracy'] for row in lines[:10]]
    assert chosen.sensitivity == pytest.approx(np.std(below, ddof=1))
    # Seeds that only the best rate has would count it more than the others.
    (chosen,) = selection.select([*grid(2), *lines[7:10]])
    seeds = [row['test']['standard']['accuracy'] for row in grid(2)]
    assert len(chosen.members) == 5
    assert chosen.sensitivity == pytest.approx(np.std(seeds, ddof=1))
    (alone,) = selection.select(lines[:1])
    assert math.isnan(alone.sensitivity) and math.isnan(alone.interval().low)


def test_the_papers_metric_may_select_and_any_metric_is_returned():
    lines = [line(1e-5, 0, 0.9, 0.8), line(5e-5, 0, 0.2, 0.1)]
    (chosen,) = selection.select(lines, by='paper')
    assert chosen.rate == 5e-5 and chosen.values() == {0: 0.9}
    assert chosen.values(by='standard') == {0: 0.1}
    assert chosen.values('standard', 'mcc') == {0: 0.5}


def test_a_rate_with_a_lost_seed_is_not_selected():
    lines = grid()
    lines[6] = line(5e-5, 1, 0, 0, 'not finite')
    (chosen,) = selection.select(lines)
    assert len(chosen.members) == 5
    assert chosen.rate != 5e-5 and chosen.lost == ()
    assert chosen.statuses == {'done': 14, 'not finite': 1, 'collapsed': 0}
    # If every rate lost a seed, the best of those that lost the fewest.
    for place in (0, 5, 10, 11):
        lines[place] = line(lines[place]['learning_rate'], place % 5, 0, 0, 'not finite')
    (chosen,) = selection.select(lines)
    assert chosen.rate == 1e-5 and chosen.lost == (0,)


def test_seeds_that_only_one_rate_has_do_not_select_it():
    """Nor does one that is lost reject it, as the other rate has no such seed."""
    more = [line(1e-5, seed, 0.8, 0.5) for seed in range(5)]
    more[3] = line(1e-5, 3, 0, 0, 'not finite')
    for validation, rate, lost in ((0.9, 5e-5, (2, 3, 4)), (0.7, 1e-5, (3,))):
        few = [line(5e-5, seed, validation, 0.5) for seed in range(2)]
        (chosen,) = selection.select(more + few)
        assert (chosen.rate, chosen.lost) == (rate, lost)
    # Without a seed that all rates have, the rate with the most.
    (chosen,) = selection.select([*more, line(5e-5, 7, 0.9, 0.5)])
    assert chosen.rate == 1e-5


def test_a_model_without_finite_members_has_an_entry():
    lines = [line(rate, seed, 0, 0, 'not finite') for rate in RATES for seed in (0, 1)]
    (chosen,) = selection.select(lines)
    assert chosen.members == () and chosen.lost == (0, 1)
    assert math.isnan(chosen.interval().value) and chosen.statuses['not finite'] == 6
    (found,) = selection.compare([chosen, *selection.select(grid(model='b'))])
    assert found.verdict == 'no verdict'


def test_collapsed_members_count_with_their_values():
    lines = grid()
    lines[5] = line(5e-5, 0, 0.79, 0.5, 'collapsed')
    (chosen,) = selection.select(lines)
    assert chosen.values()[0] == 0.5 and chosen.statuses['collapsed'] == 1
    (chosen,) = selection.select([lines[5]])
    with pytest.raises(
        ValueError, match='collapsed, but its test standard macro_f1 is N'
    ):
        chosen.interval(metric='macro_f1')


def chosen_of(seeds=5, tasks=('sst2',)):
    rises = ('a', 0.0), ('b', 0.03), ('c', -0.1)
    return selection.select(
        [
            member
            for number, task in enumerate(tasks)
            for place, (model, rise) in enumerate(rises)
            for member in grid(seeds, 7 * number + place, rise, model=model, task=task)
        ]
    )


def test_models_are_compared_by_the_corrected_tests_of_their_seeds():
    chosen = chosen_of(tasks=('sst2', 'mnli'))
    found = selection.compare(chosen)
    assert [one[:3] for one in found[:2]] == [('sst2', 'a', 'b'), ('sst2', 'a', 'c')]
    values = {(one.task, one.model): [*one.values().values()] for one in chosen}
    sides = [[values[one.task, name] for name in one[1:3]] for one in found]
    assert len(found) == 6
    assert [(one.result, one.p) for one in found] == statistics.corrected(sides)
    assert found[1].verdict == 'a is better' and found[2].verdict == 'b is better'
    for one in found:
        assert (one.verdict == 'no difference shown') == (one.p > 0.05)


def test_verdicts_need_five_seeds_and_eight_flip_signs():
    (few,) = selection.compare(chosen_of(4)[:2])
    assert few.verdict == 'no verdict' and math.isnan(few.p)
    assert few.result.difference == pytest.approx(-0.03, abs=0.04)
    (many,) = selection.compare(chosen_of(8)[1:])
    assert many.result.test == 'sign flips' and many.result.p == 2 / 2**8


@pytest.mark.parametrize(
    'lines, message',
    [
        ([line(1e-5, x, 1, 1, item=x) for x in (0, 1)], 'seed 1 has other settings'),
        ([line(1e-5, 0, math.nan, 1)], 'its validation standard accuracy is nan'),
        ([line(1e-5, 0, 1, 1, metric='em')], 'standard em is None'),
    ],
)
def test_invalid_input_raises(lines, message):
    with pytest.raises(ValueError, match=message):
        selection.select(lines)
