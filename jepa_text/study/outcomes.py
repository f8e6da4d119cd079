"""What the arms of a study reached and spent, as sections of its page."""

import math

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.evaluation.results import tables as result_tables
from jepa_text.report import bands
from jepa_text.study import arms as of_arms

UNTRAINED = 'untrained'
UNIGRAM = 'unigram entropy'
_PROBE = 'representation/'


def section(results, arms, metrics):
    """A row an arm, controls first, and a figure of each metric."""
    if not metrics:
        return None
    beside = {metric: beside_of(results, metric) for metric in metrics}
    known = {metric: of_arms.summary(arms, metric) for metric in metrics}
    bags = bags_of(results) if of_arms.PROBES in metrics else {}

    def row(name, seeds, bag, pair_of):
        """Two cells a metric; beside the probes the bag."""
        cells = [name, seeds]
        for metric in metrics:
            cells += pair_of(metric)
            cells += [bag] if bags and metric == of_arms.PROBES else []
        return cells

    columns = row('', 'seeds', 'bag of its embeddings', lambda m: [m, '± 95 %'])
    controls = dict.fromkeys(n for one in beside.values() for n in one)
    rows = [
        row(name, None, bags.get(name), lambda m, n=name: [beside[m].get(n), None])
        for name in controls
    ]
    rows += [
        row(arm, len(own), bags.get(arm), lambda m, a=arm: _cells(known[m].get(a)))
        for arm, own in arms.items()
    ]
    drawn = [
        bands.dots(
            {**_points(_near(beside[metric], metric, known[metric])), **known[metric]},
            metric[0].upper() + metric[1:],
            metric,
            beside[metric],
            list(arms),
        )
        for metric in metrics
        if known[metric]
    ]
    return {
        'heading': 'Outcomes',
        'text': _about(metrics),
        'table': {'columns': columns, 'rows': rows},
        'figures': drawn,
    }


def beside_of(results, metric):
    """{control: value} of what every arm stands beside."""
    untrained = of_arms.by_seed({**results, 'recipes': {UNTRAINED: (UNTRAINED, 0)}})[
        UNTRAINED
    ][0]
    found = {}
    if metric == of_arms.LOSS:
        found[UNIGRAM] = results['unigram']
    if metric == of_arms.PROBES:
        for name in (controls.LARGEST, controls.TF_IDF):
            values = [p['controls'][name]['balanced'] for p in results['probes'].values()]
            found[name] = float(np.mean(values))
    found |= results.get('examined', {}).get('beside', {}).get(metric, {})
    if metric in untrained:
        found[UNTRAINED] = untrained[metric]
    return found


def bags_of(results):
    """{arm, or untrained: what a bag of its own input embeddings reaches}, means over
    probes and seeds."""
    found = {}
    recipes = {UNTRAINED: (UNTRAINED, 0), **results['recipes']}
    for member, (arm, _) in recipes.items():
        values = results['models'][member]
        bags = [values[f'{_PROBE}{probe}_bag'] for probe in results['probes']]
        found.setdefault(arm, []).append(np.mean(bags))
    return {arm: float(np.mean(values)) for arm, values in found.items()}


def geometry(results, arms):
    """Uniformity and effective ranks with intervals; None where nothing was measured."""
    known = {metric: of_arms.summary(arms, metric) for metric in of_arms.GEOMETRY}
    known = {metric: of_arm for metric, of_arm in known.items() if of_arm}
    if not known:
        return None
    columns = ['']
    for metric in known:
        columns += [metric, '± 95 %']
    rows = [[UNTRAINED]]
    for metric in known:
        rows[0] += [beside_of(results, metric).get(UNTRAINED), None]
    for arm in arms:
        row = [arm]
        for metric in known:
            row += _cells(known[metric].get(arm))
        rows.append(row)
    return {
        'heading': 'Geometry',
        'text': 'Of held-out rows, mean-pooled if not said otherwise. The untrained '
        'encoder is what every row must be read against; no number here says that '
        'vectors are useful.',
        'table': {'columns': columns, 'rows': rows},
    }


def spent(found):
    """A row an arm of fair.spent: what each had, so what they are matched by."""
    first = next(iter(found.values()))
    rows = []
    for arm, values in found.items():
        shares = [_share(own, base) for own, base in zip(values, first)]
        steps, tokens, flops, took = values
        hours = None if math.isnan(took) else f'{took / 3600:.3g}'
        cells = [f'{steps:,}', f'{tokens:,.0f}', f'{flops:.3g}', hours]
        rows.append([arm, *(x for pair in zip(cells, shares) for x in pair)])
    columns = ['']
    for name in ('steps', 'tokens', 'FLOPs', 'hours'):
        columns += [name, f'of {next(iter(found))}']
    return {
        'heading': 'What each run had',
        'text': 'Tokens are places in rows; hours are those of the steps themselves, '
        'without evaluation and compiling, means over seeds, on this machine as it was. '
        'What two runs have alike, they are matched by.',
        'table': {'columns': columns, 'rows': rows},
    }


def checked(checks):
    """What was alike, as fair.checks found it."""
    return {
        'heading': 'Treated alike',
        'text': 'Runs of one seed against each other, by what logs and configs say. '
        'Equal counts do not prove equal rows, but other rows would have shown.',
        'table': {
            'columns': ['what', 'by', 'of', 'found'],
            'rows': [list(check) for check in checks],
        },
    }


def published(rows):
    """The paper's own values; None without any."""
    if not rows:
        return None
    columns = list(dict.fromkeys(f'{row["task"]}, {row["metric"]}' for row in rows))
    lines = {}
    for row in rows:
        cell = result_tables.cell_of(row)
        reach = '' if math.isnan(cell.reach) else f' ± {100 * cell.reach:.2f}'
        name = result_tables.named(row)
        text = f'{100 * cell.value:.2f}{reach}' if row['unit'] else f'{cell.value:g}'
        lines.setdefault(name, {})[f'{row["task"]}, {row["metric"]}'] = text
    return {
        'heading': 'Published beside it',
        'table': {
            'columns': ['published', *columns],
            'rows': [[name, *map(own.get, columns)] for name, own in lines.items()],
            'note': 'In percent where they are shares. Other models, text and tasks '
            'than here: directions can be compared, values cannot.',
            'fold': 'Values of the paper',
        },
    }


def _cells(interval):
    if interval is None:
        return [None, None]
    reach = interval.high - interval.value
    return [interval.value, None if math.isnan(reach) else reach]


def _near(beside, metric, known):
    """The controls in a picture of the arms: all, but of losses, which have no end, those
    at most three times as far off as arms and intervals reach; beside others, the arms
    could not be told apart."""
    if metric != of_arms.LOSS:
        return beside
    reached = [x for one in known.values() for x in one if math.isfinite(x)]
    low, high = min(reached), max(reached)
    reach = 3 * (high - low)
    return {n: v for n, v in beside.items() if low - reach <= v <= high + reach}


def _points(values):
    return {name: of_arms.mean([value]) for name, value in values.items()}


def _share(value, base):
    if math.isnan(value) or math.isnan(base):
        return None
    return f'{value / base:.0%}'


def _about(metrics):
    text = (
        'Means over seeds; ± is half of a 95 % interval by Student’s t. Controls first.'
    )
    if of_arms.LOSS in metrics:
        text += (
            ' Masked loss: nats per held-out token, 15 % masked, always the same ones; '
            'lower is better.'
        )
    if of_arms.PROBES in metrics:
        text += (
            ' Probes: balanced accuracy of logistic regression on frozen mean-pooled '
            'vectors, the mean over the probes.'
        )
    return text
