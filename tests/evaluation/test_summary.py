"""Summaries in EuroEval's and the hub's formats, and tables."""

import csv
import io
import json
import math

import numpy as np
import pytest
from member_lines import CONFIG, lines, outcome
from scipy import stats

from jepa_text.evaluation.results import selection, summary
from jepa_text.evaluation.results import tables as result_tables

RATES = (1e-5, 1e-4, 1e-3)
MODELS = {'mlm': (0.9, 1e-4), 'jepa_small': (0.8, 1e-5)}


def chosen(seeds=5, task='trec', models=MODELS):
    return selection.select(lines(models, RATES, seeds, task))


def test_totals_are_means_and_errors_of_the_raw_values():
    record, _ = summary.summary(chosen())
    raw = [one['accuracy'] for one in record['results']['raw']]
    total = record['results']['total']
    assert len(raw) == 5 and {one['learning_rate'] for one in record['results']['raw']}
    assert total['test_accuracy'] == pytest.approx(np.mean(raw))
    error = stats.sem(raw)
    assert total['test_accuracy_se'] == pytest.approx(1.96 * error)
    low, high = stats.t.interval(0.95, 4, np.mean(raw), error)
    found = total['test_accuracy_low'], total['test_accuracy_high']
    assert found == pytest.approx((low, high))
    assert {'test_macro_f1', 'test_paper_accuracy'} <= set(total)
    assert record['model'] == 'mlm' and record['dataset'] == 'trec'
    assert record['max_length'] == 128 and record['data_revision'] == '77aa'


def test_the_summary_of_one_seed_is_valid_json(tmp_path):
    path = summary.write(tmp_path, chosen(seeds=1))
    record = json.loads(path.read_text(), parse_constant=pytest.fail)[0]
    total = record['results']['total']
    assert total['test_accuracy_se'] is None and total['test_accuracy_low'] is None
    assert 0 < total['test_accuracy'] < 1


def test_a_model_without_finite_members_has_a_row_but_no_record():
    lost = [
        CONFIG | {'seed': seed} | outcome(None, None, 'not finite') for seed in range(5)
    ]
    found = selection.select(lost)
    assert summary.summary(found) == []
    (row,) = summary.rows(found)
    assert row['n'] == 0 and row['standard'] == {} and row['lost'] == [0, 1, 2, 3, 4]


def test_hub_files_are_parsed_by_the_hub(tmp_path):
    hub = pytest.importorskip('huggingface_hub')
    yaml = pytest.importorskip('yaml')
    one = chosen(models={'mlm': (0.9, 1e-4)}) + chosen(task='b', models={'mlm': (1, 1)})
    benchmarks = {
        'trec': {'id': 'a/trec', 'task_id': 'Größe: 1 # all', 'revision': '77"aa'}
    }
    (path,) = summary.hub_results(tmp_path, one, benchmarks, '2026-11-22')
    assert path == tmp_path / '.eval_results' / 'trec.yaml'
    data = yaml.safe_load(path.read_text(encoding='utf-8'))
    (entry,) = hub.parse_eval_result_entries(data)
    assert entry.dataset_id == 'a/trec' and entry.task_id == 'Größe: 1 # all'
    assert entry.dataset_revision == '77"aa' and entry.date == '2026-11-22'
    assert entry.value == pytest.approx(one[0].interval().value, abs=1e-6)
    assert 'mean of 5 seed(s), 95 %' in entry.notes and 'accuracy' in entry.notes
    assert hub.eval_result_entries_to_yaml([entry]) == data


def test_hub_results_need_one_model_and_ids(tmp_path):
    with pytest.raises(ValueError, match="one model.*'jepa_small', 'mlm'"):
        summary.hub_results(tmp_path, chosen(), {}, '2026-11-22')
    one = chosen(models={'mlm': (0.9, 1e-4)})
    with pytest.raises(ValueError, match='task_id'):
        summary.hub_results(tmp_path, one, {'trec': {'id': 'a/b'}}, '2026-11-22')


def table(mode='standard', **more):
    both = chosen() + chosen(task='r8', models={'mlm': (0.7, 1e-4)})
    return result_tables.table(summary.rows(both), mode, **more)


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
    made = table('paper', published=PUBLISHED)
    assert made['columns'] == ['model', 'trec, accuracy', 'r8, accuracy']
    names = [row[0] for row in made['rows']]
    theirs = '210M m_lm, 20% masked, 42000 steps (2507.00994)'
    assert names == ['mlm', 'jepa_small', theirs]
    assert made['rows'][1][2] is None
    assert made['rows'][2][1] == result_tables.Cell(0.6, 0.0026)
    other = table(published=PUBLISHED)['rows'][2]
    # In that paper, ± is a standard deviation.
    assert other[0] == '210M m_lm, cls (2606.05173)' and other[1].value == 0.5
    assert math.isnan(other[1].reach)


def test_controls_are_last():
    control = [x | {'control': 'TF-IDF'} for x in lines({'TF': (0.5, 1)}, (1.0,), 1)]
    both = control + lines({'mlm': (0.9, 1e-4)}, RATES, 2)
    made = result_tables.table(summary.rows(selection.select(both)))
    assert [row[0] for row in made['rows']] == ['mlm', 'TF']


def test_markdown_latex_and_csv_have_the_same_values():
    made = table('paper', published=PUBLISHED)
    cell = made['rows'][0][1]
    value, reach = f'{100 * cell.value:.2f}', f'{100 * cell.reach:.2f}'
    lines = result_tables.markdown(made).splitlines()
    assert lines[2].startswith(f'| mlm | {value} ± {reach} |')
    assert all(line.count('|') == 4 for line in lines)
    assert '| – |' in lines[3]
    text = result_tables.latex(made)
    assert rf'mlm & ${value}_{{\pm {reach}}}$ &' in text
    assert r'jepa\_small' in text and r'210M m\_lm, 20\% masked' in text
    assert text.count(r'\\') == len(made['rows']) + 1
    found = list(csv.DictReader(io.StringIO(result_tables.csv_of(made))))
    assert len(found) == 4 and float(found[0]['value']) == cell.value
    assert found[0]['seeds'] == '5' and found[-1]['seeds'] == ''


def test_one_seed_has_no_interval_and_names_are_escaped():
    one = chosen(seeds=1, models={r'a|b & c_d % \x': (0.9, 1e-4)})
    made = result_tables.table(summary.rows(one))
    assert math.isnan(made['rows'][0][1].reach)
    assert '±' not in result_tables.markdown(made)
    assert result_tables.markdown(made).splitlines()[2].startswith('| a\\|b & c_d')
    assert r'a|b \& c\_d \% \textbackslash{}x' in result_tables.latex(made)
    assert list(csv.reader(io.StringIO(result_tables.csv_of(made))))[1][3] == ''
