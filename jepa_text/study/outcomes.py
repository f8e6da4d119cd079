"""Sections of the report of a study: outcomes, probes, geometry and masked tokens.

Each arm is shown with the controls, and its means with their 95 % interval over seeds.
"""

import math

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.measures import geometry as shapes
from jepa_text.report import frequencies, plots
from jepa_text.study import arms as of_arms
from jepa_text.study.members import UNTRAINED
from jepa_text.training import heldout

UNIGRAM = 'unigram entropy'
_PROBE = 'representation/'


def section(results, arms, metrics):
    """Returns the section of outcomes: one row per arm, controls first; one figure per
    metric."""
    if not metrics:
        return None
    reference = {metric: control_values(results, metric) for metric in metrics}
    known = {metric: of_arms.summary(arms, metric) for metric in metrics}
    names = dict.fromkeys(name for one in reference.values() for name in one)
    rows = [[name, None] for name in names]
    rows += [[arm, len(own)] for arm, own in arms.items()]
    shown = {metric: _points(reference[metric]) | known[metric] for metric in metrics}
    beside = {}
    if of_arms.LOSS in metrics:
        beside[of_arms.LOSS] = _beside_loss(results, shown[of_arms.LOSS])
    if of_arms.PROBES in metrics:
        keys = [f'{_PROBE}{name}_bag' for name in results['probes']]
        bags = _means(results, lambda values: np.mean([values[key] for key in keys]))
        beside[of_arms.PROBES] = {'bag of its embeddings': bags}
    looks = plots.styles([*names, *arms], names)
    drawn = []
    for metric in metrics:
        near = _points(_nearby(reference[metric], metric, known[metric]))
        groups = {name: {name: one} for name, one in (near | known[metric]).items()}
        title = metric[0].upper() + metric[1:]
        if known[metric]:
            drawn.append(plots.dots(groups, title, metric, looks, has_legend=False))
    return {
        'heading': 'Outcomes',
        'text': _about(metrics, of_arms.seeds(arms)),
        'table': _table(['', 'seeds'], rows, shown, beside),
        'figures': drawn,
    }


def control_values(results, metric):
    """Returns {control: value} of a metric, to compare every arm with."""
    alone = {**results, 'recipes': {UNTRAINED: (UNTRAINED, 0)}, 'missing': {}}
    untrained, values = of_arms.by_seed(alone)[UNTRAINED][0], {}
    if metric == of_arms.LOSS:
        values[UNIGRAM] = results['unigram']
    if metric == of_arms.PROBES:
        for name in (controls.LARGEST, controls.TF_IDF):
            scores = [p['controls'][name]['balanced'] for p in results['probes'].values()]
            values[name] = float(np.mean(scores))
    values |= results.get('examined', {}).get('beside', {}).get(metric, {})
    if metric in untrained:
        values[UNTRAINED] = untrained[metric]
    return values


def geometry(results, arms):
    """Returns the section with uniformity and effective ranks; None if not measured."""
    known = {metric: of_arms.summary(arms, metric) for metric in of_arms.GEOMETRY}
    known = {metric: of_arm for metric, of_arm in known.items() if of_arm}
    if not known:
        return None
    shown = {
        metric: _points(control_values(results, metric)) | of_arm
        for metric, of_arm in known.items()
    }
    return {
        'heading': 'Geometry',
        'text': 'Of vectors of held-out rows, mean-pooled unless stated otherwise. '
        'Compare each row with the untrained encoder. None of these numbers shows that '
        'the vectors are useful.',
        'table': _table([''], [[name] for name in (UNTRAINED, *arms)], shown),
    }


def probes(results):
    """Returns the section of linear probes, each with all controls, of single runs.

    Intervals are over texts. None if the study asked for no probe.
    """
    heading, asked = 'Linear probes', results['probes']
    missing = [f'No probe `{name}`: {why}' for name, why in results['no_probe'].items()]
    if not asked:
        return {'heading': heading, 'text': ' '.join(missing)} if missing else None
    rows = [
        [label, *(f'{one["controls"][control][key]:.3f}' for one in asked.values())]
        for label, control, key in (
            (controls.LARGEST, controls.LARGEST, 'balanced'),
            ('  its share of sentences', controls.LARGEST, 'accuracy'),
            (controls.TF_IDF, controls.TF_IDF, 'balanced'),
        )
    ]
    for name, values in results['models'].items():
        ends = [
            [values[_PROBE + probe + end] for end in ('', '_low', '_high', '_bag')]
            for probe in asked
        ]
        texts = (f'{value:.3f} ({low:.3f} to {high:.3f})' for value, low, high, _ in ends)
        rows.append([name, *texts])
        rows.append([f'  {controls.BAG} of {name}', *(f'{bag:.3f}' for *_, bag in ends)])
    text = (
        'A probe is a logistic regression on frozen mean-pooled vectors. Its score is '
        'the balanced accuracy, the mean recall of the classes. Intervals are 95 %, over '
        'texts, for this training run; they do not cover the variation between seeds.'
    )
    about = [f'`{name}`: {_about_probe(probe)}' for name, probe in asked.items()]
    return {
        'heading': heading,
        'text': '\n\n'.join([text, *about, *missing]),
        'table': {'columns': ['balanced accuracy', *asked], 'rows': rows},
    }


def predictions(results):
    """Returns the section of the tokens that runs predict at a mask; None without."""
    said = results.get('predictions', ())
    names = list(dict.fromkeys(name for item in said for name in item['models']))
    rows = []
    for item in said:
        cells = [
            '   '.join(f'{token.strip()} {share:.0%}' for token, share in answers)
            for answers in (item['models'].get(name, ()) for name in names)
        ]
        rows.append([item['text'], item['answer'], *cells])
    return names and {
        'heading': 'Masked tokens',
        'text': 'The most probable tokens, with their probability.',
        'table': {'columns': ['text', 'answer', *names], 'rows': rows},
    }


def headline(results):
    """Returns the main result of single runs: that with the best masked loss, and by how
    much.

    Before it, runs whose vectors are worse than those of the untrained network, have
    collapsed, or are not better than every control; and those that are worse at masked
    tokens, or have learned nothing.
    """
    return f'{_vectors_headline(results)} {_losses_headline(results)}'.strip()


def is_collapsed(values):
    """Whether the vectors of held-out rows have collapsed, by their geometry."""
    keys = ('geometry/uniformity', 'geometry/effective_rank')
    return shapes.is_collapsed(*(values[key] for key in keys))


def _vectors_headline(results):
    sentences, none_better, models = [], [], results['models']
    runs = {name: v for name, v in models.items() if name != UNTRAINED}
    if collapsed := [name for name in runs if is_collapsed(runs[name])]:
        names = _names(collapsed)
        sentences.append(f'Collapsed (vectors nearly equal or not finite): {names}.')
    for probe, measured in results['probes'].items():
        key, floor = _PROBE + probe, models[UNTRAINED]
        # NaN is never below; such runs are reported as collapsed.
        worse = [
            f'`{name}` ({values[key]:.3f})'
            for name, values in runs.items()
            if values[f'{key}_high'] < floor[f'{key}_low']
        ]
        if worse:
            sentences.append(
                f'Worse than untrained ({floor[key]:.3f}) on {probe}: {", ".join(worse)}.'
            )
        if not any(_is_better(values, key, measured, floor) for values in runs.values()):
            none_better.append(probe)
    if none_better:
        names = ', '.join(none_better)
        sentences.append(f'No run is clearly better than every control on {names}.')
    return ' '.join(sentences)


def _is_better(values, key, measured, floor):
    reference = [control['balanced'] for control in measured['controls'].values()]
    reference += [floor[key], values[f'{key}_bag']]
    return not is_collapsed(values) and values[f'{key}_low'] > np.nanmax(reference)


def _losses_headline(results):
    scores = {n: heldout.masked_metric(v, 'loss') for n, v in results['models'].items()}
    scores = {name: loss for name, loss in scores.items() if loss is not None}
    runs = {name: loss for name, loss in scores.items() if name not in plots.BASELINES}
    if not runs:
        return 'No run predicts tokens, so there is no held-out loss.'
    unigram, floor = results['unigram'], scores.get(UNTRAINED, math.inf)
    worse = [name for name, loss in runs.items() if not loss < floor]
    idle = [name for name, x in runs.items() if not frequencies.is_better(x, unigram)]
    text = ''
    if worse:
        text += f'Worse than untrained at predicting masked tokens: {_names(worse)}. '
    if rest := [name for name in idle if name not in worse]:
        text += f'Learned nothing beyond token frequencies: {_names(rest)}. '
    # NaN sorts last.
    best = min(runs, key=lambda name: (math.isnan(runs[name]), runs[name]))
    return text + (
        f'On {results["heldout_tokens"]:,} held-out tokens, `{best}` predicts masked '
        f'tokens best: {runs[best]:.2f} nats per token, '
        f'{frequencies.compared(runs[best], unigram)} alone.'
    )


def _names(names):
    return ', '.join(f'`{name}`' for name in names)


def _table(columns, rows, shown, beside=None):
    """Returns a table whose rows begin with a name, and continue with its intervals.

    `shown` are {metric: {name: Interval}}, `beside` {metric: {column: {name: value}}} of
    what is next to them. Without seeds there are no columns of intervals.
    """
    columns, rows = list(columns), [list(row) for row in rows]

    def add(column, values):
        if any(value is not None for value in values.values()):
            columns.append(column)
            for row in rows:
                row.append(values.get(row[0]))

    for metric, of_name in shown.items():
        reach = {name: one.high - one.value for name, one in of_name.items()}
        add(metric, {name: one.value for name, one in of_name.items()})
        add('± 95 %', {n: None if math.isnan(x) else x for n, x in reach.items()})
        for column, values in (beside or {}).get(metric, {}).items():
            add(column, values)
    return {'columns': columns, 'rows': rows}


def _beside_loss(results, losses):
    compared = {
        name: frequencies.compared(one.value, results['unigram'])
        for name, one in losses.items()
        if name != UNIGRAM
    }
    accuracy = _means(results, lambda values: heldout.masked_metric(values, 'accuracy'))
    causal = _means(results, lambda values: values.get('heldout/clm_loss'))
    return {
        'against token frequencies': compared,
        'accuracy': accuracy,
        'causal loss': causal,
    }


def _means(results, value_of):
    """Returns {arm or 'untrained': mean over seeds of value_of(its values)}."""
    lists = {}
    for member, (arm, _) in {UNTRAINED: (UNTRAINED, 0), **results['recipes']}.items():
        lists.setdefault(arm, []).append(value_of(results['models'][member]))
    known = {arm: values for arm, values in lists.items() if None not in values}
    return {arm: float(np.mean(values)) for arm, values in known.items()}


def _nearby(reference, metric, known):
    """Returns the controls to show in a figure of the arms.

    For losses, which are unbounded, only those at most three times as far away as the
    range of the arms with their intervals; with others the arms could not be told apart.
    """
    if metric != of_arms.LOSS:
        return reference
    reached = [x for one in known.values() for x in one if math.isfinite(x)]
    if not reached:  # all arms diverged
        return reference
    low, high = min(reached), max(reached)
    reach = 3 * (high - low)
    return {n: v for n, v in reference.items() if low - reach <= v <= high + reach}


def _points(values):
    return {name: of_arms.mean([value]) for name, value in values.items()}


def _about(metrics, seeds):
    text = (
        'Means over seeds; ± is half the width of a 95 % interval by Student’s t. '
        'Controls first.'
    )
    if seeds == 1:
        text = (
            'Controls first. Each value is from a single run, so small differences may '
            'be noise between seeds.'
        )
    if of_arms.LOSS in metrics:
        text += (
            ' Masked loss: nats per token at the same 15 % masked held-out tokens for '
            'all, each predicted at the position where the objective predicts it (mntp: '
            'one position before); lower is better. The unigram entropy is the loss of a '
            'model that only knows the token frequencies.'
        )
    if of_arms.PROBES in metrics:
        text += (
            ' Probes: balanced accuracy of logistic regression on frozen mean-pooled '
            'vectors, averaged over the probes.'
        )
    return text


def _about_probe(probe):
    text = (
        f'{probe["classes"]} classes; {probe["learned"]:,} training sentences, '
        f'{probe["scored"]:,} test sentences; {probe["split"]}.'
    )
    if probe['left_out']:
        text += f' {probe["left_out"]} sentences longer than a row are left out.'
    return text
