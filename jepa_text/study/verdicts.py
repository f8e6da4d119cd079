"""Verdicts: which arms of a study differ; all comparisons are corrected together.

Comparisons are fixed before results are seen: by the config (`report.compare`), by the
claims of the study, or else every pair of arms. Each is paired over seeds by
measures.statistics.corrected, as in evaluation. A member with a non-finite value, or
without results, prevents a verdict: a run that diverged is never left out of a mean.
"""

import dataclasses
import math
from itertools import combinations
from typing import Any

import numpy as np

from jepa_text.analysis import comparisons
from jepa_text.measures import power, statistics
from jepa_text.study import arms as of_arms


@dataclasses.dataclass(frozen=True)
class Question:
    """Does `first` differ from `second`, sides as in arms.values, in a metric? `effect`
    is the published difference in the unit of the metric, or None."""

    first: Any
    second: Any
    metric: str
    effect: float | None = None

    @property
    def key(self):
        """What is asked, whatever was published."""
        return str(self.first), str(self.second), self.metric


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer to a Question.

    result       statistics.OverSeeds of first minus second
    p            p-value after Holm
    tests        number of tests that were corrected together
    deviation    standard deviation of the paired differences
    power        power to show the published effect; None without an effect or a verdict
    detectable   smallest difference that is shown with 80 % power; NaN without a verdict
    needed       seeds that show a difference as measured, if all questions are tested;
                 None beyond power.MAX_SEEDS, and if its deviation is unknown
    low, high    interval at the level that Holm requires of the smallest p-value:
                 1 - 0.05 / tests
    why          why there is no verdict; '' if there is one
    """

    question: Question
    result: statistics.OverSeeds
    p: float
    tests: int
    deviation: float
    power: float | None
    detectable: float
    needed: int | None
    low: float
    high: float
    why: str

    @property
    def is_sure(self):
        """Whether there is a verdict, and it is a difference."""
        return self.p <= 1 - statistics.LEVEL

    @property
    def words(self):
        """The verdict as text: 'a is above b (p = 0.01, 5 seeds)'."""
        if self.why:
            return f'no verdict: {self.why}'
        question = self.question
        sides = [of_arms.label(side) for side in (question.first, question.second)]
        return comparisons.verdict_text(self.result, self.p, sides)


def check(compare, arms):
    """Raises ValueError if an entry is not a pair of two different arms."""
    for pair in compare:
        if len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(
                f'report.compare: {tuple(pair)} is not a pair of runs (first, second).'
            )
        for name in pair:
            if name not in arms:
                known = ', '.join(map(str, arms))
                raise ValueError(
                    f'report.compare has {name!r}, but the runs are {known}.'
                )


def questions(arms, metrics, compare=(), claimed=()):
    """Returns the [Question] of a study, each once: those of its claims, `claimed`, and
    each of the `metrics` for each pair of arms in `compare`; if both are empty, for every
    pair."""
    pairs = compare or ([] if claimed else combinations(arms, 2))
    others = [Question(*pair, metric) for pair in pairs for metric in metrics]
    # Claims first: their questions have the published effects.
    unique = {}
    for question in claimed:
        unique.setdefault(question.key, question)
    for question in others:
        first, second, metric = question.key
        if (second, first, metric) not in unique:  # the same test, with another sign
            unique.setdefault(question.key, question)
    return list(unique.values())


def decide(arms, questions):
    """Returns [Verdict] of the questions whose metric both sides have."""
    compared = []
    for question in questions:
        try:
            sides = [
                of_arms.values(arms, side, question.metric)
                for side in (question.first, question.second)
            ]
        except LookupError:
            continue
        pair = np.array(statistics.paired(*sides), float)
        invalid = int(np.sum(~np.isfinite(pair)))
        compared.append((question, pair[:, :0] if invalid else pair, invalid))
    results = statistics.corrected([pair for _, pair, _ in compared])
    tests = sum(bool(result.test) for result, _ in results)
    return [
        _verdict(question, pair, invalid, result, p, tests, len(results))
        for (question, pair, invalid), (result, p) in zip(compared, results)
    ]


def _verdict(question, pair, invalid, result, p, tests, planned):
    count, deviation = result.seeds, math.nan
    if count > 1:
        deviation = float(np.std(pair[0] - pair[1], ddof=1))
    why = ''
    if invalid:
        why = f'{invalid} value{"s" * (invalid > 1)} not finite'
    elif not result.test:
        plural = '' if count == 1 else 's'
        why = f'{count} seed{plural}, {statistics.MIN_SEEDS} needed'
    corrected = max(tests, 1)
    effect_power, detectable, reach = None, math.nan, math.nan
    # Without a verdict, no difference could be shown.
    if not why:
        detectable = power.detectable(deviation, count, tests=corrected)
    if not why and question.effect is not None:
        effect_power = power.power(question.effect, deviation, count, tests=corrected)
    if count > 1:
        reach = power.critical(count, tests=corrected) * deviation / math.sqrt(count)
    return Verdict(
        question=question,
        result=result,
        p=p,
        tests=tests,
        deviation=deviation,
        power=effect_power,
        detectable=detectable,
        needed=power.seeds(result.difference, deviation, tests=planned),
        low=result.difference - reach,
        high=result.difference + reach,
        why=why,
    )
