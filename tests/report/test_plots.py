"""Figures contain the given numbers, are deterministic and leave no global state."""

import io
import itertools
import sys

import children
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text.report import plots

pytest.importorskip('matplotlib')
STEPS = np.arange(10)
RUNS = {'mlm': (STEPS, 7 - 0.1 * STEPS), 'clm': (STEPS, 7 - 0.3 * STEPS)}


def png(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format='png', metadata={'Software': None})
    return buffer.getvalue()


def lines(figure):
    return {line.get_label(): line for line in figure.axes[0].lines}


def texts(figure):
    return {text.get_text() for text in figure.axes[0].texts}


MAKERS = {
    'no data': lambda: plots.curves({}, 'Loss', ''),
    'curves': lambda: plots.curves(RUNS, 'Loss', 'nats', {'unigram': 6.4}),
    'spectra': lambda: plots.curves({'a': ([1, 2], [3.0, 1.0])}, 'S', '', log='xy'),
    'errors': lambda: plots.errors({'a': {1: 2.0, 3: (1.0, 0.5, 2.0)}}, 'E', '', ''),
    'dots': lambda: plots.dots({'g': {'a': 2.0}}, 'D', '', plots.styles(['a'])),
}


@pytest.mark.parametrize('name', MAKERS)
def test_a_figure_can_be_drawn_and_is_the_same_every_time(name):
    first = png(MAKERS[name]())
    assert first.startswith(b'\x89PNG') and first == png(MAKERS[name]())


def test_curves_draw_the_values_with_their_references():
    figure = MAKERS['curves']()
    for name, (steps, values) in RUNS.items():
        assert_array_equal(lines(figure)[name].get_xdata(), steps)
        assert_array_equal(lines(figure)[name].get_ydata(), values)
    assert texts(figure) == {'unigram'}
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ['mlm', 'clm']
    assert figure.axes[0].get_ylabel() == 'nats' and figure.get_suptitle() == 'Loss'


def test_curves_that_coincide_are_all_seen():
    """Those drawn over others are thinner. A first underscore hides no name."""
    figure = plots.curves(dict.fromkeys(('_a', 'b', 'c'), RUNS['mlm']), '', '')
    widths = [line.get_linewidth() for line in figure.axes[0].lines]
    assert widths[0] > widths[1] > widths[2]
    names = [text.get_text().strip() for text in figure.legends[0].get_texts()]
    assert names == ['_a', 'b', 'c']


def test_a_run_keeps_its_color_when_others_are_empty_or_baselines_come_first():
    empty = {'mlm': ((), ()), 'clm': RUNS['clm']}
    drawn = RUNS, empty, {'untrained': RUNS['mlm'], **RUNS}
    colors = [lines(plots.curves(x, '', ''))['clm'].get_color() for x in drawn]
    assert len(set(colors)) == 1
    assert lines(plots.curves(RUNS, '', ''))['mlm'].get_color() != colors[0]


@pytest.mark.parametrize('points', [5, 30])
def test_all_runs_have_different_styles(points):
    steps = np.arange(points)
    many = {f'run {i}': (steps, steps * (i + 1.0)) for i in range(24)}
    drawn = lines(plots.curves(many, '', ''))
    styles = {
        (line.get_color(), str(line._dash_pattern), line.get_marker())
        for line in drawn.values()
    }
    assert len(styles) == 24
    # In grayscale, runs of the same hue differ in dashes and markers.
    same_hue = [drawn[f'run {i}'] for i in (0, 6, 12, 18)]
    assert len({str(line._dash_pattern) for line in same_hue}) == 4


def test_a_line_is_the_mean_and_its_band_the_range_of_the_seeds():
    values_SN = np.array([[3, 2, 1, 1], [5, 4, 3, np.nan], [4, 3, 5, 5]])
    figure = plots.curves({'a': ([10, 20, 40, 80], values_SN)}, 'loss', 'nats')
    # One that diverged is not left out of the mean.
    assert_allclose(lines(figure)['a'].get_ydata(), [4, 3, 3, np.nan])
    (band,) = figure.axes[0].collections
    corners = band.get_paths()[0].vertices
    for x, low, high in ((10, 3, 5), (20, 2, 4), (40, 1, 5)):
        at = corners[corners[:, 0] == x, 1]
        assert (at.min(), at.max()) == (low, high)


def test_means_are_plotted_over_x_with_their_interval():
    found = {0.5: (2.0, 1.0, 3.0), 0.2: (4.0, 3.5, 4.5)}
    figure = plots.errors({'mlm': found}, 'rate', 'loss', 'x', flat={'it': 9.0})
    assert lines(figure)['mlm'].get_xydata().tolist() == [[0.2, 4.0], [0.5, 2.0]]
    (intervals,) = figure.axes[0].collections
    ends = [path.vertices[:, 1].tolist() for path in intervals.get_paths()]
    assert ends == [[3.5, 4.5], [1.0, 3.0]] and 'it' in lines(figure)
    png(figure)
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert labels == ['0.2', '0.5']
    # Without an interval, its ends are the value.
    assert plots.ends((0.5, np.nan, None)) == plots.ends(0.5) == (0.5, 0.5, 0.5)


def test_controls_are_hollow():
    means = {'TF-IDF': {'TF-IDF': 0.5}, 'a': {'a': (0.6, 0.5, 0.7)}}
    looks = plots.styles(means, ['TF-IDF'])
    figure = plots.dots(means, 'probes', 'score', looks, has_legend=False)
    faces = [line.get_markerfacecolor() for line in figure.axes[0].get_lines()]
    assert faces.count('white') == 1 and not figure.legends
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ['TF-IDF', 'a']


@pytest.mark.filterwarnings('error')  # axes without room
def test_a_name_as_long_as_a_study_allows_leaves_room_for_its_dots():
    means = {name: {name: 0.5} for name in ('_' * 100, 'b' * 100)}
    figure = plots.dots(means, 'probes', 'score', plots.styles(means), has_legend=False)
    assert all('…' in text for text in boxes_of(figure) if len(text) > 20)
    assert figure.axes[0].get_window_extent().width > 100


def test_a_run_of_unequal_lengths_raises():
    for values, shape in (([1, 2], '2,'), ([[1, 2]], '1, 2')):
        words = rf"run 'a' has steps of shape \(3,\) .* \({shape}\)"
        with pytest.raises(ValueError, match=words):
            plots.curves({'a': ([1, 2, 3], values)}, 'Loss', '')


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, 'matplotlib.figure', None)
    with pytest.raises(ImportError, match=r'jepa-text\[viz\]'):
        plots.curves(RUNS, '', '')


def test_pyplot_is_never_imported(tmp_path):
    code = (
        'import sys\n'
        'from jepa_text.report import plots\n'
        'plots.curves({"a": ([0, 1], [1, 2])}, "t", "y").savefig(sys.argv[1])\n'
        'assert "matplotlib.pyplot" not in sys.modules\n'
    )
    children.run('-c', code, tmp_path / 'x.png')


def test_a_constant_with_rounding_is_drawn_flat():
    steps = np.arange(50)
    values = 0.5 + 1e-8 * (steps % 2)
    axes = plots.curves({'run': (steps, values)}, 'lambda', '').axes[0]
    low, high = axes.get_ylim()
    assert low < 0 < 0.5 < 1 < high


NAMES = 'clm25_42k', 'a model of a name, bag of embeddings', 'x', 'mlm, untrained'


@pytest.mark.parametrize('count', [1, 3, 4])
@pytest.mark.parametrize('kind', ['curves', 'errors', 'dots'])
def test_no_text_of_a_figure_overlaps_another_or_its_edge(kind, count):
    """With axes that are labelled, and a description for who does not see it."""
    intervals = {x: (x / 7, x / 8, x / 6) for x in (1e-5, 2e-5, 5e-5, 1e-4)}
    drawn = {
        'curves': lambda own: plots.curves(
            {name: ([1, 1000, 20_000], [5.0, 4.0, n]) for n, name in enumerate(own)},
            *('Held-out masked loss, one position before', 'nats per token'),
            *({'unigram entropy': 4.5}, 'FLOPs'),
        ),
        'errors': lambda own: plots.errors(
            dict.fromkeys(own, intervals), 'Rates', 'accuracy', 'learning rate', log=True
        ),
        'dots': lambda own: plots.dots(
            {name: {'x': (0.5, 0.4, 0.6)} for name in own},
            *('Masked loss', 'nats per token', plots.styles(['x'])),
        ),
    }[kind](NAMES[:count])
    described = plots.described(drawn)
    assert all(one in described for one in NAMES[:count] if kind != 'dots')
    boxes = boxes_of(drawn)
    for (first, one), (second, two) in itertools.combinations(boxes.items(), 2):
        assert not one.overlaps(two), (first, second)
    for name, box in boxes.items():
        corners = [*box.min, *(drawn.bbox.max - box.max)]
        assert min(corners) > -1, name


def boxes_of(figure):
    """{text: its box} of all that is drawn."""
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert axes.get_xlabel() and (axes.get_ylabel() or axes.get_yticklabels())
    found = [figure._suptitle, axes.xaxis.label, axes.yaxis.label, *axes.texts]
    found += [one for legend in figure.legends for one in legend.get_texts()]
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        # Others are not drawn.
        found += [t.label1 for t in axis.get_major_ticks() if low <= t.get_loc() <= high]
    found = [one for one in found if one.get_text().strip()]
    return {one.get_text(): one.get_window_extent() for one in found}
