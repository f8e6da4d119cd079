"""Summaries of a grid: rows and tables."""

import csv
import io
import json
import math

import numpy as np
import pytest
from member_lines import CONFIG, lines, outcome
from scipy import stats

from jepa_text.evaluation.results import selection, summary
from jepa_text.evaluation.results.published import Cell

RATES = (1e-5, 1e-4, 1e-3)
MODELS = {'mlm': (0.9, 1e-4), 'jepa_small': (0.8, 1e-5)}


def chosen(seeds=5, task='trec', models=MODELS):
    return selection.select(lines(models, RATES, seeds, task))


def test_rows_are_means_with_students_interval():
    row, _ = summary.rows(chosen())
    values = [line['test']['standard']['accuracy'] for line in chosen()[0].members]
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert row['standard']['accuracy'] == pytest.approx((np.mean(values), low, high))
    assert {'accuracy', 'macro_f1'} == set(row['standard']) and row['n'] == 5
    assert (row['model'], row['task'], row['by']) == ('mlm', 'trec', 'standard')


def test_the_summary_of_one_seed_is_valid_json(tmp_path):
    path = summary.write(tmp_path, summary.rows(chosen(seeds=1)))
    row = json.loads(path.read_text(), parse_constant=pytest.fail)[0]
    mean, *ends = row['standard']['accuracy']
    assert 0 < mean < 1 and ends == [None, None]


def test_a_model_without_finite_members_has_a_row():
    lost = [
        CONFIG | {'seed': seed} | outcome(None, None, 'not finite') for seed in range(5)
    ]
    (row,) = summary.rows(selection.select(lost))
    assert row['n'] == 0 and row['standard'] == {} and row['lost'] == [0, 1, 2, 3, 4]


def table(mode='standard', **more):
    both = chosen() + chosen(task='r8', models={'mlm': (0.7, 1e-4)})
    return summary.table(summary.rows(both), mode, **more)


def published(paper, value, task='trec', **more):
    """A row like those of published.rows."""
    row = dict(paper=paper, table='2', model='210M', objective='m_lm', steps='42000')
    row |= dict(masking=0.2, pooling=None, task=task, metric='accuracy', unit='%')
    return {**row, 'value': value, 'interval': 0.26, **more}


PUBLISHED = [
    published('2507.00994', 60.0),
    published('2507.00994', 99.0, metric='f1'),
    published('2507.00994', 99.0, task='sst2'),
    published('2606.05173', 0.5, unit='', masking=None, steps=None, pooling='cls'),
]


def test_tables_have_models_as_rows_and_tasks_as_columns():
    made = table('paper', known=PUBLISHED)
    assert made['columns'] == ['model', 'trec, accuracy', 'r8, accuracy']
    names = [row[0] for row in made['rows']]
    theirs = '210M m_lm, 20% masked, 42000 steps (2507.00994)'
    assert names == ['mlm', 'jepa_small', theirs]
    assert made['rows'][1][2] is None
    assert made['rows'][2][1] == Cell(0.6, 0.0026)
    other = table(known=PUBLISHED)['rows'][2]
    # In that paper, ± is a standard deviation.
    assert other[0] == '210M m_lm, cls (2606.05173)' and other[1].value == 0.5
    assert math.isnan(other[1].reach)


def test_controls_are_last():
    control = [x | {'control': 'TF-IDF'} for x in lines({'TF': (0.5, 1)}, (1.0,), 1)]
    both = control + lines({'mlm': (0.9, 1e-4)}, RATES, 2)
    made = summary.table(summary.rows(selection.select(both)))
    assert [row[0] for row in made['rows']] == ['mlm', 'TF']


def test_markdown_and_csv_have_the_same_values():
    made = table('paper', known=PUBLISHED)
    cell = made['rows'][0][1]
    value, reach = f'{100 * cell.value:.2f}', f'{100 * cell.reach:.2f}'
    lines = summary.markdown(made).splitlines()
    assert lines[2].startswith(f'| mlm | {value} ± {reach} |')
    assert all(line.count('|') == 4 for line in lines)
    assert '| – |' in lines[3]
    found = list(csv.DictReader(io.StringIO(summary.csv_of(made))))
    assert len(found) == 4 and float(found[0]['value']) == cell.value
    assert found[0]['seeds'] == '5' and found[-1]['seeds'] == ''


def test_one_seed_has_no_interval_and_names_are_escaped():
    one = chosen(seeds=1, models={r'a|b & c_d % \x': (0.9, 1e-4)})
    made = summary.table(summary.rows(one))
    assert math.isnan(made['rows'][0][1].reach)
    assert '±' not in summary.markdown(made)
    assert summary.markdown(made).splitlines()[2].startswith('| a\\|b & c_d')
    assert list(csv.reader(io.StringIO(summary.csv_of(made))))[1][3] == ''
