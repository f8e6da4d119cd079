"""Summaries of a grid: rows and tables."""

import csv
import json

import numpy as np
import pytest
from member_lines import lines
from scipy import stats

from jepa_text.evaluation.results import selection, summary

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
    summary.write(tmp_path, summary.rows(chosen(seeds=1)))
    text = (tmp_path / 'summary.json').read_text()
    row = json.loads(text, parse_constant=pytest.fail)[0]
    mean, *ends = row['standard']['accuracy']
    assert 0 < mean < 1 and ends == [None, None]


def test_the_csv_has_a_line_for_each_metric_and_definition(tmp_path):
    both = chosen() + chosen(seeds=1, task='r8', models={'mlm, "own"': (0.7, 1e-4)})
    rows = summary.rows(both)
    summary.write(tmp_path, rows)
    found = list(csv.DictReader((tmp_path / 'summary.csv').open()))
    assert len(found) == 3 * 3  # accuracy and macro F1, and the paper's accuracy
    mean, low, high = rows[0]['standard']['accuracy']
    assert [float(found[0][key]) for key in ('value', 'low', 'high')] == [mean, low, high]
    assert found[0]['seeds'] == '5' and found[-1]['low'] == ''
    assert (found[-1]['model'], found[-1]['definition']) == ('mlm, "own"', 'paper')


def test_models_then_controls_are_printed(capsys):
    control = [x | {'control': 'TF-IDF'} for x in lines({'TF': (0.5, 1)}, (1.0,), 1)]
    both = control + lines({'mlm': (0.9, 1e-4)}, RATES, 2)
    rows = summary.rows(selection.select(both))
    summary.show(rows)
    printed = capsys.readouterr().out
    (row,) = [row for row in rows if row['model'] == 'mlm']
    mean, low, high = row['standard']['accuracy']
    assert f'{mean:.3f}   ± {(high - low) / 2:.3f}' in printed
    assert printed.index(' mlm ') < printed.index(' TF ')
