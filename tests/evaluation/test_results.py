"""Lines of members: writing, reading, and detection of damage; some published values."""

import numpy as np
import pytest
from member_lines import CONFIG, outcome

from jepa_text.evaluation.results import published, result_files


def test_members_are_written_and_read(tmp_path):
    per_instance = {'accuracy': np.array([1.0, 0.0, np.nan]), 'paper_f1': np.ones(3)}
    predictions = np.array(['a', 'b', 'é'])
    result_files.write(tmp_path, CONFIG, outcome(), per_instance, predictions)
    (line,), damaged = result_files.read(tmp_path)
    assert damaged == {}
    assert line.items() >= {**CONFIG, **outcome()}.items()
    values, said = result_files.read_side(tmp_path, line)
    assert said == ['a', 'b', 'é'] and list(values) == list(per_instance)
    np.testing.assert_array_equal(values['accuracy'], per_instance['accuracy'])
    # A file has one line, for line-based tools.
    assert (tmp_path / f'{line["name"]}.json').read_text().count('\n') == 1


@pytest.mark.parametrize(
    'predictions',
    [[0.5, -1.0], [['B-PER', 'O'], []], ['', 'an answer'], {'q1': {'d1': 0.5}, 'q2': {}}],
)
def test_predictions_of_every_kind_are_written_and_read(tmp_path, predictions):
    result_files.write(tmp_path, CONFIG, outcome(), {'f1': np.ones(2)}, predictions)
    (line,), _ = result_files.read(tmp_path)
    assert result_files.read_side(tmp_path, line)[1] == predictions


def test_a_member_that_is_not_finite_is_recorded(tmp_path):
    given = outcome(None, None, 'not finite', (1.8, float('nan')))
    result_files.write(tmp_path, CONFIG, given)
    (line,), damaged = result_files.read(tmp_path)
    assert line['status'] == 'not finite' and line['losses'] == [1.8, None]
    assert line['test'] is None and not damaged
    with pytest.raises(ValueError, match="no side file.*'not finite'"):
        result_files.read_side(tmp_path, line)


def test_damaged_files_are_reported_and_others_are_read(tmp_path):
    def made(seed):
        config = CONFIG | {'seed': seed}
        return result_files.write(tmp_path, config, outcome(), {'accuracy': [1.0]}, ['a'])

    cut, edited, sideless, whole, twin = (made(seed) for seed in range(5))
    cut.write_text(cut.read_text()[:-30])
    edited.write_text(edited.read_text().replace('0.9,', '0.95,'))
    sideless.with_suffix('.parquet').unlink()
    twin.write_text(whole.read_text())
    (tmp_path / 'other.json').write_text('{"a": 1}\n')
    lines, damaged = result_files.read(tmp_path)
    assert [line['seed'] for line in lines] == [3]
    other = tmp_path / 'other.json'
    assert set(damaged) == {p.name for p in (cut, edited, sideless, twin, other)}
    assert 'not valid JSON' in damaged[cut.name] and 'edited' in damaged[edited.name]
    assert 'side file' in damaged[sideless.name]
    assert 'of the same member' in damaged[twin.name]
    # Of equal size, so only its checksum differs.
    side = whole.with_suffix('.parquet')
    side.write_bytes(bytes(len(side.read_bytes())))
    with pytest.raises(ValueError, match=side.name):
        result_files.read_side(tmp_path, lines[0])
    # So its member is trained again; else the page could never be written.
    lines, damaged = result_files.read(tmp_path)
    assert lines == [] and 'was changed' in damaged[whole.name]


def test_the_side_file_is_written_before_the_line(tmp_path, monkeypatch):
    written = []

    def fails(path, content):
        written.append(path.suffix)
        raise OSError(28, 'no space')

    monkeypatch.setattr(result_files.atomic, 'write', fails)
    with pytest.raises(OSError, match='no space'):
        result_files.write(tmp_path, CONFIG, outcome(), {'accuracy': [1.0]}, ['a'])
    assert written == ['.parquet'] and result_files.read(tmp_path) == ([], {})


def test_models_of_one_config_and_name_have_files_of_their_own(tmp_path):
    """Such as a run and its export: without their items, one would replace the other."""
    configs = [CONFIG | {'model': f'{x}/mlm', 'item': f'trec={x}'} for x in 'ab']
    for config in configs:
        result_files.write(tmp_path, config, outcome(), predictions=['a'])
    found, damaged = result_files.read(tmp_path)
    assert damaged == {} and {line['model'] for line in found} == {'a/mlm', 'b/mlm'}
    assert len({line['side']['file'] for line in found}) == 2
    assert {line['name'] for line in found} == set(map(result_files.name_of, configs))


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
def test_some_published_values(wanted, value, interval):
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
