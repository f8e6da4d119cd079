"""Figures of several seeds, and the Markdown of a page."""

import numpy as np
import pytest

from jepa_text.measures.statistics import Interval
from jepa_text.report import bands, markdown, page, plots


def named(figure):
    lines = figure.axes[0].get_lines()
    return {one.get_label(): one for one in lines if one.get_label()[0] != '_'}


def test_a_line_is_the_mean_and_its_band_the_range_of_the_seeds():
    values_SN = np.array([[3.0, 2.0, 1.0], [5.0, 4.0, 3.0], [4.0, 3.0, 5.0]])
    figure = bands.bands({'a': ([10, 20, 40], values_SN)}, 'loss', 'nats', 'steps')
    np.testing.assert_allclose(named(figure)['a'].get_ydata(), [4, 3, 3])
    (band,) = figure.axes[0].collections
    corners = band.get_paths()[0].vertices
    for x, low, high in ((10, 3, 5), (20, 2, 4), (40, 1, 5)):
        at = corners[corners[:, 0] == x, 1]
        assert (at.min(), at.max()) == (low, high)


def test_values_and_x_must_have_the_same_length():
    with pytest.raises(
        ValueError, match=r"'a' has x of shape \(3,\) but values of shape \(1, 2\)"
    ):
        bands.bands({'a': ([1, 2, 3], [[1.0, 2.0]])}, 'loss', '', 'steps')
    # A run without results does not change the colors of the others.
    figure = bands.bands({'a': ([], [[]]), 'b': ([1], [[2.0]])}, 'loss', '', 'steps')
    assert list(named(figure)) == ['b']
    assert named(figure)['b'].get_color() == plots.shade(1)


def test_means_are_plotted_over_x_with_their_interval():
    found = {0.5: Interval(2.0, 1.0, 3.0), 0.2: Interval(4.0, 3.5, 4.5)}
    figure = bands.errors({'mlm': found}, 'rate', 'loss', 'masked', percent=True)
    line = named(figure)['mlm']
    np.testing.assert_allclose(line.get_xydata(), [[0.2, 4.0], [0.5, 2.0]])
    ends = [
        list(one.get_ydata()) for one in figure.axes[0].get_lines() if one is not line
    ]
    assert ends == [[3.5, 4.5], [1.0, 3.0]]
    figure.canvas.draw()
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert all(label.endswith('%') for label in labels)


def test_controls_are_hollow():
    means = {'TF-IDF': Interval(0.5, np.nan, np.nan), 'a': Interval(0.6, 0.5, 0.7)}
    figure = bands.dots(means, 'probes', 'score', ['TF-IDF'], ['a'])
    faces = [line.get_markerfacecolor() for line in figure.axes[0].get_lines()]
    assert faces.count('white') == 1
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ['TF-IDF', 'a']


def test_markdown_has_what_the_page_shows(tmp_path):
    made = {
        'columns': ['', 'loss', 'note'],
        'rows': [['a|b', 2.0, None], ['c', -0.25, 'x']],
        'note': 'Nats.',
    }
    figure, _ = plots.blank('Loss', 'nats', 'steps')
    sections = [
        {'facts': [{'value': '5', 'label': 'seeds', 'note': 'of two runs'}]},
        {'heading': 'Losses', 'text': 'All of them.', 'table': made},
        {'heading': 'Curves', 'figures': [figure]},
        {'heading': 'How', 'details': {'config': {}}},
    ]
    page.write(tmp_path / 'page.html', 'T', 'Lead.', sections)
    text = markdown.write(tmp_path / 'out.md', 'T', 'Lead.', sections).read_text()
    assert text.startswith('# T\n\nLead.\n\n- 5 seeds (of two runs)\n\n## Losses\n')
    assert '|  | loss | note |\n| --- | ---: | --- |\n' in text
    assert '| a\\|b | 2.000 | – |\n| c | −0.250 | x |\n\nNats.' in text
    assert text.endswith('## Curves\n\n![Loss](figures/02-0.svg)\n')
    first = (tmp_path / 'figures' / '02-0.svg').read_bytes()
    markdown.write(tmp_path / 'out.md', 'T', 'Lead.', sections)
    assert b'<dc:date>' not in first and '2.000' in (tmp_path / 'page.html').read_text()
