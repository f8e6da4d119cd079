"""Verdicts and claims of a study as sections of its page."""

import math

from jepa_text.measures import power, statistics
from jepa_text.study import arms as of_arms
from jepa_text.study import papers

RULE = (
    'A claim is reproduced where the difference is beyond seeds, after the correction '
    'for all comparisons of the study, and in the claimed direction; contradicted where '
    'it is in the other one, or where none is shown though the published one would have '
    f'been, with {power.ENOUGH:.0%} power, and the interval excludes it. Two are alike '
    'where the interval lies within the margin. All else is not resolvable here: a run '
    'or a measurement is missing, there is no verdict, or the power is too small. What '
    'the paper measured decides where it was measured here; else all that stands in for '
    'it must agree.'
)


def verdicts_section(decided):
    """All comparisons, with what could have been seen; None without any."""
    if not decided:
        return None
    tests = max(one.tests for one in decided)
    rows = [
        [
            *map(of_arms.said, (one.asked.first, one.asked.second)),
            one.asked.metric,
            _digits(one.found.difference, one.detectable),
            _ends(one.found.low, one.found.high),
            one.words,
            _digits(one.asked.effect),
            None if one.power is None else _share(one.power),
            _digits(one.detectable),
        ]
        for one in decided
    ]
    text = (
        "Student's paired t-test over seeds, or sign flips from "
        f'{statistics.FLIPPED_SEEDS} seeds on; p-values after Holm, {tests} together. '
        f'Below {statistics.MIN_SEEDS} seeds of both there is no verdict. Power: how '
        'often a difference as published would be shown, by this number of seeds and the '
        'deviation that was seen, at the level that Holm asks of the smallest p-value. '
        f'Detectable: what would be shown with {power.ENOUGH:.0%} power. Without '
        'a verdict neither is there, as nothing can be shown then.'
    )
    columns = ['first', 'second', 'of', 'first − second', '95 %', 'verdict']
    columns += ['published', 'power', 'detectable']
    return {
        'heading': 'Verdicts',
        'text': text,
        'table': {'columns': columns, 'rows': rows},
    }


def claims_section(ruled):
    """Each claim as a row, and the rule; None without any."""
    if not ruled:
        return None
    rows = [
        [
            one.claim['says'],
            f'{one.claim["paper"]}, {one.claim["where"]}',
            _published(one.claim),
            one.state,
            _measured(one),
            one.why,
        ]
        for one in ruled
    ]
    columns = ['claim', 'paper', 'published', 'here', 'measured', 'why']
    return {
        'heading': 'Claims',
        'text': RULE,
        'table': {'columns': columns, 'rows': rows},
    }


def _published(claim):
    found = papers.effect(claim, claim['metrics'][0])
    if found is None:
        margin = claim.get('margin')
        return None if margin is None else f'within ± {margin:g}'
    return _digits(found)


def _measured(ruling):
    return (
        '; '.join(
            f'{metric} {_digits(one.found.difference, one.detectable)}'
            for metric, one in ruling.measured
        )
        or None
    )


def _digits(value, beside=None):
    """A difference with its sign, by three digits of the larger of the two."""
    if value is None or not math.isfinite(value):
        return None
    sizes = [abs(x) for x in (value, beside) if x and math.isfinite(x)]
    places = 2 - math.floor(math.log10(max(sizes))) if sizes else 3
    return f'{value:+.{max(0, min(places, 8))}f}'.replace('-', '−')


def _ends(low, high):
    if math.isnan(low):
        return None
    return f'{_digits(low, high)} to {_digits(high, low)}'


def _share(value):
    return None if math.isnan(value) else f'{100 * value:.0f} %'
