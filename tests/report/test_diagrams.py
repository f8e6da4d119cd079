"""Diagrams of objectives contain the given tokens, and fit."""

import numpy as np
import pytest

from jepa_text.report import diagrams

pytest.importorskip('matplotlib')
READS = [('You', 'read'), ('<mask>', 'masked'), ('.', 'read')]
PREDICTS = [('', ''), ('know', 'token predicted'), ('', '')]


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts if text.get_text()]


def test_tokens_are_drawn_line_by_line_below_their_headings():
    figure = diagrams.positions({'reads': READS, 'predicts': PREDICTS}, 'MLM')
    assert texts(figure) == ['reads', 'You', '<mask>', '.', 'predicts', 'know']
    down = {t.get_text(): t.get_position()[1] for t in figure.axes[0].texts}
    assert down['reads'] < down['You'] < down['<mask>'] == down['know'] < down['.']
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ['masked', 'token predicted']


def test_the_attention_mask_is_drawn_as_given():
    sees_LL = np.tri(3, dtype=bool)
    figure = diagrams.positions({'reads': READS}, 'CLM', sees_LL, ['a', 'b', 'c'])
    (mesh,) = figure.axes[0].collections
    drawn = np.ma.filled(mesh.get_array(), np.nan)
    np.testing.assert_array_equal(np.isfinite(drawn), sees_LL)
    assert texts(figure)[-3:] == ['a', 'b', 'c']
    # Line i of the diagram belongs to token i.
    rows = mesh.get_coordinates()[:, 0, 1]
    middle = dict(zip(['You', '<mask>', '.'], (rows[1:] + rows[:-1]) / 2))
    for text in figure.axes[0].texts[1:4]:
        assert abs(text.get_position()[1] - middle[text.get_text()]) < 0.01


def test_dollar_signs_are_text():
    cells = [('$$', 'read'), ('$\\x$', 'read')]
    figure = diagrams.positions({'reads': cells}, 'CLM', np.tri(2))
    figure.canvas.draw()
    assert texts(figure) == ['reads', '$$', '$\\x$', '$$', '$\\x$']


def test_a_long_title_and_all_kinds_fit_the_figure():
    cells = [('<mask>', kind) for kind in diagrams.KINDS]
    figure = diagrams.positions(
        {'all': cells}, 'A title that is longer than its row ' * 2
    )
    figure.canvas.draw()
    title = figure.texts[0].get_window_extent()
    assert title.x1 <= figure.bbox.x1


@pytest.mark.parametrize(
    ('columns', 'sees_LL', 'message'),
    [
        ({'reads': READS, 'predicts': PREDICTS[:2]}, None, "'reads': 3, 'predicts': 2"),
        ({}, None, 'but their lengths are'),
        ({'reads': READS}, np.eye(2), r'\(2, 2\); expected \(3, 3\), as there are 3'),
        ({'reads': [('You', 'seen')]}, None, r"kinds \['seen'\]; choices: read"),
    ],
)
def test_invalid_diagrams_are_rejected(columns, sees_LL, message):
    with pytest.raises(ValueError, match=message):
        diagrams.positions(columns, 'title', sees_LL)
