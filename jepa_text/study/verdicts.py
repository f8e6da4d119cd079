"""Which arms of a study differ: all its comparisons, corrected together.

A comparison is decided before results are seen: by the config (`report.compare`), by the
claims that the study is about, or else it is every two arms. Each is paired over seeds by
measures.statistics.corrected, as in evaluation: Student's t, sign flips from eight seeds
on, Holm over all of the study, and no verdict below five seeds. A member whose value is
not finite leaves no verdict: runs that diverge are not left out of a mean.
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
    """Does `first` differ from `second` in a metric? Sides as arms.values takes them;
    `effect` is the difference that was published, of the same unit, or None."""

    first: Any
    second: Any
    metric: str
    effect: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer to a Question.

    found        statistics.OverSeeds: first minus second
    p            after Holm
    tests        how many were corrected together
    deviation    of the differences of pairs
    power        of showing the published effect; None where none is known, or no verdict
    detectable   the smallest difference that is shown with 80 % power; NaN where none is
    low, high    the interval at the level that Holm asks of the first: 1 - 0.05 / tests
    why          why there is no verdict; '' if there is one
    """

    asked: Question
    found: statistics.OverSeeds
    p: float
    tests: int
    deviation: float
    power: float | None
    detectable: float
    low: float
    high: float
    why: str

    @property
    def is_sure(self):
        """Is there a verdict, and is it a difference?"""
        return self.p <= 1 - statistics.LEVEL

    @property
    def words(self):
        """'a is above b (p = 0.01, 5 seeds)'."""
        if self.why:
            return f'no verdict: {self.why}'
        sides = [of_arms.said(side) for side in (self.asked.first, self.asked.second)]
        return comparisons.said(self.found, self.p, sides)


def check(compare, arms):
    """Raises ValueError for what is no pair of two arms."""
    for pair in compare:
        if len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(
                f'report.compare: {tuple(pair)} is not two runs, as (first, second).'
            )
        for name in pair:
            if name not in arms:
                raise ValueError(
                    f'report.compare has {name!r}, but the runs are {", ".join(arms)}.'
                )


def asked(arms, metrics, compare=(), also=()):
    """[Question] of a study, each once: those of its claims, `also`, and each of the
    `metrics` of each pair of arms in `compare`; of every two arms where neither is given.
    """
    pairs = compare or ([] if also else combinations(arms, 2))
    others = [Question(*pair, metric) for pair in pairs for metric in metrics]
    # The claims are first: theirs knows what was published.
    found = {}
    for question in (*also, *others):
        key = (str(question.first), str(question.second), question.metric)
        found.setdefault(key, question)
    return list(found.values())


def decide(arms, questions):
    """[Verdict] of all questions that both sides have an answer to, together."""
    kept = []
    for question in questions:
        try:
            sides = [
                of_arms.values(arms, side, question.metric)
                for side in (question.first, question.second)
            ]
        except LookupError:
            continue
        pair = np.array(statistics.paired(*sides), float)
        lost = int(np.sum(~np.isfinite(pair)))
        kept.append((question, pair[:, :0] if lost else pair, lost))
    found = statistics.corrected([pair for _, pair, _ in kept])
    tests = sum(bool(one.test) for one, _ in found)
    return [
        _verdict(question, pair, lost, one, p, tests)
        for (question, pair, lost), (one, p) in zip(kept, found)
    ]


def _verdict(question, pair, lost, found, p, tests):
    count, deviation = found.seeds, math.nan
    if count > 1:
        deviation = float(np.std(pair[0] - pair[1], ddof=1))
    why = ''
    if lost:
        why = f'{lost} value{"s" * (lost > 1)} not finite'
    elif not found.test:
        plural = '' if count == 1 else 's'
        why = f'{count} seed{plural}, {statistics.MIN_SEEDS} needed'
    of_all, could, detectable, reach = max(tests, 1), None, math.nan, math.nan
    # Where there is no verdict, nothing can be shown.
    if not why:
        detectable = power.detectable(deviation, count, tests=of_all)
    if not why and question.effect is not None:
        could = power.power(question.effect, deviation, count, tests=of_all)
    if count > 1:
        reach = power.critical(count, tests=of_all) * deviation / math.sqrt(count)
    return Verdict(
        asked=question,
        found=found,
        p=p,
        tests=tests,
        deviation=deviation,
        power=could,
        detectable=detectable,
        low=found.difference - reach,
        high=found.difference + reach,
        why=why,
    )
