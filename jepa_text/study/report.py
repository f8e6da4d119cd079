"""The report of a study: report.html, appendix.md with the same, and the terminal.

Each mean has a 95 % interval over seeds and is shown with its controls. Verdicts are
from verdicts.py, claims from papers.py, and fairness checks from fairness.py.
"""

import dataclasses
import functools
from collections import Counter
from pathlib import Path

from jepa_text.report import console, page
from jepa_text.running import metrics
from jepa_text.study import arms as of_arms
from jepa_text.study import (
    budgets,
    curves,
    fairness,
    outcomes,
    papers,
    sweeps,
    verdict_sections,
    verdicts,
)

# Columns of tables that are printed as lines.
_LINES = {
    'Verdicts': ('first', 'second', 'metric', 'verdict'),
    'Claims': ('here', 'claim'),
}


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
        members = {}
        for member, (arm, _) in self.results['recipes'].items():
            members.setdefault(arm, []).append(member)
        return members

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


def write(workdir, results, configs, section):
    """Writes report.html and appendix.md to the workdir; prints a summary.

    `section` is the section `report` of the config. Returns the path of report.html.
    """
    workdir = Path(workdir)
    # Only the result of a run is needed; its folder may be gone.
    logs = {
        name: metrics.read(workdir / name)
        if (workdir / name / metrics.FILE).is_file()
        else []
        for name in configs
    }
    study = Study(results=results, configs=configs, logs=logs, report=section)
    lead, sections = parts(study)
    title = 'Comparison of training recipes'
    path = page.write(workdir / 'report.html', title, lead, sections)
    page.write_markdown(workdir / 'appendix.md', title, lead, sections)
    _show(lead, sections)
    return path


def parts(study):
    """Returns (headline, [section]) as page.write takes them."""
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
    sections = [
        verdict_sections.claims_section(ruled),
        outcomes.section(results, arms, measured),
        _curves(study),
        _sweeps(arms, study.firsts, measured),
        verdict_sections.budget_section(fairness.spent(study.spent, study.members, logs)),
        verdict_sections.verdicts_section(decided),
        outcomes.geometry(results, arms),
        verdict_sections.fairness_section(fairness.checks(recipes, study.configs, logs)),
        verdict_sections.published_section(papers.published_rows(name) if name else []),
        {
            'heading': 'Versions and configs',
            'details': {'versions and machine': page.versions(), **study.firsts},
        },
    ]
    lead = headline(decided, ruled)
    for probe, why in results['no_probe'].items():
        lead += f' No probe `{probe}`: {why}'
    if missing := ', '.join(results.get('missing', ())):
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


def _show(lead, sections):
    """Prints the tables of means, a line per verdict and claim, and the headline."""
    tables = {one.get('heading'): one['table'] for one in sections if one.get('table')}
    if shown := tables.get('Outcomes'):
        console.table('Outcomes', shown['columns'], shown['rows'])
    for heading, shown in _LINES.items():
        if heading in tables:
            places = [tables[heading]['columns'].index(column) for column in shown]
            cells = ([row[place] for place in places] for row in tables[heading]['rows'])
            lines = (f'  {", ".join(start)}: {end}' for *start, end in cells)
            print(heading, *lines, sep='\n', end='\n\n')
    print(lead)


def _curves(study):
    drawn = curves.figures(study)
    text = (
        'Lines are means over seeds; bands span the range of the seeds. FLOPs are those '
        'of the model, forward and backward.'
    )
    sizes = budgets.tokens_per_step(study.first_spent)
    if len(sizes) == 1:
        text += (
            f' Each step reads {sizes.pop():,} tokens, so tokens have no figures of '
            'their own.'
        )
    return drawn and {'heading': 'Learning curves', 'text': text, 'figures': drawn}


def _sweeps(arms, firsts, measured):
    kinds = {arm: sweeps.traits(config) for arm, config in firsts.items()}
    drawn = sweeps.figures(arms, kinds, measured)
    text = 'Means over seeds with 95 % intervals, for runs that differ in one setting.'
    return drawn and {'heading': 'Sweeps', 'text': text, 'figures': drawn}
