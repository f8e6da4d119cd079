"""Claims of papers (papers.json), and how a study rules on them (verdict_sections.RULE).

A claim is {id, paper, where, says, study, first, second, metrics, direction} and, if
available, `published`: two selections of evaluation/results/published.py whose difference
is the published effect; or `margin`. If the effect depends on the width of the model, as
that on a rank does, `dimensions` is the published width. `first` and `second` are runs of
the shipped study, or {'spread': [runs]}. `metrics` are named as in arms.py: first the
metric of the paper, then metrics that replace it if it was not measured. `direction`:
'better', 'worse' or 'alike', of the first compared with the second. Intervals have the
level 1 - 0.05 / comparisons.
"""

import dataclasses
import functools
import math
from pathlib import Path
from typing import NamedTuple

from jepa_text.evaluation.results import published
from jepa_text.files import checksums
from jepa_text.measures import power
from jepa_text.settings import resolve, schema
from jepa_text.study import arms as of_arms
from jepa_text.study import verdicts

REPRODUCED, CONTRADICTED = 'reproduced', 'contradicted'
OPEN = 'not resolvable here'
ALIKE = 'alike'
_NATS = (of_arms.LOSS, of_arms.CAUSAL)  # metrics without published values


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reported:
    """The section `report` of a study, which is fixed before there are results."""

    claims: str = schema.field(
        '', 'shipped study whose claims are tested (study/papers.json)'
    )
    compare: tuple[tuple, ...] = schema.field(
        (), 'pairs of runs to compare; default: claims, or all pairs'
    )

    def __post_init__(self):
        if self.claims:
            claims_of(self.claims)


class Ruling(NamedTuple):
    """The ruling of a study on a claim: `state` is REPRODUCED, CONTRADICTED or OPEN,
    `why` the reason as text, `measured` are [(metric, its Verdict)]."""

    claim: dict
    state: str
    why: str
    measured: tuple = ()


def claims_of(study):
    """Returns the claims of a shipped study. Raises ValueError for an unknown name."""
    claims = _read()
    resolve.check_choice('report.claims', study, {claim['study'] for claim in claims})
    return [claim for claim in claims if claim['study'] == study]


def effect(claim, metric, arms=None):
    """Returns the published difference, first minus second, in the unit of a metric;
    percentages become shares. None if no value was published in this unit, or for vectors
    of other `dimensions` than those of the `arms` of a study."""
    if 'published' not in claim or metric in _NATS:
        return None
    width = claim.get('dimensions')
    if width and arms is not None and _dimensions(arms) != {width}:
        return None
    (first,), (second,) = (published.rows(**chosen) for chosen in claim['published'])
    unit = 100 if first['unit'] == '%' else 1
    return (first['value'] - second['value']) / unit


def questions(claims, arms):
    """Returns the [verdicts.Question] of claims that the study can answer."""
    return [
        verdicts.Question(
            claim['first'], claim['second'], metric, effect(claim, metric, arms)
        )
        for claim in claims
        for metric in _measurable(claim, arms)[0]
    ]


def rule(claims, arms, decided):
    """Returns [Ruling] on all claims, by the verdicts of a study."""
    by_question = {one.question.key: one for one in decided}
    return [_ruled(claim, arms, by_question) for claim in claims]


def ruling(claim, metric, verdict, arms):
    """Returns (state, why) of a claim by one of its metrics."""
    if verdict.why:
        return OPEN, f'no verdict: {verdict.why}'
    low, high = verdict.low, verdict.high
    if claim['direction'] == ALIKE:
        return _alike(claim.get('margin'), metric, low, high)
    sign = -1 if of_arms.is_lower_better(metric) else 1
    sign = -sign if claim['direction'] == 'worse' else sign
    if isinstance(claim['first'], dict):
        sign = -1  # a smaller spread is better, whatever the metric
    if verdict.is_sure:
        state = REPRODUCED if sign * verdict.result.difference > 0 else CONTRADICTED
        return state, f'{verdict.words.partition("(")[2].rstrip(")")}'
    expected = effect(claim, metric, arms)
    if expected is None:
        unit = 'in this unit'
        if 'dimensions' in claim:
            unit = f'for models of this width, but for {claim["dimensions"]} dimensions'
        return OPEN, f'no difference shown, and no published effect {unit}'
    count, tests = verdict.result.seeds, max(verdict.tests, 1)
    chance = power.power(expected, verdict.deviation, count, tests=tests)
    power_text = f'with {chance:.0%} power for the published effect'
    if chance < power.ENOUGH:
        return OPEN, f'no difference shown, {power_text}'
    if low <= expected <= high:
        return OPEN, 'no difference shown, but the published effect is not excluded'
    if not low <= 0 <= high:  # possible with sign flips, as the interval is Student's
        return OPEN, 'no difference shown, but the interval excludes 0'
    return CONTRADICTED, f'no difference shown, {power_text}'


def _alike(margin, metric, low, high):
    if margin is None or metric in _NATS:
        return OPEN, 'no margin in this unit'
    if -margin < low and high < margin:
        return REPRODUCED, f'within ± {margin:g}'
    if high < -margin or low > margin:
        return CONTRADICTED, f'beyond ± {margin:g}'
    return OPEN, f'the interval is neither within nor beyond ± {margin:g}'


def _ruled(claim, arms, by_question):
    metrics, lacking = _measurable(claim, arms)
    if not metrics:
        return Ruling(claim, OPEN, lacking)
    sides = claim['first'], claim['second']
    measured = tuple((m, by_question[verdicts.Question(*sides, m).key]) for m in metrics)
    rulings = [ruling(claim, metric, verdict, arms) for metric, verdict in measured]
    states = {state for state, _ in rulings}
    if len(rulings) == 1:
        return Ruling(claim, *rulings[0], measured)
    why = '; '.join(f'{m}: {state}, {why}' for m, (state, why) in zip(metrics, rulings))
    return Ruling(claim, states.pop() if len(states) == 1 else OPEN, why, measured)


def _measurable(claim, arms):
    """Returns (metrics by which a claim is judged here, why there are none)."""
    measurable, lacking = [], []
    for metric in claim['metrics']:
        try:
            for side in (claim['first'], claim['second']):
                of_arms.values(arms, side, metric)
            measurable.append(metric)
        except LookupError as error:
            lacking.append(str(error))
    first = claim['metrics'][0]
    return [first] if first in measurable else measurable, (lacking or [''])[0]


def _dimensions(arms):
    widths = {
        seed.get(of_arms.DIMENSIONS) for own in arms.values() for seed in own.values()
    }
    # Members without results have NaN.
    return {one for one in widths if one is None or math.isfinite(one)}


@functools.cache
def _read():
    return checksums.read_json(Path(__file__).with_name('papers.json'))['claims']
