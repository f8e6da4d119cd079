"""What papers claim, and what a study has to say of it: papers.json, and the rule.

A claim is {id, paper, where, says, study, first, second, metrics, direction} and, where
there are, `published`: two selections of evaluation/results/published.py, of which the
difference is the published effect, or `margin`. `first` and `second` are runs of the
shipped study, or {'spread': [runs]}; `metrics` are as arms.py calls them: first what the
paper measured, then what stands in for it where that is not there. `direction`: is the
first 'better', 'worse' or 'alike'?

The rule, of one metric:

    reproduced     a difference beyond seeds, after Holm, in the claimed direction;
                   'alike': the interval lies within the margin
    contradicted   one in the other direction; or none is shown, where the published
                   effect would have been with 80 % power, and the interval excludes it;
                   'alike': the interval lies outside of the margin
    not resolvable here    all else: the study lacks a run or the metric, has no verdict,
                   or its power is too small

Intervals are those of 1 - 0.05 / comparisons. What the paper measured decides where it is
there; else everything that stands in for it must say the same.
"""

import dataclasses
import functools
from pathlib import Path
from typing import NamedTuple

from jepa_text.config import resolve, schema
from jepa_text.evaluation.results import published
from jepa_text.files import checksums
from jepa_text.measures import power
from jepa_text.study import arms as of_arms
from jepa_text.study import time_to_target as targets
from jepa_text.study import verdicts

REPRODUCED, CONTRADICTED = 'reproduced', 'contradicted'
OPEN = 'not resolvable here'
ALIKE = 'alike'
_NATS = (of_arms.LOSS, of_arms.CAUSAL)  # in which nothing was published


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reported:
    """The section `report` of a study: what is decided before there are results."""

    claims: str = schema.field('', 'of a shipped study: jepa_text/study/papers.json')
    compare: tuple[tuple, ...] = schema.field(
        (), 'pairs of runs; every two, where there are no claims either'
    )
    target: dict = schema.field(
        {}, "when a run comes to it: {'heldout/mlm_loss': 4.5}, by metrics of its log"
    )

    def __post_init__(self):
        targets.check(self.target)
        if self.claims:
            of(self.claims)


class Ruling(NamedTuple):
    """What a study says of a claim: `state`, of REPRODUCED, CONTRADICTED and OPEN; why,
    in words; [(metric, its Verdict)] of what was measured."""

    claim: dict
    state: str
    why: str
    measured: tuple = ()


def of(study):
    """The claims of a shipped study. Raises ValueError for a name that there is not."""
    known = _read()['studies']
    if study not in known:
        near = resolve.nearest(study, known)
        raise ValueError(f'report.claims={study!r} is no study of papers.json.{near}')
    return [claim for claim in _read()['claims'] if claim['study'] == study]


def beside(study):
    """The published rows of the tables that a shipped study repeats: means over tasks
    where a table has them."""
    tables = _read()['studies'][study]['tables']
    if not tables:
        return []
    rows = published.rows(table=tables)
    means = [row for row in rows if row['task'] in ('SC', 'TC', 'QA', 'IR')]
    return means or rows


def effect(claim, metric):
    """First minus second as published, a share where it is one; None if nothing was, in
    the unit of this metric."""
    if 'published' not in claim or metric in _NATS:
        return None
    first, second = (published.rows(**chosen) for chosen in claim['published'])
    if len(first) != 1 or len(second) != 1:
        raise ValueError(
            f'Claim {claim["id"]!r}: its sides are {len(first)} and {len(second)} '
            'published rows, where each is to be one.'
        )
    unit = 100 if first[0]['unit'] == '%' else 1
    return (first[0]['value'] - second[0]['value']) / unit


def questions(claims, arms):
    """[verdicts.Question] that the study can answer of its claims."""
    return [
        verdicts.Question(claim['first'], claim['second'], metric, effect(claim, metric))
        for claim in claims
        for metric in _measurable(claim, arms)[0]
    ]


def rule(claims, arms, decided):
    """[Ruling] of all claims, by the verdicts of a study."""
    found = {_key(one.asked): one for one in decided}
    return [_ruled(claim, arms, found) for claim in claims]


def ruling(claim, metric, verdict):
    """(state, why) of one metric of a claim."""
    if verdict.why:
        return OPEN, f'no verdict: {verdict.why}'
    low, high = verdict.low, verdict.high
    if claim['direction'] == ALIKE:
        return _alike(claim.get('margin'), metric, low, high)
    sign = -1 if of_arms.is_lower_better(metric) else 1
    sign = -sign if claim['direction'] == 'worse' else sign
    if isinstance(claim['first'], dict):
        sign = -1  # a spread, of whatever it is, is better smaller
    if verdict.is_sure:
        state = REPRODUCED if sign * verdict.found.difference > 0 else CONTRADICTED
        return state, f'{verdict.words.partition("(")[2].rstrip(")")}'
    expected = effect(claim, metric)
    if expected is None:
        return OPEN, 'no difference shown, and no published effect in this unit'
    count, tests = verdict.found.seeds, max(verdict.tests, 1)
    could = power.power(expected, verdict.deviation, count, tests=tests)
    if could < power.ENOUGH:
        return OPEN, f'no difference shown, by a power of {could:.0%} for the published'
    if low <= expected <= high:
        return OPEN, 'no difference shown, but the published one is not excluded'
    return CONTRADICTED, f'not shown, by a power of {could:.0%} for the published'


def _alike(margin, metric, low, high):
    if margin is None or metric in _NATS:
        return OPEN, 'no margin in this unit'
    if -margin < low and high < margin:
        return REPRODUCED, f'within ± {margin:g}'
    if high < -margin or low > margin:
        return CONTRADICTED, f'beyond ± {margin:g}'
    return OPEN, f'the interval is neither within nor beyond ± {margin:g}'


def _ruled(claim, arms, found):
    metrics, lacking = _measurable(claim, arms)
    if not metrics:
        return Ruling(claim, OPEN, lacking)
    measured = tuple((m, found[_key(_question(claim, m))]) for m in metrics)
    said = [ruling(claim, metric, verdict) for metric, verdict in measured]
    states = {state for state, _ in said}
    if len(said) == 1:
        return Ruling(claim, *said[0], measured)
    why = '; '.join(f'{m}: {state}, {why}' for m, (state, why) in zip(metrics, said))
    return Ruling(claim, states.pop() if len(states) == 1 else OPEN, why, measured)


def _measurable(claim, arms):
    """([the metrics by which it is judged here], why there is none)."""
    found, lacking = [], []
    for metric in claim['metrics']:
        try:
            for side in (claim['first'], claim['second']):
                of_arms.values(arms, side, metric)
            found.append(metric)
        except LookupError as error:
            lacking.append(str(error))
    first = claim['metrics'][0]
    return [first] if first in found else found, (lacking or [''])[0]


def _question(claim, metric):
    return verdicts.Question(claim['first'], claim['second'], metric)


def _key(question):
    return str(question.first), str(question.second), question.metric


@functools.cache
def _read():
    return checksums.read_json(Path(__file__).with_name('papers.json'))
