"""The plan of a dry run, and the progress bar over members."""

import io

from jepa_text.evaluation import progress

PLANNED = [
    progress.Planned('runs/a', 'trec', 30, 135, done=10),
    progress.Planned('hf:b', 'r8', 10, 200),
]


def test_the_plan_covers_remaining_members(capsys):
    progress.show_plan(PLANNED)
    text = capsys.readouterr().out
    assert f'30 members remain to be trained, {20 * 135 + 2000:,} steps in total' in text
    assert 'runs/a' in text and 'r8' in text


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
