"""Pages are valid, escaped, self-contained and atomic; Markdown shows the same."""

import html.parser
import math
import os
import re

import numpy as np
import pytest

from jepa_text.report import page as report
from jepa_text.report import plots, rows_page

NASTY = '<script>alert("x")</script> & \'y\''
VOID = {'meta', 'link', 'br', 'img', 'input', 'hr'}


class Page(html.parser.HTMLParser):
    """Checks that tags are nested correctly; collects tags and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], ''
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def sections():
    steps = np.arange(100)
    runs = {'mlm': (steps, np.sin(steps)), NASTY: (steps, np.cos(steps))}
    return [
        {
            'heading': NASTY,
            'text': f'One `code {NASTY}`.\n\nTwo.',
            'table': {
                'columns': ['model', 'loss', NASTY],
                'rows': [[NASTY, 5.67, None], ['clm', -4.3, 'a']],
                'note': NASTY,
            },
            'details': {NASTY: {'b': NASTY, 'a': [1]}, 'plain': NASTY},
        },
        {'table': {'columns': ['a'], 'rows': [['long ' * 9]], 'fold': NASTY}},
        {'heading': 'Curves', 'figures': [plots.curves(runs, NASTY, 'y')] * 2},
    ]


@pytest.fixture
def page(tmp_path):
    path = report.write(tmp_path / 'new' / 'r.html', NASTY, NASTY, sections(), NASTY)
    return path.read_text(encoding='utf-8')


def test_sample_rows_are_shown_as_they_are(tmp_path):
    size = dict(documents=1, tokens=4, rows=1, bytes=9, efficiency=1.0, lengths=[0, 1])
    rows, manifest = (
        ['run `ls` now', '*a* | b'],
        dict(splits={'train': size}, row_length=8),
    )
    page = rows_page.write(tmp_path / 'r.html', manifest, rows).read_text()
    assert all(f'>{row}<' in page for row in rows)


def test_everything_is_escaped_and_every_tag_is_closed(page):
    parsed = Page(page)
    assert 'script' not in parsed.tags
    assert parsed.text.count('<script>') >= 9
    assert 'style' in parsed.tags and parsed.tags.count('svg') == 2


def test_the_page_refers_only_to_its_own_parts(page):
    used = re.findall(r'(?:src="|href="|url\()([^")]*)', page)
    parts = re.findall(r'\bid="([^"]*)"', page)
    assert used and {one[1:] for one in used} <= {*parts}
    assert all(one.startswith('#') for one in used) and len({*parts}) == len(parts)
    assert not re.search(r'@import|<link|<img|<iframe', page)


def test_the_same_results_give_the_same_page(tmp_path, page):
    again = report.write(tmp_path / 'again.html', NASTY, NASTY, sections(), NASTY)
    assert again.read_text(encoding='utf-8') == page


def drawn(folder, **table):
    """The page of one table."""
    path = report.write(folder / 'table.html', '', '', [{'table': table}])
    return path.read_text(encoding='utf-8')


@pytest.mark.parametrize(
    'values, shown',
    [
        ([7.65, 4.3, None], ['7.650', '4.300', '–']),
        ([-12.34, 100.0], ['−12.3', '100.0']),
        ([12345.6, 7], ['12,346', '7']),
        ([0.003, 0.00015], ['0.00300', '0.00015']),
        ([0.0, math.nan, math.inf], ['0.000', 'nan', 'inf']),
        ([True, 'x-y'], ['True', 'x-y']),
    ],
)
def test_floats_of_a_column_have_equally_many_decimals(tmp_path, values, shown):
    page = drawn(tmp_path, columns=['x'], rows=[[value] for value in values])
    assert re.findall(r'<td[^>]*>(.*?)</td>', page) == shown


def test_numbers_are_right_aligned(tmp_path):
    page = drawn(tmp_path, columns=['m', 'x'], rows=[['a', 3], ['b', None]])
    assert page.count('class="n"') == 3  # one header cell, two cells


def test_a_bad_table_raises_and_leaves_the_old_page(tmp_path):
    path = tmp_path / 'report.html'
    path.write_text('old')
    table = {'columns': ['a', 'b'], 'rows': [[1]]}
    with pytest.raises(ValueError, match='a, b has a row with 1 cells'):
        report.write(path, 't', 'l', [{'table': table}])
    assert path.read_text() == 'old' and os.listdir(tmp_path) == ['report.html']


def test_others_may_read_the_page(tmp_path):
    path = report.write(tmp_path / 'report.html', 't', 'l', [])
    assert path.stat().st_mode & 0o444 == 0o444


def test_markdown_has_what_the_page_shows(tmp_path):
    rows = [['a|b', 2.0, None], ['c', -0.25, 'x']]
    table = {'columns': ['', 'loss', 'note'], 'rows': rows, 'note': 'Nats.'}
    files = []
    for place in ('first', 'second'):
        figure, axes = plots.blank('Loss', 'nats', 'steps')
        axes.plot([0, 1, 2], [3, 2, 1])
        axes.set_xlim(0.5, 1.5)  # clip paths need an id in the file
        shown = [
            {'text': 'One.\n\nTwo.'},
            {'heading': 'Losses', 'text': 'All of them.', 'table': table},
            {'heading': 'Curves', 'figures': [figure]},
            {'heading': 'How', 'details': {'config': {}}},
        ]
        path = tmp_path / place / 'out.md'
        text = report.write_markdown(path, 'T', 'Lead.', shown).read_text()
        drawings = sorted((tmp_path / place / 'figures').iterdir())
        assert [one.name for one in drawings] == ['02-0.pdf', '02-0.svg']
        files.append([one.read_bytes() for one in drawings])
    assert files[0] == files[1] and b'<dc:date>' not in files[0][1]
    assert b'clip-path' in files[0][1] and b'>Loss</text>' in files[0][1]
    assert text.startswith('# T\n\nLead.\n\nOne.\n\nTwo.\n\n## Losses\n')
    assert '|  | loss | note |\n| --- | ---: | --- |\n' in text
    assert '| a\\|b | 2.000 | – |\n| c | −0.250 | x |\n\nNats.' in text
    assert text.endswith('## Curves\n\n![Loss: nats by steps.](figures/02-0.svg)\n')


def test_intervals_use_a_minus_sign():
    assert report.interval_text((0.0, -0.5, 0.5)) == '−0.500 to 0.500'
    assert report.margin_text((0.0, -0.5, 0.5)) == '± 0.500'
    assert report.interval_text((0.0, math.nan, math.nan)) is None


def test_names_that_look_like_markup_are_shown_as_they_are():
    names = ['__mlm__', '*a*', '<mask>', '`b`', 'clm_half_1', '~~c~~', '[d](e)']
    table = {'columns': ['name'], 'rows': [[name] for name in names]}
    text = report.markdown_table(table)
    shown = [line[2:-2] for line in text.splitlines()[2:]]
    expected = r'\_\_mlm\_\_ \*a\* \<mask> \`b\` clm_half_1 \~\~c\~\~ \[d](e)'
    assert shown == expected.split()


def test_every_figure_has_a_text_for_who_does_not_see_it(page):
    shown = re.findall(r'<svg[^>]*>', page)
    assert len(shown) == 2 and all('role="img" aria-label="' in one for one in shown)
    assert 'y by step, of mlm, &lt;script&gt;' in shown[0]


@pytest.mark.parametrize(
    'values, told',
    [
        ({'a': 0.9, 'b': 0.7}, '`b` not beyond'),
        ({'a': 0.9, 'b': 0.95}, 'all beyond'),
        ({'a': 0.8}, 'not beyond'),  # equal is not better
        ({'a': 0.81}, '; beyond'),
        ({'a': 0.1, 'b': 0.2, 'c': math.nan}, 'none better than'),
        (dict.fromkeys('abcde', 0.5) | {'f': 0.9, 'g': 0.1}, '0.900 to `g` 0.100; 6 not'),
    ],
)
def test_scores_are_told_beside_the_strongest_control(values, told):
    values = {name: (x, math.nan, math.nan) for name, x in values.items()}
    controls = {'largest class': 0.5, 'TF-IDF': 0.8, 'lost': math.nan}
    said = report.scores('accuracy', values, controls)
    assert told in said and said.endswith(' the strongest control, TF-IDF, 0.800.')
    losses = report.scores('loss', {'a': (0.4, 0.32, 0.48)}, controls, lower=True)
    assert losses.startswith('loss: `a` 0.400 ± 0.080; better than the strongest control')
    # A control within the interval may be as good.
    for low, which in ((0.79, 'not better'), (0.801, 'better')):
        said = report.scores('accuracy', {'a': (0.81, low, 1.62 - low)}, controls)
        assert f'; {which} than' in said
    losses = report.scores('loss', {'a': (0.4, 0.2, 0.6)}, controls, lower=True)
    assert '; not better than' in losses
    assert report.scores('loss', {'a': (math.nan,) * 3}, controls) == ''
