"""Conclusions from values: intervals over seeds, controls, texts of the page."""

import math
import types

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jepa_text.analysis import figures, findings, measuring, page, probes, verdicts
from jepa_text.analysis import results as measured
from jepa_text.evaluation import controls
from jepa_text.evaluation.metrics import answers
from jepa_text.evaluation.sets import task as tasks
from jepa_text.measures import statistics
from jepa_text.report import progress


def row(model, metric, value, *, control='', form='', reach=0.01, **changes):
    made = dict(
        **dict(task='t', model=model, seed=0, control=control, layer=2),
        **dict(pooling='mean', form=form, metric=metric, value=value, count=9),
        **dict(low=value - reach, high=value + reach),
    )
    return made | changes


def bag(metric, value, **options):
    return row('a', metric, value, control=controls.BAG, layer=None, **options)


def test_interval_over_seeds_combines_seeds_and_texts():
    rows = [row('a', 'anisotropy', v, seed=s) for s, v in enumerate((0.1, 0.2, 0.3))]
    (mean,) = findings.over_seeds([*rows, row('b', 'anisotropy', 0.5)])
    assert mean['seed'] == 'mean' and mean['value'] == pytest.approx(0.2)
    # t with two degrees of freedom times 0.1 / sqrt 3, and 0.01 over texts.
    reach = math.hypot(4.303 * 0.1 / math.sqrt(3), 0.01)
    assert mean['high'] - mean['value'] == pytest.approx(reach, rel=1e-3)
    # For equal seeds it is that of one seed; unmeasured intervals are ignored.
    for count in (2, 3, 5):
        rows = [row('a', 'balance', 0.7, reach=0.1, seed=s) for s in range(count)]
        (mean,) = findings.over_seeds(rows)
        assert (mean['low'], mean['high']) == pytest.approx((0.6, 0.8))
    rows[0] |= dict(low=np.nan, high=np.nan)
    assert findings.over_seeds(rows)[0]['high'] == pytest.approx(0.8)
    rows = [one | dict(low=np.nan, high=np.nan) for one in rows]
    assert findings.over_seeds(rows)[0]['high'] == pytest.approx(0.7)


UNTRAINED = dict(control=controls.UNTRAINED)
ALONE = dict(layer=None, pooling='')
UNKNOWN = dict(low=np.nan, high=np.nan)


@pytest.mark.parametrize(
    'rows, control, reached',
    [
        (
            [
                row('a', 'probe_accuracy', 0.58, reach=0.06),
                row('a', 'probe_accuracy', 0.59, **UNTRAINED),
                bag('probe_accuracy', 0.71),
                row('', 'probe_accuracy', 0.96, control=controls.TF_IDF, **ALONE),
            ],
            controls.TF_IDF,
            0.96,
        ),
        (
            [
                row('a', 'uniformity', -1.0, form='raw'),
                row('a', 'uniformity', -1.5, form='raw', **UNTRAINED),
                bag('uniformity', -2.0, form='raw'),
            ],
            controls.BAG,
            -2.0,
        ),
        (
            [
                row('a', 'probe_mcc', -0.02),
                row('', 'probe_mcc', 0.0, control=controls.LARGEST, **ALONE, **UNKNOWN),
            ],
            controls.LARGEST,
            0.0,
        ),
        *(
            (
                [row('a', metric, value, form=form), bag(metric, 0.57, form=form)],
                controls.BAG,
                0.57,
            )
            for metric, form, value in (
                *(('word_recovery_auc', '', 0.54), ('balance', '', 0.54)),
                *(('cosine_given_overlap', '', 0.54), ('class_alignment', 'raw', 0.6)),
                ('distance_ratio', 'length_residualized', 0.6),
            )
        ),
    ],
)
def test_the_strongest_control_is_reported(rows, control, reached):
    (one,) = findings.compare(rows, {}, {})['examined']
    assert (one['control'], one['reached'], one['kind']) == (
        control,
        reached,
        'explained',
    )


def test_values_without_interval_or_control_are_not_beyond():
    ends = dict(low=np.nan, high=np.nan)
    value, other = (row('a', 'probe_accuracy', x, **ends) for x in (0.5, 0.6))
    found = findings.compare([value, other | dict(control=controls.UNTRAINED)], {}, {})
    assert [one['kind'] for one in found['examined']] == ['explained']
    found = findings.compare([value], {}, {})
    assert found['examined'] == []
    results = dict(found, rows=[value])
    assert verdicts.headline(results) == '`t`, probe accuracy: `a` 0.500.'
    undefined = value | dict(value=np.nan)
    found = findings.compare([undefined, bag('probe_accuracy', 0.5)], {}, {})
    assert found['examined'] == []


def test_the_headline_is_each_score_beside_its_strongest_control():
    rows = [row('a', 'probe_accuracy', 0.8), row('a', 'uniformity', -2.0, form='raw')]
    rows += [
        row('a', 'probe_accuracy', 0.7) | dict(control=controls.UNTRAINED),
        row('', 'probe_accuracy', 0.9, layer=None) | dict(control=controls.TF_IDF),
    ]
    said = verdicts.headline(findings.compare(rows, {}, {}) | dict(rows=rows))
    assert said == (
        '`t`, probe accuracy: `a` 0.800 ± 0.010; not better than the strongest control, '
        'TF-IDF, 0.900.'
    )


def test_the_paired_test_decides_whether_a_control_explains_a_value():
    base_N = (np.arange(872) < 0.68 * 872).astype(float)
    better_N = base_N.copy()
    better_N[-26:], better_N[:4] = 1.0, 0.0  # p = 6e-5, and the intervals meet
    other_N = np.random.default_rng(0).permutation(base_N)
    alone, together = [np.arange(872)], [np.minimum(np.arange(872), 872 - 26)]
    for control_N, keys, kind in (
        (base_N, alone, 'beyond'),
        (base_N, together, 'explained'),  # all of the gain is one text
        (other_N, alone, 'explained'),
    ):
        intervals = [statistics.mean_interval(x, 'share') for x in (better_N, control_N)]
        rows, per_example = [], {}
        for control, found, values_N in zip(
            ('', controls.UNTRAINED), intervals, (better_N, control_N)
        ):
            ends = dict(low=found.low, high=found.high)
            rows.append(row('a', 'probe_accuracy', found.value, control=control, **ends))
            result = measured.Result('t', 'a', 0, control, 2, 'mean')
            per_example[result] = {'probe_accuracy': values_N, probes.KEYS: keys}
        found = findings.compare(rows, {}, per_example)
        assert [one['kind'] for one in found['examined']] == [kind]


def test_seeds_that_read_different_texts_are_not_paired_by_texts():
    """As those whose tokenizers cut texts at different places."""
    rows, per_example = [], {}
    for control, value in (('', 0.7), (controls.UNTRAINED, 0.6)):
        for seed in (0, 1):
            own = dict(control=control, seed=seed)
            rows.append(row('a', 'word_recovery_auc', value, reach=0.2, **own))
            result = measured.Result('t', 'a', seed, control, 2, 'mean')
            per_example[result] = {'word_recovery_auc': np.full(9 - seed, value)}
    (one,) = findings.compare(rows, {}, per_example)['examined']
    assert one['kind'] == 'unclear'


def test_constant_predictions_have_the_metric_of_the_task():
    def baselines(metric, train, test):
        sides = [tasks.Examples(list(x), None, np.array(list(x))) for x in (train, test)]
        found = probes.baselines(tasks.Task('t', 'labels', metric, *sides))
        return {
            (control, name): pytest.approx(values.mean())
            for control, metrics in found.items()
            for name, values in metrics.items()
        }

    ones, zeros = '1' * 68 + '0' * 32, '0' * 68 + '1' * 32
    assert baselines('f1', ones, ones) == {
        ('largest class', 'probe_accuracy'): 0.68,
        ('largest class', 'probe_f1'): 2 * 0.68 / 1.68,
    }
    assert baselines('f1', zeros, zeros) == {
        ('largest class', 'probe_accuracy'): 0.68,
        ('largest class', 'probe_f1'): 0.0,
        ('always the second class', 'probe_f1'): 2 * 0.32 / 1.32,
    }
    # The best constant prediction on the test set, whatever is frequent in training.
    assert baselines('mcc', ones, zeros) == {
        ('largest class', 'probe_accuracy'): 0.68,
        ('largest class', 'probe_mcc'): 0.0,
    }


@pytest.mark.parametrize('names', [('0', '1'), ('no', 'yes'), ('a', 'b', 'c'), (2, 10)])
@pytest.mark.parametrize('metric', ['f1', 'mcc'])
def test_probes_have_the_metric_of_evaluation(names, metric, rng):
    """That of the second of two classes; of more, the accuracy alone."""
    gold_N = rng.choice(names, 90)
    predicted_N = np.where(rng.random(90) < 0.7, gold_N, rng.choice(names, 90))
    part = tasks.Examples(['x'] * 90, None, gold_N)
    found = probes._per_example(
        tasks.Task('t', 'labels', metric, part, part), predicted_N
    )
    expected = answers.measure('labels', gold_N, predicted_N, names).standard
    wanted = {'accuracy', metric} if len(names) == 2 else {'accuracy'}
    assert {name: values.mean() for name, values in found.items()} == {
        f'probe_{name}': pytest.approx(expected[name]) for name in wanted
    }


def test_texts_are_unique_and_pairs_are_drawn_together(rng):
    first, second = ([f'{side}{n}' for n in range(20)] for side in 'ab')
    part = tasks.Examples(
        first * 2, second + second[1:] + second[:1], np.repeat([1.0, 0.0], 20)
    )
    unique = measured.unique_texts(
        tasks.Task('t', 'scores', 'spearman', part, part, positive=1.0)
    )
    texts = part.texts()
    assert len({texts[i] for i in unique.index_M}) == len(unique.index_M) == 40
    assert [texts[unique.index_M[i]] for i in unique.positives_P2[3]] == ['a3', 'b3']
    assert all(texts[i][1:] == str(u) for i, u in zip(unique.index_M, unique.units_M))
    # Near copies: the two texts of a pair are not independent.
    one_ND = rng.normal(size=(100, 4)) * np.linspace(2, 0.5, 4)
    rows_ND = np.concatenate([one_ND, one_ND + 0.01 * rng.normal(size=(100, 4))])
    lengths_N1, widths = rng.integers(5, 9, (200, 1)), []
    for units_N in (None, np.tile(np.arange(100), 2)):
        found, _ = measured.geometry_values(
            rows_ND, lengths_N1, half_samples=32, units_N=units_N
        )
        widths.append(np.ptp(found['uniformity', 'raw'][1:]))
    assert 1.15 < widths[1] / widths[0] < 2


def test_measured_layers_keep_their_numbers(rng):
    found = measuring.Measurements(dict(poolings=['mean'], seed=0), [], None, None)
    found.tasks = [types.SimpleNamespace(name='t')]
    found.last['a', 0] = {layer: rng.normal(size=(9, 3)) for layer in (0, 4)}
    with progress.Progress('', 1) as found.progress:
        (one,) = found.similarity()
    assert one['sides'] == [['a', 0]] * 2 and one['layers'] == [[0, 4]] * 2
    assert_allclose(np.diag(one['values']), 1)


def test_untrained_control_differs_for_each_seed(monkeypatch):
    seeds = []
    monkeypatch.setattr(controls, 'untrained', lambda _, seed: seeds.append(seed))
    config = dict(controls=[controls.UNTRAINED], seed=5, poolings=['mean'])
    found = measuring.Measurements(config, [], None, None)
    for seed in (0, 1, 2):
        found.model(None, 'a', seed)
    assert len(set(seeds)) == 3


def test_single_class_test_set_has_no_balance():
    rng, words = np.random.default_rng(0), [f'word{n}' for n in range(100)]
    texts = [' '.join(rng.choice(words, 4)) for _ in range(240)]
    train = tasks.Examples(texts[:210], None, np.array(list('aab') * 70))
    sides = [(rng.normal(size=(count, 3)), None) for count in (210, 30)]
    found = []
    for labels in ('a' * 30, 'ab' * 15):
        test = tasks.Examples(texts[210:], None, np.array(list(labels)))
        task = tasks.Task('t', 'labels', 'accuracy', train, test)
        found.append(probes.evaluate(task, sides))
    assert 'balance' not in found[0][0] and 'balance' in found[1][0]
    (values, per_example) = found[0]
    assert per_example['word_recovery_auc'].mean() == values['word_recovery_auc'].value


def test_last_layer_is_named_only_if_measured():
    rows = [row(model, 'balance', 0.5, layer=n) for model, n in (('a', 3), ('b', 2))]

    def named(*layers):
        return figures.deepest(dict(rows=rows, config=dict(layers=layers)))

    assert named() == named(0, -1) == 'the last layer'
    assert named(0, 3) == 'layer 2 or 3'


def test_methods_describe_the_config():
    config = dict(controls=['TF-IDF'], half_samples=0, train=7, test=9, seed=1)
    config |= dict(poolings=['mean'])
    text = ' '.join(page.methods(config).split())
    assert 'Controls: TF-IDF.' in text and 'random initialization' not in text
    assert 'Geometry has none.' in text and '0 random half-samples' not in text
    text = page.methods(config | dict(controls=[], half_samples=16))
    assert 'There are no controls.' in text and '16 random half-samples' in text


def test_plane_is_drawn_only_for_complete_forms():
    models = dict(path=('a', 0))
    rows = [
        row('a', metric, -1.0, form=form)
        for metric in ('uniformity', 'alignment')
        for form in ('raw', 'length_residualized')
        if (metric, form) != ('alignment', 'length_residualized')
    ]
    results = dict(rows=rows, models=models, spectra=[])
    results['config'] = dict(layers=[], poolings=['mean'])
    drawn = figures.geometry(dict(name='t'), results)
    titles = [one.get_suptitle() for one in drawn]
    assert 'Alignment and uniformity, raw' in titles
    assert 'Alignment and uniformity, length-residualized' not in titles


def test_values_are_listed_beside_their_strongest_controls():
    rows = [row('a', 'uniformity', -1.0, form='raw')]
    rows.append(row('a', 'uniformity', -0.5, form='raw', control=controls.UNTRAINED))
    rows.append(bag('uniformity', -0.7, form='raw'))
    found = findings.compare(rows, {}, {}) | {'config': {'layers': ()}}
    (line,) = verdicts.controlled(found)['table']['rows']
    values = ['uniformity, raw', '−1', controls.BAG, '−0.7', 'beyond']
    assert line == ['t', 'a', *values]
    assert not verdicts.controlled(found | {'examined': []})


def test_geometry_of_different_numbers_of_texts_is_not_compared():
    """A rank grows with the number of texts."""
    rows = [row('a', 'effective_rank', 5.0, form='raw')]
    rows.append(bag('effective_rank', 6.0, form='raw', count=5))
    assert not findings.compare(rows, {}, {})['examined']
    rows[1]['count'] = 9
    assert len(findings.compare(rows, {}, {})['examined']) == 1
    models = [
        row(m, 'effective_rank', 5.0, form='raw', count=n) for m, n in zip('ab', (9, 5))
    ]
    kept = {('effective_rank', 'raw'): np.array([0.1, -0.1, 0.2])}
    deviations = {
        measured.Result('t', model, 0, '', 2, 'mean'): kept for model in ('a', 'b')
    }
    assert not findings.compare(models, deviations, {})['tests']
    models[1]['count'] = 9
    assert len(findings.compare(models, deviations, {})['tests']) == 1
