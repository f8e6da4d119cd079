"""What a study says of its vectors: probes beside their controls, and recipes over seeds.

table, section     every probe with every control, for the console and the page
headline           which runs are worse than untrained, or have collapsed
between            two recipes that were trained with several seeds: the verdict
"""

from itertools import combinations

import numpy as np

from jepa_text.analysis import comparisons as two_models
from jepa_text.evaluation import controls
from jepa_text.measures import geometry, statistics
from jepa_text.training.evals import heldout

UNTRAINED = 'untrained'
ONE_RUN = 'over texts, this one training run'
_KEY = 'representation/'


def table(results):
    """(columns, rows): balanced accuracy of each probe, controls first."""
    found = results['probes']
    rows = [
        [label, *(probe['controls'][control][key] for probe in found.values())]
        for label, control, key in (
            (controls.LARGEST, controls.LARGEST, 'balanced'),
            ('  its share of the sentences', controls.LARGEST, 'accuracy'),
            (controls.TF_IDF, controls.TF_IDF, 'balanced'),
        )
    ]
    for name, values in results['models'].items():
        rows.append([name, *(values[f'{_KEY}{probe}'] for probe in found)])
        bags = [values[f'{_KEY}{probe}_bag'] for probe in found]
        rows.append([f'  {controls.BAG} of {name}', *bags])
    return ['balanced accuracy', *found], rows


def section(results):
    """A section of the page; None where a study has no probe, and asked for none."""
    heading, missing = 'What can be read off the vectors', _missing(results)
    if not results['probes']:
        return {'heading': heading, 'text': missing} if missing else None
    columns, rows = table(results)
    rows = [
        _with_intervals(results, row[0])
        if row[0] in results['models']
        else [row[0], *(f'{x:.3f}' for x in row[1:])]
        for row in rows
    ]
    text = (
        'A probe is logistic regression on mean-pooled frozen vectors; its score is the '
        'balanced accuracy, the mean over the classes of the share that is told right. '
        f'Intervals are 95 %, {ONE_RUN}: they say nothing about another seed.'
    )
    about = [f'`{name}`: {_about(probe)}' for name, probe in results['probes'].items()]
    return {
        'heading': heading,
        'text': '\n\n'.join(filter(None, [headline(results), text, *about, missing])),
        'table': {'columns': columns, 'rows': rows},
    }


def _with_intervals(results, name):
    row, values = [name], results['models'][name]
    for probe in results['probes']:
        key = _KEY + probe
        value, low, high = (values[key + end] for end in ('', '_low', '_high'))
        row.append(f'{value:.3f} ({low:.3f} to {high:.3f})')
    return row


def notes(results):
    """Lines for the console under the table: splits, counts and what is missing."""
    lines = [f'{name}: {_about(probe)}' for name, probe in results['probes'].items()]
    return [*lines, *filter(None, [_missing(results)])]


def headline(results):
    """Sentences about runs whose vectors are worse than, or no better than, those of the
    untrained network and the other controls; '' if there is nothing to say."""
    said, none, models = [], [], results['models']
    runs = {name: v for name, v in models.items() if name != UNTRAINED}
    if collapsed := [f'`{name}`' for name in runs if is_collapsed(runs[name])]:
        names = ', '.join(collapsed)
        said.append(f'Collapsed, all vectors nearly equal or not finite: {names}.')
    for probe, found in results['probes'].items():
        key, floor = _KEY + probe, models[UNTRAINED]
        # NaN is not below anything: `collapsed` names it.
        worse = [
            f'`{name}` ({values[key]:.3f})'
            for name, values in runs.items()
            if values[f'{key}_high'] < floor[f'{key}_low']
        ]
        if worse:
            names = ', '.join(worse)
            said.append(f'Worse than untrained ({floor[key]:.3f}) in {probe}: {names}.')
        if not any(_is_beyond(values, key, found, floor) for values in runs.values()):
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
    recipes = {}
    for run, (recipe, seed) in results['recipes'].items():
        recipes.setdefault(recipe, {})[seed] = results['models'][run]
    if len(recipes) < 2:
        return None
    compared = []
    for pair in combinations(recipes, 2):
        models = statistics.paired(*(recipes[name] for name in pair))
        for what in ('masked loss', *results['probes']):
            sides = [[_value(model, what) for model in side] for side in models]
            if models[0] and np.isfinite(np.array(sides, float)).all():
                compared.append((pair, what, sides))
    verdicts = statistics.corrected([sides for _, _, sides in compared])
    rows = [
        [*pair, what, one.difference, two_models.said(one, p, pair)]
        for (pair, what, _), (one, p) in zip(compared, verdicts)
    ]
    return {
        'heading': 'One recipe against another',
        'text': 'Runs whose names differ by a last number are seeds of one recipe. A '
        f'verdict takes {statistics.MIN_SEEDS} seeds of each: a paired t-test over '
        'seeds, or sign flips from 8 on, corrected after Holm.',
        'table': {
            'columns': ['first', 'second', 'value', 'first − second', 'verdict'],
            'rows': rows,
        },
    }


def _value(values, what):
    if what == 'masked loss':
        return heldout.masked(values, 'loss')
    return values[_KEY + what]


def _is_beyond(values, key, found, floor):
    reached = [one['balanced'] for one in found['controls'].values()]
    reached += [floor[key], values[f'{key}_bag']]
    return not is_collapsed(values) and values[f'{key}_low'] > np.nanmax(reached)


def _about(probe):
    cut = f' {probe["left_out"]} longer than a row are left out.'
    return (
        f'{probe["classes"]} classes; {probe["learned"]:,} sentences to learn from, '
        f'{probe["scored"]:,} scored; {probe["split"]}.' + cut * bool(probe['left_out'])
    )


def _missing(results):
    return ' '.join(
        f'No probe `{name}`: {why}' for name, why in results['no_probe'].items()
    )
