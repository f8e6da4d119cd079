"""Time to target: read from logs, compared between runs."""

import dataclasses
import json
import math
from pathlib import Path

import made_up
import numpy as np
import pytest

from jepa_text.config import config_file
from jepa_text.data.sources import bundled
from jepa_text.study import arms as arms_of
from jepa_text.study import budgets, measure, report, study, time_to_target

FILE = Path(__file__).parents[2] / 'configs' / 'speed.py'
LOSS, PROBE = 'heldout/mlm_loss', 'probe/bundled/balanced'


def line(step, loss=None, probe=None):
    values = {LOSS: loss, PROBE: probe}
    return {'step': step} | {k: x for k, x in values.items() if x is not None}


def speed(argument='scale=smoke'):
    """Returns the complete config of the speed board as plain dicts."""
    return study.plain(config_file.read(f'{FILE}:{argument}'))


@pytest.mark.parametrize(
    'lines, step',
    [
        ([line(0, 3.0), line(5, 4.1), line(9, 4.0)], 9),  # step 0 does not count
        ([line(5, 4.0), line(9, 4.5)], 5),
        ([line(5, math.nan), line(9, 4.1)], None),
        ([line(5, 3.9, 0.7), line(9, 4.2, 0.9)], None),  # each alone, never both
        ([line(5, 3.9), line(5, probe=0.9)], 5),  # two log lines of one step
        ([line(5, 3.9), line(9, probe=0.9)], None),
        ([], None),
    ],
)
def test_a_target_is_reached_when_all_of_it_holds(lines, step):
    wanted = {LOSS: 4.0}
    if any(PROBE in one for one in lines):
        wanted |= {PROBE: 0.8}
    assert time_to_target.reached(lines, wanted) == step


def test_seconds_are_those_of_the_steps_until_the_target():
    log = [
        {'step': 10, budgets.TIMES: 0.5},
        {'step': 15, LOSS: 4.0},
        {'step': 20, budgets.TIMES: 0.1},
    ]
    assert budgets.seconds(log, 10) == pytest.approx(5)
    assert budgets.seconds(log, 15) == pytest.approx(5.5)
    assert budgets.seconds(log) == budgets.seconds(log, 20) == pytest.approx(6)
    assert math.isnan(budgets.seconds([log[1]], 15))


def table_of(made):
    return time_to_target.section(made, arms_of.by_seed(made.results))['table']


def timed(losses):
    """Returns the rows of arms with one {step: loss} per seed.

    A step takes 0.1 s, in the arm `slow` 0.2 s.
    """
    made = made_up.study('pfs', seeds=3)
    arms = dict(zip(losses, made.members))
    logs = {}
    for name, arm in arms.items():
        for member, curve in zip(made.members[arm], losses[name]):
            log = [line(step, loss) for step, loss in curve.items()]
            took = 0.2 if name == 'slow' else 0.1
            logs[member] = [*log, {'step': 40, budgets.TIMES: took}]
    made.results['recipes'] = {
        member: pair for member, pair in made.results['recipes'].items() if member in logs
    }
    made = dataclasses.replace(made, logs=logs, report={'target': {LOSS: 4.0}})
    return dict(zip(losses, table_of(made)['rows'])), made


def test_medians_count_seeds_that_never_reach_the_target():
    quick = [{10: 3.9}, {20: 3.9}, {10: 4.5, 20: 4.1}]
    rows, made = timed(dict(quick=quick, slow=[{10: 3.9}] * 3))
    assert rows['quick'][1:6] == ['2 of 3', '2.0', '1.0 to never', '1.00', '20']
    assert rows['slow'][1:6] == ['3 of 3', '2.0', '2.0 to 2.0', '1.00', '10']
    # Both runs have 42 steps; with CLM first, step 20 is in another phase than step 10.
    assert rows['slow'][6] == '0.50' and float(rows['slow'][8]) < 0.6
    assert rows['quick'][9] == pytest.approx(
        np.mean([made.results['models'][m][LOSS] for m in list(made.logs)[:3]])
    )


def test_a_run_without_results_has_not_reached_the_target():
    _, made = timed(dict(quick=[{10: 3.9}] * 3))
    lost = next(iter(made.logs))
    made.results['missing'] = {lost: made.results['recipes'].pop(lost)}
    (row,) = table_of(made)['rows']
    assert row[1:4] == ['2 of 3', '1.0', '1.0 to never']
    # Also if all its seeds failed.
    _, made = timed(dict(quick=[{10: 3.9}], other=[{10: 3.9}]))
    lost = list(made.logs)[1]
    made.results['missing'] = {lost: made.results['recipes'].pop(lost)}
    _, row = table_of(made)['rows']
    assert row[1:4] == ['0 of 1', 'not reached', None]


def test_ratios_are_to_the_first_arm_that_reaches_the_target():
    rows, made = timed(dict(never=[{40: 5.0}] * 3, slow=[{40: 3.0}] * 3))
    assert rows['never'][1:] == [
        *('0 of 3', 'not reached', None, None),
        *('not reached', None, 'not reached', None, *rows['never'][9:]),
    ]
    assert rows['slow'][2:7] == ['8.0', '8.0 to 8.0', '1.00', '40', '1.00']
    assert table_of(made)['columns'][4] == f'of {list(made.members)[1]}'
    rows, _ = timed(dict(never=[{40: 5.0}] * 3, neither=[{40: 5.0}] * 3))
    assert rows['neither'][1:5] == ['0 of 3', 'not reached', None, None]


def test_unknown_seconds_are_not_called_never():
    """All logged steps of a run of a few steps may have compiled."""
    _, made = timed(dict(quick=[{10: 3.9}] * 3))
    logs = {member: log[:1] for member, log in made.logs.items()}
    (row,) = table_of(dataclasses.replace(made, logs=logs))['rows']
    assert row[1:7] == ['3 of 3', None, None, None, '10', '1.00']


@pytest.mark.slow
def test_the_section_is_on_the_page_with_and_without_seeds(tmp_path, capsys):
    _, made = timed(dict(quick=[{10: 3.9}] * 3, slow=[{10: 3.9}] * 3))
    firsts = {m: pair for m, pair in made.results['recipes'].items() if pair[1] == 0}
    for recipes in (made.results['recipes'], firsts):
        results = made.results | {'recipes': recipes, 'predictions': []}
        results['probes'] = {}
        results['models'] = {
            name: values | {'geometry/mean_cosine': 0.1}
            for name, values in results['models'].items()
            if name == 'untrained' or name in recipes
        }
        configs = {m: made.configs[m] for m in recipes}
        path = report.write(tmp_path, results, configs, made.report)
        assert 'Time to target' in path.read_text()
        assert 'Time to target' in capsys.readouterr().out
        path = report.write(tmp_path, results, configs, {})
        assert 'Time to target' not in path.read_text()


@pytest.mark.parametrize(
    'changes, says',
    [
        (dict(report=dict(target={LOSS: 'low'})), 'report.target: heldout/mlm_loss'),
        (dict(study=dict(split='tset')), "study.split='tset' is not in prepare.splits"),
    ],
)
def test_invalid_targets_and_splits_are_rejected(changes, says):
    with pytest.raises(ValueError, match=says):
        study.plain(speed() | changes)


def test_a_target_needs_evaluations():
    with pytest.raises(ValueError, match='evaluate.every=0 disables them'):
        time_to_target.check_run({LOSS: 4.0}, dict(every=0))
    time_to_target.check_run({LOSS: 4.0}, dict(every=5))
    time_to_target.check_run({}, dict(every=0))


def test_the_board_is_scored_on_other_documents_than_it_is_tuned_on():
    whole = bundled.make('heldout')
    tuned, scored = (bundled.make(split, test=True) for split in ('heldout', 'test'))
    assert len(tuned) + len(scored) == len(whole) and len(scored) == 2 * len(tuned)
    assert all((one in tuned) != (one in scored) for one in whole)
    # Each author with several documents is in both splits.
    authors = [{one['author'] for one in part} for part in (tuned, scored)]
    assert {'Jane Austen', 'Herman Melville', 'Donald J Trump'} <= set.intersection(
        *authors
    )
    assert bundled.make('train', test=True) == bundled.make('train')
    with pytest.raises(ValueError, match="no split 'test'.*With test=True"):
        bundled.make('test')


def test_the_board_measures_the_test_split(monkeypatch):
    read = []
    monkeypatch.setattr(measure.tokenizers, 'load', lambda path: None)
    monkeypatch.setattr(
        measure.representation,
        'make',
        lambda documents_of, *_: read.extend(documents_of('heldout')),
    )
    for argument, split in (('scale=desk', 'test'), ('scale=tune', 'heldout')):
        read.clear()
        config = speed(argument)
        measure.probes(config, Path('rows'))
        assert read == bundled.make(split, test=True)
        assert measure.split_of(config['study']) == split


def test_entries_of_the_board_have_equal_size_and_rows():
    config = speed('seeds=1')
    names = [run['name'] for run in config['runs']]
    assert names[:2] == ['mlm', 'clm_mlm'] and {'muon', 'hybrid'} < set(names)
    for run in config['runs']:
        assert not run.keys() & {'prepare', 'seed', 'init_from'}
        # Norms of queries and keys are 256 of 1.1 M parameters.
        assert run.get('model', {}).keys() <= {'qk_norm'}
        assert run.get('data', {}).keys() <= {'batch_size'}
    assert {run['steps'] for run in speed('scale=smoke')['runs']} == {8}
    only = speed('scale=tune,only=muon+mlm,seeds=2')
    assert [run['name'] for run in only['runs']] == ['muon', 'mlm']
    assert only['seeds'] == [0, 1] and only['report']['target'] == {LOSS: 4.25}
    for argument, words in (('only=x', "'x' is not one of"), ('scale=paper', 'scale=')):
        with pytest.raises(ValueError, match=words):
            speed(argument)


@pytest.mark.slow
def test_the_board_at_its_smallest_scale(tmp_path, monkeypatch):
    pytest.importorskip('sklearn')
    read = bundled._read
    # All of the split 'test' is measured, four rows at a time.
    monkeypatch.setattr(bundled, '_read', lambda split: read(split)[::4])
    found = study.study(speed('scale=smoke,only=muon'), tmp_path)
    text = (tmp_path / 'appendix.md').read_text()
    table = text.partition('## Time to target')[2].partition('##')[0].splitlines()
    cells = [row.strip('| ').split(' | ') for row in table if '2 of 2' in row]
    assert [row[0] for row in cells] == ['muon']
    assert [row[5] for row in cells] == ['2']  # evaluated at the end of CLM
    # Final results are of the other split.
    assert found['heldout_tokens'] == manifest(tmp_path)['splits']['test']['tokens']


def manifest(folder):
    return json.loads((folder / 'rows' / 'manifest.json').read_text())
