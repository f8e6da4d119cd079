"""Sections of the report of a study: claims, verdicts, and whether they are fair."""

import math

from jepa_text.measures import power, statistics
from jepa_text.study import arms as of_arms
from jepa_text.study import papers

RULE = (
    'A claim is reproduced if the difference is significant over seeds, after correction '
    'for all comparisons of the study, and in the claimed direction. It is contradicted '
    'if the difference is significant in the other direction; or if no difference is '
    f'shown, the published effect would have been shown with {power.ENOUGH:.0%} power, '
    'and the interval contains 0 and excludes it. Two runs are alike if the interval '
    'lies within the margin. Everything else is not resolvable here: a run or a '
    'measurement is missing, there is no verdict, or the power is too small. The metric '
    'of the paper decides if it was measured here; otherwise all metrics that replace it '
    'must agree.'
)


def verdicts_section(decided):
    """Returns the section with all comparisons and their power; None without any."""
    if not decided:
        return None
    tests = max(one.tests for one in decided)
    rows = [
        [
            *map(of_arms.label, (one.question.first, one.question.second)),
            one.question.metric,
            _digits(one.result.difference, one.detectable),
            _ends(one.result.low, one.result.high),
            one.words,
            _digits(one.question.effect),
            None if one.power is None else f'{100 * one.power:.0f} %',
            _digits(one.detectable),
            one.needed,
        ]
        for one in decided
    ]
    text = (
        "Student's paired t-test over seeds, or sign flips from "
        f'{statistics.FLIPPED_SEEDS} seeds on; p-values after the Holm correction of '
        f'{tests} tests. Below {statistics.MIN_SEEDS} seeds of both runs there is no '
        'verdict. Power: how often a difference as large as the published one would be '
        'shown, with this number of seeds and the observed standard deviation, at the '
        'level that Holm requires of the smallest p-value. Detectable: the smallest '
        f'difference that would be shown with {power.ENOUGH:.0%} power. Both are missing '
        'if there is no verdict. Needed: the seeds with which a difference as measured '
        f'would be shown with this power; – if more than {power.MAX_SEEDS:,} or unknown.'
    )
    columns = ['first', 'second', 'metric', 'first − second', '95 %', 'verdict']
    columns += ['published', 'power', 'detectable', 'needed']
    return {
        'heading': 'Verdicts',
        'table': {'columns': columns, 'rows': rows, 'note': text},
    }


def claims_section(ruled):
    """Returns the section with one row per claim, and the rule; None without any."""
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
        'table': {'columns': columns, 'rows': rows, 'note': RULE},
    }


def budget_section(spent):
    """Returns the section with the budget of each arm, from fairness.spent; None without
    any."""
    if not spent:
        return None
    first = next(iter(spent.values()))
    rows = []
    for arm, values in spent.items():
        shares = [
            None if math.isnan(own) or math.isnan(base) else f'{own / base:.0%}'
            for own, base in zip(values, first)
        ]
        steps, tokens, flops, took = values
        hours = None if math.isnan(took) else f'{took / 3600:.3g}'
        cells = [f'{steps:,.0f}', f'{tokens:,.0f}', f'{flops:.3g}', hours]
        rows.append([arm, *(x for pair in zip(cells, shares) for x in pair)])
    columns = ['']
    for name in ('steps', 'tokens', 'FLOPs', 'hours'):
        columns += [name, f'of {next(iter(spent))}']
    return {
        'heading': 'Training budget',
        'text': 'Means over seeds. Tokens are positions in rows, including padding. '
        'Hours are those of the training steps alone, without evaluation and '
        'compilation, on this machine under its load at the time; they are missing if a '
        'seed has no log. Two runs are matched by the budgets that are equal. A run of '
        'which a seed has no results is left out.',
        'table': {'columns': columns, 'rows': rows},
    }


def fairness_section(checks):
    """Returns the section with the results of fairness.checks."""
    return {
        'heading': 'Fairness checks',
        'text': 'Runs of the same seed, compared by their logs and configs. Equal counts '
        'do not prove equal rows, but different rows would have shown up.',
        'table': {
            'columns': ['check', 'data', 'runs', 'result'],
            'rows': [list(check) for check in checks],
        },
    }


def _published(claim):
    effect = papers.effect(claim, claim['metrics'][0])
    if effect is None:
        margin = claim.get('margin')
        return None if margin is None else f'within ± {margin:g}'
    return _digits(effect)


def _measured(ruling):
    told = (
        f'{metric} {_digits(one.result.difference, one.detectable) or "–"}'
        for metric, one in ruling.measured
    )
    return '; '.join(told) or None


def _digits(value, beside=None):
    """Returns a difference with sign, to three digits of the larger of both values."""
    if value is None or not math.isfinite(value):
        return None
    sizes = [abs(x) for x in (value, beside) if x and math.isfinite(x)]
    places = 2 - math.floor(math.log10(max(sizes))) if sizes else 3
    return f'{value:+.{max(0, min(places, 8))}f}'.replace('-', '−')


def _ends(low, high):
    if math.isnan(low):
        return None
    return f'{_digits(low, high)} to {_digits(high, low)}'
