"""The report of a study with seeds: report.html, and the same as appendix.md.

Each mean has a 95 % interval over seeds and is shown with its controls. Verdicts are
from verdicts.py, claims from papers.py, and fairness checks from fairness.py.
"""

import dataclasses
import functools
import math
from collections import Counter
from pathlib import Path

import numpy as np

from jepa_text.measures import power
from jepa_text.report import page
from jepa_text.study import arms as of_arms
from jepa_text.study import (
    budgets,
    curves,
    fairness,
    papers,
    sweeps,
    time_to_target,
    verdict_sections,
    verdicts,
)
from jepa_text.study import outcomes as tables

TITLE = 'Comparison of training recipes over seeds'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """The data of a report.

    results    as of measure.Measuring.results
    configs    {member: its completed config}
    logs       {member: its metrics, or [] if they are missing}
    report     the section `report` of the config
    """

    results: dict
    configs: dict
    logs: dict
    report: dict

    @property
    def members(self):
        """{arm: [its members]}."""
        found = {}
        for member, (arm, _) in self.results['recipes'].items():
            found.setdefault(arm, []).append(member)
        return found

    @property
    def firsts(self):
        """{arm: the config of its first member}."""
        return {arm: self.configs[own[0]] for arm, own in self.members.items()}

    @functools.cached_property
    def spent(self):
        """{member: Budget}; traces one step per kind of phase."""
        return budgets.of_runs(self.configs)

    @property
    def first_spent(self):
        """{arm: the Budget of its first member}."""
        return {arm: self.spent[own[0]] for arm, own in self.members.items()}

    @functools.cached_property
    def timed(self):
        """The section on time to target; None without a target."""
        if not self.report.get('target'):
            return None
        arms = of_arms.by_seed(self.results)
        return time_to_target.section(
            self.report['target'], self.members, self.logs, self.spent, arms
        )


def has_seeds(results):
    """Whether a run of the study has several seeds."""
    counts = Counter(arm for arm, _ in results['recipes'].values())
    return max(counts.values(), default=0) > 1


def write(workdir, lead, sections):
    """Writes the result of `parts` to report.html and appendix.md in the workdir.

    Returns the path of report.html.
    """
    workdir = Path(workdir)
    path = workdir / 'report.html'
    page.write(path, title=TITLE, lead=lead, sections=sections)
    page.write_markdown(workdir / 'appendix.md', TITLE, lead, sections)
    return path


def parts(study):
    """Returns (headline, [section]) as page.write takes them."""
    arms, name = of_arms.by_seed(study.results), study.report.get('claims') or ''
    metrics = of_arms.outcomes(arms)
    known = papers.claims_of(name) if name else []
    questions = verdicts.questions(
        arms, metrics, study.report.get('compare') or (), papers.questions(known, arms)
    )
    decided = verdicts.decide(arms, questions)
    ruled = papers.rule(known, arms, decided)
    firsts = study.firsts
    sections = [
        _facts(arms, decided),
        verdict_sections.claims_section(ruled),
        tables.section(study.results, arms, metrics),
        study.timed,
        _curves(study, study.first_spent),
        _sweeps(arms, firsts, metrics),
        tables.spent(fairness.spent(study.spent, study.members, study.logs)),
        verdict_sections.verdicts_section(decided),
        tables.geometry(study.results, arms),
        tables.checked(
            fairness.checks(study.results['recipes'], study.configs, study.logs)
        ),
        tables.published(papers.published_rows(name) if name else []),
        {
            'heading': 'Versions and configs',
            'details': {'versions and machine': page.versions(), **firsts},
        },
    ]
    lead = headline(decided, ruled)
    if missing := ', '.join(study.results.get('missing', ())):
        lead += f' No results (nan in the tables, and no verdict): {missing}.'
    return lead, [part for part in sections if part]


def headline(decided, ruled):
    """Returns the main result: how many claims hold, and how many differences are
    significant."""
    sentences = []
    if ruled:
        counts = Counter(one.state for one in ruled)
        states = (papers.REPRODUCED, papers.CONTRADICTED, papers.OPEN)
        shown = ', '.join(f'{counts[state]} {state}' for state in states)
        sentences.append(f'Of {len(ruled)} claims: {shown}.')
    known = [one for one in decided if not one.why]
    sure = sum(one.is_sure for one in known)
    if known:
        sentences.append(
            f'Of {len(known)} comparisons, corrected together, {sure} show a significant '
            'difference over seeds.'
        )
    else:
        why = decided[0].why if decided else 'there is nothing to compare'
        sentences.append(f'No verdicts: {why}.')
    return ' '.join(sentences)


def _facts(arms, decided):
    members = sum(map(len, arms.values()))
    detectable = [
        one.detectable
        for one in decided
        if one.question.metric == of_arms.LOSS and math.isfinite(one.detectable)
    ]
    facts = [
        (f'{len(arms)}', 'runs'),
        (f'{of_arms.seeds(arms)}', 'seeds', f'{members} members'),
        (f'{sum(not one.why for one in decided)}', 'comparisons', 'corrected together'),
    ]
    if detectable:
        note = f'median, {power.ENOUGH:.0%} power'
        label = 'nats of masked loss are detectable'
        facts.append((f'{np.median(detectable):.3g}', label, note))
    return {'facts': facts}


def _curves(study, spent):
    drawn = curves.figures(study.members, study.logs, spent)
    if not drawn:
        return None
    text = (
        'Lines are means over seeds; bands span the range of the seeds. FLOPs are those '
        'of the model, forward and backward.'
    )
    sizes = budgets.tokens_per_step(spent)
    if len(sizes) == 1:
        text += (
            f' Each step reads {sizes.pop():,} tokens, so tokens have no figures of '
            'their own.'
        )
    return {'heading': 'Learning curves', 'text': text, 'figures': drawn}


def _sweeps(arms, firsts, metrics):
    kinds = {arm: sweeps.traits(config) for arm, config in firsts.items()}
    drawn = sweeps.figures(arms, kinds, metrics)
    if not drawn:
        return None
    text = 'Means over seeds with 95 % intervals, for runs that differ in one setting.'
    return {'heading': 'Sweeps', 'text': text, 'figures': drawn}
