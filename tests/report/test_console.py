"""Progress bars on a terminal, plain lines elsewhere, and aligned tables."""

import io
import re

import jax.numpy as jnp
import pytest

from jepa_text.report import console


class Clock:
    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_without_a_terminal_progress_is_plain_lines():
    stream, now = io.StringIO(), Clock()
    with console.Progress('mlm', 1000, stream=stream, now=now) as progress:
        for step in range(1, 1001):
            now.time += 0.01
            progress.update(step, loss=jnp.float32(5.25), tokens_per_second=12_345.6)
        progress.log('done [100%]')
    lines = stream.getvalue().splitlines()
    assert len(lines) == 12 and '\x1b' not in stream.getvalue()
    assert lines[-2].split('  ') == [
        'mlm',
        '100%',
        '1,000/1,000',
        'loss 5.250',
        '12.3k tokens/s',
        '0:10 elapsed',
        '0:00 left',
    ]
    assert lines[-1] == 'done [100%]'


def test_a_slow_run_prints_every_ten_seconds_and_the_last_step():
    stream, now = io.StringIO(), Clock()
    with console.Progress('mlm', 100_000, start=50, stream=stream, now=now) as progress:
        for step in range(51, 101):
            now.time += 3
            progress.update(step, description='clm' if step < 75 else None)
    lines = stream.getvalue().splitlines()
    assert 12 <= len(lines) <= 15
    assert lines[0].startswith('clm  ') and lines[-1].startswith('clm  ')
    assert '100/100,000' in lines[-1] and '83:15:00 left' in lines[-1]


@pytest.mark.parametrize('terminal', [False, True])
def test_the_time_left_is_that_of_steps(terminal, monkeypatch):
    """Neither preparations nor compiling, before the first step or later, are in it."""
    monkeypatch.setenv('TERM', 'xterm-256color')
    monkeypatch.setenv('COLUMNS', '110')
    stream, now = (Terminal if terminal else io.StringIO)(), Clock()
    progress = console.Progress('mlm', 60, 10, stream, now)
    with progress:
        now.time += 300
        for step in range(11, 21):
            now.time += 101 if step in (11, 15) else 1
            progress.update(step, seconds=float(step > 11))  # the first compiles
    left = re.findall(r'(\d+:\d\d) left', stream.getvalue())
    assert left[-1] == '0:40' and {*left} <= {f'0:{60 - n}' for n in range(12, 21)}


def test_the_time_left_does_not_count_what_precedes_the_first_update():
    stream, now = io.StringIO(), Clock()
    with console.Progress('exam', 60, 10, stream, now) as progress:
        for step in (10, 20, 30, 40):
            now.time += 500 if step == 20 else 10
            progress.update(step)
    left = re.findall(r'elapsed(?:  (\d+:\d\d) left)?', stream.getvalue())
    assert left == ['', '', '0:30', '0:20']


def test_on_a_terminal_progress_draws_a_bar(monkeypatch):
    monkeypatch.setenv('TERM', 'xterm-256color')
    monkeypatch.setenv('COLUMNS', '110')
    stream = Terminal()
    with console.Progress('mlm', 10, stream=stream) as progress:
        progress.update(5, loss=4.5, tokens_per_second=2e6, description='set [/x]')
        progress.log('a line [with brackets]')
        progress.update(10)
    shown = stream.getvalue()
    assert '10/10' in shown and 'loss 4.500' in shown and '2M tokens/s' in shown
    assert '\x1b[' in shown and 'a line [with brackets]' in shown and 'set [/x]' in shown


def test_a_dumb_terminal_gets_plain_lines(monkeypatch):
    monkeypatch.setenv('TERM', 'dumb')
    stream = Terminal()
    with console.Progress('mlm', 2, stream=stream) as progress:
        progress.update(2)
    assert '\x1b' not in stream.getvalue() and '2/2' in stream.getvalue()


def test_a_table_in_a_file_is_plain_aligned_and_unwrapped():
    stream = io.StringIO()
    rows = [['untrained', 7.65, None], ['clm [x]', 4.3125, 819]]
    rows += [['a name of many words ' * 9, 0.5, 12]]
    console.table('Held out [/x]', ['model', 'loss', 'tokens'], rows, stream)
    shown = filter(str.strip, stream.getvalue().splitlines())
    title, head, line, first, *rest = shown
    assert title.strip() == 'Held out [/x]' and set(line.strip()) == {'─'}
    assert head.split() == ['model', 'loss', 'tokens']
    assert first.split() == ['untrained', '7.650', '–']
    ends = head.index('loss') + 4, first.index('7.650') + 5, rest[0].index('4.312') + 5
    assert len(set(ends)) == 1
    assert rest[1].split() == [*('a name of many words ' * 9).split(), '0.500', '12']
    assert '\x1b' not in stream.getvalue()


def test_a_table_row_must_fit():
    with pytest.raises(ValueError, match='expected 2 cells per row'):
        console.table('t', ['a', 'b'], [[1]], io.StringIO())
