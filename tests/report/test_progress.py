"""The progress of long work, on a terminal, in a log and in a notebook; tables."""

import errno
import io
import sys
import types

import jax
import jax.numpy as jnp
import pytest

from jepa_text.report import console, progress


class Clock:
    """A time that a test sets, of which `compiled` seconds were spent compiling."""

    def __init__(self):
        self.time, self.compiled = 100.0, 0.0

    def bar(self, *arguments, stream, **keywords):
        """A Progress of this clock."""
        own = dict(stream=stream, now=lambda: self.time, compiled=lambda: self.compiled)
        return progress.Progress(*arguments, **own, **keywords)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv('TERM', 'xterm-256color')
    monkeypatch.setenv('COLUMNS', '110')


def test_a_log_has_a_line_with_the_time_left_one_a_minute_and_the_last():
    stream, clock = io.StringIO(), Clock()
    with clock.bar('mlm', 3000, stream=stream) as bar:
        for step in range(1, 3001):
            clock.time += 0.125
            bar.update(step, loss=jnp.float32(5.25), tokens_per_second=12_345.6)
        bar.log('done [100%]')
    lines = stream.getvalue().splitlines()
    at = [int(line.split('/')[0].split()[1].replace(',', '')) for line in lines[:-2]]
    assert at == [2, 482, 962, 1442, 1922, 2402, 2882] and '\x1b' not in stream.getvalue()
    numbers = 'loss 5.250  12.3k tokens/s'
    assert lines[1] == f'mlm 482/3,000  16%  {numbers}  1:00 elapsed  5:14 left'
    last = f'mlm 3,000/3,000  100%  {numbers}  6:15 elapsed'
    assert lines[-2:] == ['done [100%]', last]


@pytest.mark.parametrize('start', [0, 20])
def test_after_a_tenth_the_time_left_is_right_within_a_quarter(start):
    """Of phases of different costs, which compile and evaluate; also from a trunk."""
    stream, clock, left = io.StringIO(), Clock(), {}
    costs, ends = [(40, 1.0), (60, 2.5)], {}
    with clock.bar('run', 100, start, costs, stream=stream) as bar:
        clock.time += 50  # a model is loaded
        for step in range(start + 1, 101):
            if step in (start + 1, 41):
                clock.compiled += 30
                clock.time += 30
            # Every tenth step, the run is evaluated and saved.
            clock.time += (0.2 if step <= 40 else 0.5) + 1.0 * (step % 10 == 0)
            bar.update(step)
            ends[step], left[step] = (clock.time - clock.compiled), bar.seconds()[1]
    for step in range(start + (100 - start) // 10, 100):
        truth = ends[100] - ends[step]
        assert abs(left[step] - truth) <= 0.25 * truth + 1.5, step


def test_work_within_other_work_is_a_part_of_its_line():
    stream, clock, shown = io.StringIO(), Clock(), {}
    with clock.bar('train', 3, 0, [(1, 30), (2, 10)], stream=stream) as outer:
        for index, steps in enumerate([30, 10, 10]):
            with clock.bar(f'seed_{index}', steps, stream=stream) as inner:
                for step in range(1, steps + 1):
                    clock.time += 2
                    inner.update(step, loss=1.0)
                    shown[index, step] = outer.seconds()[1]
                inner.log(f'seed_{index} is trained')
            outer.update(index + 1)
    lines = stream.getvalue().splitlines()
    assert lines[0] == ('train 0/3  seed_0 2/30  4%  loss 1.000  0:04 elapsed  1:36 left')
    assert lines[-1] == 'train 3/3  100%  1:40 elapsed'
    assert [line for line in lines if 'trained' in line] == [
        f'seed_{index} is trained' for index in range(3)
    ]
    # 50 steps of 2 seconds, whichever member they belong to.
    assert shown[0, 5] == pytest.approx(90) and shown[1, 5] == pytest.approx(30)


def test_work_that_was_abandoned_within_other_work_disturbs_no_later_work():
    stream, clock = io.StringIO(), Clock()

    def parts():
        with clock.bar('part', 10, stream=stream) as bar:
            bar.update(1)
            yield

    abandoned = parts()
    with clock.bar('whole', 2, stream=stream):
        next(abandoned)
    with clock.bar('later', 2, stream=stream) as bar:
        bar.update(2)
        abandoned.close()
    assert 'later 2/2' in stream.getvalue().splitlines()[-1]
    assert not progress._OPEN.bars


def test_one_task_is_shown_by_what_is_within_it(monkeypatch):
    stream, clock = Terminal(), Clock()
    with clock.bar('check', 1, stream=stream), clock.bar('mlm', 10, stream=stream) as bar:
        bar.update(5, loss=4.5, tokens_per_second=2e6, description='set [/x]')
        bar.log('a line [with brackets]')
        bar.update(10)
    shown = stream.getvalue()
    assert '10/10' in shown and 'loss 4.500' in shown and '2M tokens/s' in shown
    assert '\x1b[' in shown and 'a line [with brackets]' in shown and 'set [/x]' in shown
    assert 'check' not in shown


@pytest.mark.parametrize('steps', [0, 1])
def test_a_log_says_nothing_of_work_that_is_done_at_once(steps):
    stream = io.StringIO()
    with progress.Progress('check', steps, stream=stream) as bar:
        bar.update(steps)
    assert stream.getvalue() == ''


def test_a_log_on_a_full_disk_ends_no_work():
    class Full(io.StringIO):
        def flush(self):
            raise OSError(errno.ENOSPC, 'No space left on device')

    with progress.Progress('a', 2, stream=Full()) as bar:
        bar.log('a line')


def test_a_dumb_terminal_gets_plain_lines(monkeypatch):
    monkeypatch.setenv('TERM', 'dumb')
    stream = Terminal()
    with progress.Progress('mlm', 2, stream=stream) as bar:
        bar.update(2)
    assert stream.getvalue() == 'mlm 2/2  100%  0:00 elapsed\n'


def test_a_notebook_has_one_line_that_changes(monkeypatch, capsys):
    shown = []

    def display(content, raw, display_id):
        shown.append(content)
        return types.SimpleNamespace(update=lambda content, raw: shown.append(content))

    shell = types.SimpleNamespace(kernel='a kernel')
    library = types.SimpleNamespace(
        get_ipython=lambda: shell, display=types.SimpleNamespace(display=display)
    )
    monkeypatch.setitem(sys.modules, 'IPython', library)
    clock = Clock()
    with clock.bar('mlm', 100, stream=None) as bar:
        bar.log('compiling')
        for step in range(1, 101):
            clock.time += 0.125
            bar.update(step)
    assert len(shown) == 27 and capsys.readouterr() == ('compiling\n', '')
    assert shown[-1] == {'text/plain': 'mlm 100/100  100%  0:12 elapsed'}
    assert not any('\x1b' in one['text/plain'] for one in shown[1:])


def test_compiling_is_measured_once_however_it_is_nested():
    before = progress._compiled()
    listener = progress._Compiling()
    jax.monitoring.register_event_duration_secs_listener(listener)
    jax.jit(lambda x: jax.jit(jnp.tanh)(x) @ x)(jnp.ones((7, 7)))
    assert 0 < listener.seconds <= progress._compiled() - before + 1e-3
    for name, took in [('inner', 1.0), ('outer', 3.0)]:  # both end now
        listener(f'/jax/core/compile/{name}', took)
    spans = [took for _, took in listener._spans]
    assert spans[-1] == 3.0 and listener.seconds == pytest.approx(sum(spans))


def test_a_table_in_a_file_is_plain_aligned_and_unwrapped(capsys):
    rows = [['untrained', 7.65, None], ['clm [x]', 4.3125, 819]]
    rows += [['a name of many words ' * 9, 0.5, 12]]
    console.table('Held out [/x]', ['model', 'loss', 'tokens'], rows)
    printed = capsys.readouterr().out
    shown = filter(str.strip, printed.splitlines())
    title, head, line, first, *rest = shown
    assert title.strip() == 'Held out [/x]' and set(line.strip()) == {'─'}
    assert head.split() == ['model', 'loss', 'tokens']
    assert first.split() == ['untrained', '7.650', '–']
    ends = head.index('loss') + 4, first.index('7.650') + 5, rest[0].index('4.312') + 5
    assert len(set(ends)) == 1
    assert rest[1].split() == [*('a name of many words ' * 9).split(), '0.500', '12']
    assert '\x1b' not in printed
