"""What a study says of its vectors: probes beside their controls, and recipes over seeds.

table, section     every probe with every control, for the console and the page
headline           which runs are worse than untrained, or have collapsed
between            two recipes that were trained with several seeds: the verdict
"""

import math
from itertools import combinations

import numpy as np

from jepa_text.analysis import between as two_models
from jepa_text.evaluation import controls
from jepa_text.measures import geometry, statistics
from jepa_text.training.evals import heldout

UNTRAINED = 'untrained'
ONE_RUN = 'over texts, this one training run'
_KEY = 'representation/'


def table(results):
    """(columns, rows): balanced accuracy of each probe, controls first."""
    found = results['probes']
    rows = [[controls.LARGEST], ['  its share of the sentences'], [controls.TF_IDF]]
    for row, control, key in zip(
        rows,
        (controls.LARGEST, controls.LARGEST, controls.TF_IDF),
        ('balanced', 'accuracy', 'balanced'),
    ):
        row += [probe['controls'][control][key] for probe in found.values()]
    for name, values in results['models'].items():
        rows.append([name, *(values[f'{_KEY}{probe}'] for probe in found)])
        bags = [values[f'{_KEY}{probe}_bag'] for probe in found]
        rows.append([f'  {controls.BAG} of {name}', *bags])
    return ['balanced accuracy', *found], rows


def section(results):
    """A section of page.py; None where a study has no probe, and asked for none."""
    if not results['probes']:
        said = _missing(results)
        heading = 'What can be read off the vectors'
        return {'heading': heading, 'text': said} if said else None
    columns, rows = table(results)
    for name, values in results['models'].items():
        row = next(row for row in rows if row[0] == name)
        row[1:] = [_with_interval(values, probe) for probe in results['probes']]
    rows = [
        [row[0], *(x if isinstance(x, str) else f'{x:.3f}' for x in row[1:])]
        for row in rows
    ]
    text = (
        'A probe is logistic regression on mean-pooled frozen vectors; its score is the '
        'balanced accuracy, the mean over the classes of the share that is told right. '
        f'Intervals are 95 %, {ONE_RUN}: they say nothing about another seed.'
    )
    about = [f'`{name}`: {_about(probe)}' for name, probe in results['probes'].items()]
    said = headline(results)
    parts = [said, text, *about, _missing(results)]
    return {
        'heading': 'What can be read off the vectors',
        'text': '\n\n'.join(part for part in parts if part),
        'table': {'columns': columns, 'rows': rows},
    }


def notes(results):
    """Lines for the console under the table: splits, counts and what is missing."""
    lines = [f'{name}: {_about(probe)}' for name, probe in results['probes'].items()]
    return [*lines, *filter(None, [_missing(results)])]


def headline(results):
    """Sentences about runs whose vectors are worse than, or no better than, those of the
    untrained network and the other controls; '' if there is nothing to say."""
    said = []
    runs = {name: v for name, v in results['models'].items() if name != UNTRAINED}
    collapsed = [name for name, values in runs.items() if is_collapsed(values)]
    if collapsed:
        names = ', '.join(f'`{name}`' for name in collapsed)
        said.append(f'Collapsed, all vectors nearly equal or not finite: {names}.')
    none = []
    for probe, found in results['probes'].items():
        floor = results['models'][UNTRAINED]
        # NaN is not below anything: `collapsed` names it.
        worse = [
            f'`{name}` ({values[_KEY + probe]:.3f})'
            for name, values in runs.items()
            if values[f'{_KEY}{probe}_high'] < floor[f'{_KEY}{probe}_low']
        ]
        if worse:
            said.append(
                f'Worse than untrained ({floor[_KEY + probe]:.3f}) in {probe}: '
                f'{", ".join(worse)}.'
            )
        if not any(_is_beyond(values, probe, found, floor) for values in runs.values()):
            none.append(probe)
    if none:
        said.append(f'No run is clearly beyond every control in {", ".join(none)}.')
    return ' '.join(said)


def is_collapsed(values):
    """By the geometry of held-out rows."""
    keys = ('geometry/uniformity', 'geometry/effective_rank')
    return geometry.is_collapsed(*(values[key] for key in keys))


def between(results):
    """A section with the verdict on every two recipes; None where there is one run."""
    runs = results['recipes']
    recipes = {}
    for run, (recipe, seed) in runs.items():
        recipes.setdefault(recipe, {})[seed] = run
    if len(recipes) < 2:
        return None
    measured = [('masked loss', lambda values: heldout.masked(values, 'loss'))]
    measured += [
        (probe, lambda values, probe=probe: values[_KEY + probe])
        for probe in results['probes']
    ]
    compared = []
    for pair in combinations(recipes, 2):
        common = sorted(recipes[pair[0]].keys() & recipes[pair[1]].keys())
        for what, value in measured:
            sides = [
                [value(results['models'][recipes[name][seed]]) for seed in common]
                for name in pair
            ]
            if common and np.isfinite(np.array(sides, float)).all():
                compared.append((pair, what, sides))
    verdicts = statistics.corrected([sides for _, _, sides in compared])
    rows = [
        [*pair, what, one.difference, two_models.said(one, p, pair)]
        for (pair, what, _), (one, p) in zip(compared, verdicts)
    ]
    return {
        'heading': 'One recipe against another',
        'text': 'Runs whose names differ by a last number are seeds of one recipe. A '
        f'verdict takes {statistics.LEAST_SEEDS} seeds of each: a paired t-test over '
        'seeds, or sign flips from 8 on, corrected after Holm.',
        'table': {
            'columns': ['first', 'second', 'value', 'first − second', 'verdict'],
            'rows': rows,
        },
    }


def _is_beyond(values, probe, found, floor):
    reached = [one['balanced'] for one in found['controls'].values()]
    reached += [floor[_KEY + probe], values[f'{_KEY}{probe}_bag']]
    known = [x for x in reached if not math.isnan(x)]
    return not is_collapsed(values) and values[f'{_KEY}{probe}_low'] > max(known)


def _with_interval(values, probe):
    key = _KEY + probe
    low, high = values[f'{key}_low'], values[f'{key}_high']
    return f'{values[key]:.3f} ({low:.3f} to {high:.3f})'


def _about(probe):
    cut = (
        f' {probe["left_out"]} longer than a row are left out.'
        if probe['left_out']
        else ''
    )
    return (
        f'{probe["classes"]} classes; {probe["learned"]:,} sentences to learn from, '
        f'{probe["scored"]:,} scored; {probe["split"]}.{cut}'
    )


def _missing(results):
    return ' '.join(
        f'No probe `{name}`: {why}' for name, why in results['no_probe'].items()
    )
