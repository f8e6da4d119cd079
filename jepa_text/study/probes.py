"""Linear probes of a study, shown with their controls, and comparisons of recipes.

table, section     every probe with every control, for the terminal and the report
headline           runs whose vectors are worse than untrained, or have collapsed
between            differences between recipes
"""

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.measures import geometry, statistics
from jepa_text.study import arms as of_arms
from jepa_text.study import verdicts
from jepa_text.study.members import UNTRAINED

ONE_RUN = 'over texts, for this training run'
_KEY = 'representation/'


def table(results):
    """Returns (columns, rows): balanced accuracy of each probe, controls first."""
    found = results['probes']
    rows = [
        [label, *(probe['controls'][control][key] for probe in found.values())]
        for label, control, key in (
            (controls.LARGEST, controls.LARGEST, 'balanced'),
            ('  its share of sentences', controls.LARGEST, 'accuracy'),
            (controls.TF_IDF, controls.TF_IDF, 'balanced'),
        )
    ]
    for name, values in results['models'].items():
        rows.append([name, *(values[f'{_KEY}{probe}'] for probe in found)])
        bags = [values[f'{_KEY}{probe}_bag'] for probe in found]
        rows.append([f'  {controls.BAG} of {name}', *bags])
    return ['balanced accuracy', *found], rows


def section(results):
    """Returns the section of the report; None if the study asked for no probe."""
    heading, missing = 'Linear probes', _missing(results)
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
        'A probe is a logistic regression on frozen mean-pooled vectors. Its score is '
        'the balanced accuracy, the mean recall of the classes. Intervals are 95 %, '
        f'{ONE_RUN}; they do not cover the variation between seeds.'
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
    """Returns lines to print below the table: splits, counts and missing probes."""
    lines = [f'{name}: {_about(probe)}' for name, probe in results['probes'].items()]
    return [*lines, *filter(None, [_missing(results)])]


def headline(results):
    """Returns sentences about runs whose vectors are worse than those of the untrained
    network, have collapsed, or are not better than every control; '' if none are."""
    sentences, none_better, models = [], [], results['models']
    runs = {name: v for name, v in models.items() if name != UNTRAINED}
    if collapsed := [f'`{name}`' for name in runs if is_collapsed(runs[name])]:
        names = ', '.join(collapsed)
        sentences.append(f'Collapsed (vectors nearly equal or not finite): {names}.')
    for probe, found in results['probes'].items():
        key, floor = _KEY + probe, models[UNTRAINED]
        # NaN is never below; such runs are reported as collapsed.
        worse = [
            f'`{name}` ({values[key]:.3f})'
            for name, values in runs.items()
            if values[f'{key}_high'] < floor[f'{key}_low']
        ]
        if worse:
            names = ', '.join(worse)
            sentences.append(
                f'Worse than untrained ({floor[key]:.3f}) on {probe}: {names}.'
            )
        if not any(_is_better(values, key, found, floor) for values in runs.values()):
            none_better.append(probe)
    if none_better:
        names = ', '.join(none_better)
        sentences.append(f'No run is clearly better than every control on {names}.')
    return ' '.join(sentences)


def is_collapsed(values):
    """Whether the vectors of held-out rows have collapsed, by their geometry."""
    keys = ('geometry/uniformity', 'geometry/effective_rank')
    return geometry.is_collapsed(*(values[key] for key in keys))


def between(results):
    """Returns a section with verdicts on all pairs of recipes; None without any."""
    arms = of_arms.by_seed(results)
    metrics = (of_arms.LOSS, *(f'probe {name}' for name in results['probes']))
    decided = verdicts.decide(arms, verdicts.questions(arms, metrics))
    if not decided:
        return None
    return {
        'heading': 'Comparison of recipes',
        'text': 'Runs whose names only differ in a final number are seeds of one recipe. '
        f'A verdict needs {statistics.MIN_SEEDS} seeds of each recipe. It is a paired '
        't-test over seeds, or a test by sign flips from 8 seeds on, with the Holm '
        'correction.',
        'table': {
            'columns': ['first', 'second', 'metric', 'first − second', 'verdict'],
            'rows': [
                [
                    one.question.first,
                    one.question.second,
                    one.question.metric,
                    one.result.difference,
                    one.words,
                ]
                for one in decided
            ],
        },
    }


def _is_better(values, key, found, floor):
    reference = [control['balanced'] for control in found['controls'].values()]
    reference += [floor[key], values[f'{key}_bag']]
    return not is_collapsed(values) and values[f'{key}_low'] > np.nanmax(reference)


def _about(probe):
    text = (
        f'{probe["classes"]} classes; {probe["learned"]:,} training sentences, '
        f'{probe["scored"]:,} test sentences; {probe["split"]}.'
    )
    if probe['left_out']:
        text += f' {probe["left_out"]} sentences longer than a row are left out.'
    return text


def _missing(results):
    return ' '.join(
        f'No probe `{name}`: {why}' for name, why in results['no_probe'].items()
    )
