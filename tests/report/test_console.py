"""Aligned tables."""

import io

from jepa_text.report import console


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
