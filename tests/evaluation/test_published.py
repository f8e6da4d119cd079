"""Published values: completeness, consistency, and some values read from the papers."""

import collections

import pytest

from jepa_text.evaluation.results import published, selection
from jepa_text.files import checksums

FIRST = '2507.00994'
PAPERS = checksums.read_json(published.FILE)['papers']
ROWS = published.rows()
SUMMARY = published.rows(table='results_summary.json')


def test_every_row_has_the_same_fields():
    for row in ROWS:
        assert tuple(row) == tuple(ROWS[0])
        assert isinstance(row['value'], int | float) and row['unit'] in ('%', '')
        assert row['interval'] is None or row['interval'] >= 0
        if row['unit'] == '%':
            assert 0 <= row['value'] <= 100
    keys = [tuple(row.values())[:9] for row in ROWS]
    assert len(set(keys)) == len(keys)
    assert {row['paper'] for row in ROWS} == set(PAPERS)


def test_every_table_is_complete():
    counts = collections.Counter(row['table'] for row in ROWS)
    # 15 models, 6 checkpoints of 2, 15 mixes, 8 starts; three tasks and their mean.
    sizes = [15] * 4 + [12] * 4 + [15] * 4 + [8] * 4
    for table, size in enumerate(sizes, 2):
        assert counts[str(table)] == 4 * size
    assert len(published.rows(paper=FIRST, table=('2', '3'), model='1B')) == 40
    # 15 metrics of 30 models and tasks, without those that a task does not have.
    assert len(SUMMARY) == 30 * 15 - 3 * 2 * (1 + 2)
    metrics = set(selection.PAPER_METRICS.values())
    assert {row['metric'] for row in published.rows(paper=FIRST)} <= metrics


def test_only_printed_intervals_are_given():
    for row in published.rows(paper=FIRST):
        is_checkpoint = 6 <= int(row['table']) <= 9
        is_mean = row['task'] in ('SC', 'TC', 'QA', 'IR')
        assert (row['interval'] is None) == (is_checkpoint and not is_mean)


def test_means_equal_those_of_their_tasks():
    categories = PAPERS[FIRST]['categories']
    groups = collections.defaultdict(dict)
    for row in published.rows(paper=FIRST):
        key = [row[field] for field in ('table', 'model', 'objective', 'steps')]
        groups[(*key, row['masking'])][row['task']] = row['value']
    assert len(groups) == 200
    for key, values in groups.items():
        (category,) = values.keys() & categories.keys()
        mean = sum(values[task] for task in categories[category]) / 3
        assert values[category] == pytest.approx(mean, abs=0.0101), key


@pytest.mark.parametrize(
    ('wanted', 'value', 'interval'),
    [
        (('2', '210M', 'mlm', '42000', 0.5, 'sst2'), 91.61, 0.35),
        (('5', '1B', 'mlm', '42000', 0.5, 'IR'), 81.97, 0.27),
        (('8', '610M', 'mlm', '1000', 0.4, 'squad_v2'), 50.07, None),
        (('12', '610M', 'clm+mlm', '21000+21000', 0.4, 'record'), 33.60, 11.35),
        (('15', '610M', 'mlm+mlm', '42000+2000', 0.4, 'conll2003'), 90.89, 1.10),
    ],
)
def test_some_values(wanted, value, interval):
    fields = ('table', 'model', 'objective', 'steps', 'masking', 'task')
    (row,) = published.rows(**dict(zip(fields, wanted)))
    assert (row['value'], row['interval']) == (value, interval)


def test_the_second_papers_main_values_and_its_mislabeled_row():
    given = dict(table='results_summary.json', task='sst2', pooling='mean')
    found = published.rows(metric='uniformity', **given)
    assert [row['value'] for row in found] == [-0.1596, -0.0520]
    (row,) = published.rows(table='README', task='qqp', objective='mlm')
    (log,) = published.rows(
        table='logs, best epoch', task='qqp', metric='f1', objective='mlm'
    )
    assert row['value'] == pytest.approx(100 * log['value'])
