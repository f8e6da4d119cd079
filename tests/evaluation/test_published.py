"""Published values: some of those in the papers."""

import pytest

from jepa_text.evaluation.results import published


@pytest.mark.parametrize(
    'wanted, value, interval',
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
