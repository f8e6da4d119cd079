"""Claims of papers, and the rule by which a study decides them."""

import math

import pytest
from config_of import NAMES, shipped

from jepa_text.study import arms as of_arms
from jepa_text.study import papers, verdict_sections, verdicts

REPRODUCED, CONTRADICTED, OPEN = papers.REPRODUCED, papers.CONTRADICTED, papers.OPEN


@pytest.mark.parametrize('name', NAMES)
def test_every_claim_is_about_runs_that_its_study_has_at_every_scale(name):
    found = papers.claims_of(name)
    assert found
    for scale in ('paper', 'desk', 'smoke'):
        runs = {run['name'] for run in shipped(name, scale)['runs']}
        for claim in found:
            for side in (claim['first'], claim['second']):
                parts = [side] if isinstance(side, str) else side[of_arms.SPREAD]
                assert set(parts) <= runs, claim['id']


@pytest.mark.parametrize('name', NAMES)
def test_every_published_effect_is_of_one_row_each_and_as_claimed(name):
    for claim in papers.claims_of(name):
        assert claim['direction'] in ('better', 'worse', 'alike'), claim['id']
        effect = papers.effect(claim, claim['metrics'][0])
        if claim['direction'] == 'alike':
            assert claim['margin'] > 0
        elif effect is not None:
            lower = of_arms.is_lower_better(claim['metrics'][0])
            is_better = (effect < 0) == lower
            assert is_better == (claim['direction'] == 'better'), claim['id']
        assert papers.effect(claim, 'masked loss') is None


def test_known_effects():
    known = {claim['id']: claim for name in NAMES for claim in papers.claims_of(name)}
    assert papers.effect(known['quarter-42k'], 'SC') == pytest.approx(0.0085)
    assert papers.effect(known['clm-first-2k'], 'SC') == pytest.approx(0.0538)
    assert papers.effect(known['uniform'], 'uniformity') == pytest.approx(-0.1076)


(QUARTER,) = (claim for claim in papers.claims_of('pfs') if claim['id'] == 'quarter-42k')
METRICS = ['SC', 'probes', 'masked loss']
CLAIM = QUARTER | dict(first='a', second='b', metrics=METRICS, direction='better')


def arms(metric, difference, deviation, seeds=5):
    """Two arms whose differences have exactly this mean and deviation."""
    moved = [(n - (seeds - 1) / 2) for n in range(seeds)]
    size = math.sqrt(sum(x * x for x in moved) / (seeds - 1)) if seeds > 1 else 1.0
    first = {n: {metric: difference + deviation * moved[n] / size} for n in range(seeds)}
    return {'a': first, 'b': {n: {metric: 0.0} for n in range(seeds)}}


def ruled(claim, *made):
    found = {'a': {}, 'b': {}}
    for one in made:
        for arm, own in one.items():
            for seed, values in own.items():
                found.setdefault(arm, {}).setdefault(seed, {}).update(values)
    decided = verdicts.decide(found, papers.questions([claim], found))
    return papers.rule([claim], found, decided)[0]


WORSE = CLAIM | {'direction': 'worse'}
# Equality needs an interval within the margin, not only the lack of a difference.
EQUAL = CLAIM | {'direction': 'alike', 'margin': 0.02}


@pytest.mark.parametrize(
    'claim, metric, difference, deviation, seeds, state, why',
    [
        (CLAIM, 'SC', 0.0085, 0.001, 5, REPRODUCED, 'p = '),
        (CLAIM, 'SC', -0.0085, 0.001, 5, CONTRADICTED, 'p = '),
        # The published effect, 0.0085, would have been shown.
        (CLAIM, 'SC', 0.0, 0.002, 5, CONTRADICTED, 'no difference shown, with 100% p'),
        (CLAIM, 'SC', 0.0, 0.02, 5, OPEN, 'no difference shown, with 12% power'),
        # Just not shown, with a power of 92 %: the interval contains 0.0085.
        (CLAIM, 'SC', 0.0049, 0.005, 6, OPEN, 'not excluded'),
        (CLAIM, 'SC', 0.0085, 0.001, 4, OPEN, 'no verdict: 4 seeds, 5 needed'),
        (CLAIM, 'SC', 0.0085, 0.001, 1, OPEN, 'no verdict: 1 seed, 5 needed'),
        (CLAIM, 'SC', math.nan, 0.001, 5, OPEN, 'no verdict: 5 values not finite'),
        (CLAIM, 'masked loss', -0.3, 0.01, 5, REPRODUCED, ''),
        (CLAIM, 'masked loss', 0.3, 0.01, 5, CONTRADICTED, ''),
        (WORSE, 'masked loss', 0.3, 0.01, 5, REPRODUCED, ''),
        (WORSE, 'probes', 0.3, 0.01, 5, CONTRADICTED, ''),
        # Nothing was published in nats, so no difference shown decides nothing.
        (CLAIM, 'masked loss', 0.0, 0.001, 5, OPEN, 'no published effect in this unit'),
        (EQUAL, 'probes', 0.0, 0.004, 5, REPRODUCED, 'within'),
        (EQUAL, 'probes', 0.03, 0.004, 5, CONTRADICTED, 'beyond'),
        (EQUAL, 'probes', -0.03, 0.004, 5, CONTRADICTED, 'beyond'),
        (EQUAL, 'probes', 0.018, 0.004, 5, OPEN, 'neither within nor beyond'),
        (EQUAL, 'probes', 0.0, 0.03, 5, OPEN, 'neither within nor beyond'),
        (EQUAL, 'masked loss', 0.0, 0.004, 5, OPEN, 'no margin in this unit'),
        (CLAIM | {'second': 'c'}, 'SC', 0.1, 0.01, 5, OPEN, 'the study has no run c'),
        (CLAIM | {'metrics': ['QA']}, 'SC', 0.1, 0.01, 5, OPEN, 'a has no QA (seed 0)'),
    ],
)
def test_the_rule(claim, metric, difference, deviation, seeds, state, why):
    found = ruled(claim, arms(metric, difference, deviation, seeds))
    assert found.state == state and why in found.why


def test_a_difference_that_is_not_finite_is_a_dash():
    for difference, shown in ((math.nan, 'SC –'), (0.5, 'SC +0.500')):
        found = ruled(CLAIM, arms('SC', difference, 0.0010))
        (row,) = verdict_sections.claims_section([found])['table']['rows']
        assert shown in row


def test_a_claim_is_open_if_the_interval_is_on_its_side():
    """Sign flips show no difference (p = 0.06), but Student's interval excludes 0."""
    values = [0.006] * 5 + [-6e-5] * 3
    made = {
        'a': {seed: {'SC': value} for seed, value in enumerate(values)},
        'b': {seed: {'SC': 0.0} for seed in range(8)},
    }
    found = ruled(CLAIM, made)
    ((_, verdict),) = found.measured
    assert 0 < verdict.low < verdict.high < papers.effect(CLAIM, 'SC')
    assert verdict.result.test == 'sign flips' and not verdict.is_sure
    assert (found.state, found.why[-19:]) == (OPEN, 'interval excludes 0')


@pytest.mark.parametrize('dimensions, state', [(512, CONTRADICTED), (128, OPEN)])
def test_an_effect_on_ranks_counts_for_models_of_the_same_width(dimensions, state):
    (claim,) = (c for c in papers.claims_of('jepa_vs_mlm') if c['id'] == 'rank-max')
    (metric,) = claim['metrics']
    claim = claim | dict(first='a', second='b')
    made = arms(metric, 0.0, 0.1)
    wide = dict.fromkeys(range(5), {'dimensions': dimensions})
    failed = {'c': {0: {'dimensions': math.nan}}}  # has no results
    found = ruled(claim, made, {'a': wide, 'b': wide}, failed)
    assert (found.state, '512' in found.why) == (state, state == OPEN)


def test_the_metric_of_the_paper_decides_and_replacements_must_agree():
    loss, probe = arms('masked loss', -0.3, 0.01), arms('probes', -0.3, 0.01)
    own = arms('SC', 0.3, 0.01)
    assert ruled(CLAIM, loss, probe, own).state == REPRODUCED
    found = ruled(CLAIM, loss, probe)
    assert found.state == OPEN
    assert 'probes: contradicted' in found.why and 'masked loss: reproduced' in found.why
    assert ruled(CLAIM, loss, arms('probes', 0.3, 0.01)).state == REPRODUCED
