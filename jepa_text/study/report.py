"""The report of a study: report.html, appendix.md with the same, and the terminal.

Each mean has a 95 % interval over seeds and is shown with its controls. Verdicts are
from verdicts.py, claims from papers.py, and fairness checks from fairness.py.
"""

import dataclasses
import functools
import math
from collections import Counter
from pathlib import Path

from jepa_text.measures import power
from jepa_text.report import console, page
from jepa_text.running import metrics
from jepa_text.study import arms as of_arms
from jepa_text.study import (
    budgets,
    curves,
    fairness,
    outcomes,
    papers,
    verdict_sections,
    verdicts,
)

SCORES, SHOWN = 3, 3  # metrics and differences that the answer tells


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """The data of a report.

    results    as of measure.results
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
        members = {}
        for member, (arm, _) in self.results['recipes'].items():
            members.setdefault(arm, []).append(member)
        return members

    @property
    def complete(self):
        """`members` of the arms that lack no member: a mean over the other seeds would be
        that of a selection."""
        lacking = {arm for arm, _ in self.results.get('missing', {}).values()}
        return {arm: own for arm, own in self.members.items() if arm not in lacking}

    @functools.cached_property
    def spent(self):
        """{member: Budget}; traces one step per kind of phase."""
        return budgets.of_runs(self.configs)

    @property
    def first_spent(self):
        """{arm: the Budget of its first member}."""
        return {arm: self.spent[own[0]] for arm, own in self.members.items()}


def write(workdir, results, configs, section):
    """Writes report.html and appendix.md to the workdir; prints a summary. `section` is
    the section `report` of the config. Returns the path of report.html."""
    workdir = Path(workdir)
    # Only the result of a run is needed; its folder may be gone.
    logged = {name for name in configs if (workdir / name / metrics.FILE).is_file()}
    logs = {n: metrics.read(workdir / n) if n in logged else [] for n in configs}
    study = Study(results=results, configs=configs, logs=logs, report=section)
    lead, sections = parts(study)
    title, what = 'Comparison of training recipes', compared(study)
    path = page.write(workdir / 'report.html', title, lead, sections, what)
    lead = f'{what}\n\n{lead}'
    page.write_markdown(workdir / 'appendix.md', title, lead, sections)
    if sections[0].get('heading') == 'Outcomes':
        table = sections[0]['table']
        console.table('Outcomes', table['columns'], table['rows'])
    print(lead)
    return path


def compared(study):
    """Returns what was compared: how many recipes of which size, trained for how long."""
    facts = {
        arm: {
            'parameters': one.parameters,
            'steps': one.steps,
            'tokens': one.tokens(one.steps),
            'seeds': len(study.members[arm]),
        }
        for arm, one in study.first_spent.items()
    }
    several = any(len(own) > 1 for own in study.members.values())
    sizes = page.amounts(facts.values()) + '; ± is 95 % over seeds' * several
    return f'{page.listed("recipe", facts)}, each with {sizes}.'


def parts(study):
    """Returns (the answer, [section]) as page.write takes them."""
    results, name = study.results, study.report.get('claims') or ''
    arms = of_arms.by_seed(results)
    measured = of_arms.outcomes(arms)
    known = papers.claims_of(name) if name else []
    questions = verdicts.questions(
        arms, measured, study.report.get('compare') or (), papers.questions(known, arms)
    )
    decided = verdicts.decide(arms, questions)
    ruled = papers.rule(known, arms, decided)
    recipes, logs = results['recipes'], study.logs
    firsts = {arm: study.configs[own[0]] for arm, own in study.members.items()}
    sections = [
        outcomes.section(results, arms, measured),
        verdict_sections.verdicts_section(decided),
        verdict_sections.claims_section(ruled),
        _curves(study),
        verdict_sections.budget_section(
            fairness.spent(study.spent, study.complete, logs)
        ),
        outcomes.geometry(results, arms),
        verdict_sections.fairness_section(fairness.checks(recipes, study.configs, logs)),
        {
            'heading': 'Versions and configs',
            'details': {'versions and machine': page.versions(), **firsts},
        },
    ]
    scores = [outcomes.sentence(results, arms, metric) for metric in measured]
    lead = ['\n'.join(filter(None, scores[:SCORES])), headline(decided, ruled)]
    lead += [f'No probe `{probe}`: {why}' for probe, why in results['no_probe'].items()]
    if lacking := ', '.join(_lacking(results, arms)):
        lead.append(
            'Results that are missing or not finite (nan in the tables, and no '
            f'verdict): {lacking}.'
        )
    return '\n\n'.join(filter(None, lead)), [part for part in sections if part]


def _lacking(results, arms):
    """Returns the members of which a metric is not finite."""
    members = results['recipes'] | results.get('missing', {})
    return [
        name
        for name, (arm, n) in members.items()
        if not all(map(math.isfinite, arms[arm][n].values()))
    ]


def headline(decided, ruled):
    """Returns the verdict: which differences are significant, how many seeds the others
    would need, and how many claims hold."""
    known = [one for one in decided if not one.why]
    sure = [one for one in known if one.is_sure]
    if known:
        text = (
            f'Of {len(known)} comparisons, corrected together, {len(sure)} show a '
            'significant difference over seeds'
        )
        told = (f'{one.question.metric}, {one.words}' for one in sure)
        text += f': {"; ".join(told)}.' if 0 < len(sure) <= SHOWN else '.'
    else:
        why = decided[0].why if decided else 'there is nothing to compare'
        text = f'No verdicts: {why}.'
    seeds = [one.needed for one in decided if not one.is_sure and one.deviation >= 0]
    others = f'The other {len(seeds)}' if sure else 'Differences'
    text = f'{text} {page.needed(others, seeds, power.MAX_SEEDS)}'.strip()
    if ruled:
        counts = Counter(one.state for one in ruled)
        states = (papers.REPRODUCED, papers.CONTRADICTED, papers.OPEN)
        shown = ', '.join(f'{counts[state]} {state}' for state in states)
        text += f' Of {len(ruled)} claims: {shown}.'
    return text


def _curves(study):
    drawn = curves.figures(study)
    text = (
        'Lines are means over seeds; bands span the range of the seeds. FLOPs are those '
        'of the model, forward and backward. A run of which a seed has no results or no '
        'log is left out.'
    )
    return drawn and {'heading': 'Learning curves', 'text': text, 'figures': drawn}
