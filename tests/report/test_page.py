"""HTML pages are valid, escaped, self-contained and written atomically."""

import html.parser
import math
import os
import re

import numpy as np
import pytest

from jepa_text.report import page as report
from jepa_text.report import plots

NASTY = '<script>alert("x")</script> & \'y\''
VOID = {'meta', 'link', 'br', 'img', 'input', 'hr'}


class Page(html.parser.HTMLParser):
    """Checks that tags are nested correctly; collects tags, ids and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.text, self.links = [], [], [], '', []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.ids += [value for name, value in attributes if name == 'id']
        self.links += [
            v for name, v in attributes if name in ('src', 'href', 'xlink:href')
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

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
            'facts': [{'value': '4.31', 'label': NASTY, 'note': NASTY}],
            'table': {
                'columns': ['model', 'loss', NASTY],
                'rows': [[NASTY, 5.67, None], ['clm', -4.3, 'a']],
                'best': {'loss': 'min'},
                'note': NASTY,
            },
            'predictions': [
                {
                    'before': NASTY,
                    'target': 'whale',
                    'after': NASTY,
                    'models': {NASTY: [(NASTY, 0.5), (' whale', 0.251), ('of', 0.004)]},
                }
            ],
            'details': {NASTY: {'b': NASTY, 'a': [1]}, 'plain': NASTY},
        },
        {'table': {'columns': ['a'], 'rows': [['long ' * 9]], 'fold': NASTY}},
        {'heading': 'Curves', 'figures': [plots.curves(runs, NASTY, 'y')] * 2},
    ]


@pytest.fixture
def page(tmp_path):
    path = report.write(tmp_path / 'new' / 'r.html', NASTY, NASTY, sections(), NASTY)
    return path.read_text(encoding='utf-8')


def test_everything_is_escaped_and_every_tag_is_closed(page):
    parsed = Page(page)
    assert 'script' not in parsed.tags
    assert parsed.text.count('<script>') >= 15
    assert 'style' in parsed.tags and parsed.tags.count('svg') == 2


def test_no_external_resources_are_loaded(page):
    parsed = Page(page)
    assert all(link.startswith('#') for link in parsed.links)
    urls = re.findall(r'url\(([^)]*)', page)
    assert urls and all(url.startswith('#') for url in urls)
    assert not re.search(r'@import|<link|<img|<iframe', page)


def test_ids_are_unique_and_references_resolve(page):
    parsed = Page(page)
    assert len(set(parsed.ids)) == len(parsed.ids)
    wanted = {link[1:] for link in parsed.links} | set(re.findall(r'url\(#([^)]*)', page))
    assert wanted <= set(parsed.ids)


def test_the_same_results_give_the_same_page(tmp_path, page):
    again = report.write(tmp_path / 'again.html', NASTY, NASTY, sections(), NASTY)
    assert again.read_text(encoding='utf-8') == page


def table_of(**table):
    return report._table(table)


def test_floats_of_a_column_have_equally_many_decimals():
    def shown(*values):
        drawn = table_of(columns=['x'], rows=[[value] for value in values])
        return re.findall(r'<td[^>]*>(.*?)</td>', drawn)

    assert shown(7.65, 4.3, None) == ['7.650', '4.300', '–']
    assert shown(-12.34, 100.0) == ['−12.3', '100.0']
    assert shown(12345.6, 7) == ['12,346', '7']
    assert shown(0.003, 0.00015) == ['0.00300', '0.00015']
    assert shown(0.0, float('nan'), float('inf')) == ['0.000', 'nan', 'inf']
    assert shown(True, 'x-y') == ['True', 'x-y']


def test_numbers_are_right_aligned_and_texts_left_aligned():
    drawn = table_of(columns=['name', 'x'], rows=[['a', 1], ['b', None]])
    assert drawn.count('class="n"') == 3  # one header cell, two cells


@pytest.mark.parametrize(('direction', 'expected'), [('min', '1'), ('max', '3')])
def test_the_best_number_is_bold(direction, expected):
    rows = [['a', 3], ['b', 1], ['c', None], ['d', 2], ['e', float('nan')]]
    drawn = table_of(columns=['m', 'x'], rows=rows, best={'x': direction})
    assert re.findall(r'<b>(.*?)</b>', drawn) == [expected]


@pytest.mark.parametrize(
    'values, intervals, bold',
    [
        # Ties in the shown text: there is no best one.
        ([1.0, 1.0, 2.0], None, []),
        ([1.0001, 1.0002, 2.0], None, []),
        ([1.0, 1.1, 2.0], None, ['1.000']),
        # The interval overlaps with another.
        ([1.0, 1.1, 2.0], [(0.9, 1.1), (1.0, 1.2), (1.9, 2.1)], []),
        ([1.0, 1.1, 2.0], [(0.99, 1.01), (1.09, 1.11), None], ['1.000']),
        ([1.0, 1.1, 2.0], [(0.9, 1.15), None, None], []),
        # A wide interval of a lower mean, behind a narrow one.
        ([1.0, 1.5, 2.0], [(0.9, 1.1), (1.4, 1.6), (0.5, 3.5)], []),
        ([1.0], [(0.9, 1.1)], ['1.000']),
        ([math.nan, 1.0], None, ['1.000']),
    ],
)
def test_ties_and_noise_are_not_best(values, intervals, bold):
    for sign, direction in ((1, 'min'), (-1, 'max')):
        rows = [[sign * value] for value in values]
        spans = intervals and [
            span and tuple(sorted(sign * x for x in span)) for span in intervals
        ]
        drawn = table_of(
            columns=['x'],
            rows=rows,
            best={'x': direction},
            intervals={'x': spans} if spans else None,
        )
        found = re.findall(r'<b>−?(.*?)</b>', drawn)
        assert found == bold, (sign, direction)


def test_one_interval_for_each_row():
    with pytest.raises(ValueError, match="'x' has 1 intervals for 2 rows"):
        table_of(
            columns=['x'],
            rows=[[1.0], [2.0]],
            best={'x': 'max'},
            intervals={'x': [(0.9, 1.1)]},
        )


def test_right_guesses_are_marked_and_bars_have_the_probability():
    guesses = [('whale', 0.25), ('of', 0.004), ('the', 0.0)]
    drawn = report._prediction(
        {'before': 'the ', 'target': 'whale', 'after': '.', 'models': {'mlm': guesses}}
    )
    assert drawn.count('class="hit"') == 1 and '--p:25.0%' in drawn
    assert re.findall(r'<em>(.*?)</em>', drawn) == ['25 %', '&lt;1 %', '0 %']
    assert '<mark>whale</mark>' in drawn


@pytest.mark.parametrize(
    ('section', 'message'),
    [
        ({'headnig': 'x'}, "section 0 has no key 'headnig'. Its keys are: heading"),
        ({'table': {'columns': [], 'rows': [], 'title': 1}}, "table has no key 'title'"),
        (
            {'table': {'columns': ['a', 'b'], 'rows': [[1]]}},
            'a, b has a row with 1 cells',
        ),
        (
            {'table': {'columns': ['a'], 'rows': [[1]], 'best': {'b': 'min'}}},
            'expected one of the columns',
        ),
        (
            {'table': {'columns': ['a'], 'rows': [[1]], 'best': {'a': 'low'}}},
            "or 'max'|be",
        ),
        ({'facts': [{'number': 1}]}, "fact has no key 'number'"),
        ({'predictions': [{'sentence': ''}]}, "prediction has no key 'sentence'"),
        ({'figures': ['loss.png']}, 'str is not a matplotlib figure'),
    ],
)
def test_bad_sections_raise_and_leave_the_old_page(tmp_path, section, message):
    path = tmp_path / 'report.html'
    path.write_text('old')
    with pytest.raises(ValueError, match=message):
        report.write(path, 't', 'l', [section])
    assert path.read_text() == 'old' and os.listdir(tmp_path) == ['report.html']


def test_others_may_read_the_page(tmp_path):
    path = report.write(tmp_path / 'report.html', 't', 'l', [])
    assert path.stat().st_mode & 0o444 == 0o444
