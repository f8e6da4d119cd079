"""The plan of a dry run, and the progress bar over members."""

import io

import pytest

from jepa_text.cost import hardware
from jepa_text.evaluation import progress

PLANNED = [
    progress.Planned('runs/a', 'trec', 30, 135, 2e15, done=10),
    progress.Planned('hf:b', 'r8', 10, 200, 3e15),
]


def test_the_plan_covers_remaining_members():
    columns, rows, said = progress.plan(PLANNED, 'h100:8')
    assert [len(row) for row in rows] == [len(columns)] * 2
    assert rows[0][:6] == ['runs/a', 'trec', 30, 10, 135, '4e+16']
    chip, count = hardware.find('h100:8')
    hours = 7e16 / (chip.peak * chip.mfu * count) / 3600
    assert f'30 members remain to be trained, {20 * 135 + 2000:,} steps in total' in said
    assert f'7e+16 FLOPs: about {hours:.2g} h on h100:8' in said
    assert float(rows[0][6]) == pytest.approx(hours * 4 / 7, rel=0.05)


def test_unknown_flops_have_no_hours():
    unknown = [PLANNED[0]._replace(flops=float('nan')), PLANNED[1]]
    columns, rows, said = progress.plan(unknown, 'h100:8')
    chip, count = hardware.find('h100:8')
    hours = f'{3e16 / (chip.peak * chip.mfu * count) / 3600:.2g}'
    assert rows[0][5:] == [None, None] and rows[1][6] == hours and 'FLOPs' not in said
    assert 'hours' not in progress.plan(PLANNED)[0]
    with pytest.raises(ValueError, match="'abacus'"):
        progress.plan(PLANNED, 'abacus')


def test_the_plan_is_printed(capsys):
    progress.show_plan(PLANNED, 'h100:8')
    text = capsys.readouterr().out
    assert 'runs/a' in text and 'hours' in text and text.endswith('chips are used.\n')


def test_members_that_take_more_steps_than_planned_replace_the_plan():
    stream = io.StringIO()
    planned = [progress.Planned('a', 'x', 2, 3), progress.Planned('a', 'y', 1, 2)]
    with progress.MemberProgress(planned, stream, lambda: 0.0) as bar:
        report = bar.group('a', 'x', 14)
        for step in range(14):
            report(step + 1)
        bar.done('a', 'x')
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith('x  a  0 of 3 members  compiling    0%  0/30')
    assert any('1 of 3 members   46%  14/30' in line for line in lines)
    assert not any('compiling' in line for line in lines[1:])


def test_the_time_left_ignores_earlier_members():
    now, stream = [0.0], io.StringIO()
    planned = [progress.Planned('a', 'x', 4, 100, done=2)]
    with progress.MemberProgress(planned, stream, lambda: now[0]) as bar:
        report = bar.group('a', 'x', 100)
        now[0] = 30.0
        report(50)
        now[0] = 60.0
        bar.done('a', 'x', 1, 'x  a  accuracy 0.9')
        report = bar.group('a', 'x', 100)
        now[0] = 120.0
        report(100)
        bar.done('a', 'x')
    lines = stream.getvalue().splitlines()
    line = '2 of 4 members   62%  250/400  0:30 elapsed  1:30 left'
    assert any(line in x for x in lines)
    assert 'x  a  accuracy 0.9' in lines
    assert '100%  400/400  2:00 elapsed  0:00 left' in lines[-1]
