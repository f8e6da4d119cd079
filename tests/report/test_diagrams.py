"""Diagrams of objectives contain the given tokens, and fit."""

import io

import numpy as np
import pytest

from jepa_text.report import diagrams

pytest.importorskip('matplotlib')
READS = [('You', 'read'), ('<mask>', 'masked'), ('.', 'read')]
PREDICTS = [('', ''), ('know', 'token predicted'), ('', '')]


def texts(figure):
    (table,) = figure.axes[0].tables
    return {at: cell.get_text().get_text() for at, cell in table.get_celld().items()}


def test_tokens_are_drawn_line_by_line_below_their_headings():
    figure = diagrams.positions({'reads': READS, 'predicts': PREDICTS}, 'MLM')
    words = [texts(figure)[line, 0] for line in range(4)]
    assert words == ['reads', 'You', '<mask>', '.']
    assert texts(figure)[2, 1] == 'know'
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ['masked', 'token predicted']


def test_the_attention_mask_is_drawn_as_given():
    sees_LL = np.tri(3, dtype=bool)
    figure = diagrams.positions({'reads': READS}, 'CLM', sees_LL, ['a', 'b', 'c'])
    figure.savefig(io.BytesIO(), dpi=figure.dpi)
    tokens, mask = figure.axes
    (mesh,) = mask.collections
    np.testing.assert_array_equal(mesh.get_array().reshape(3, 3), sees_LL)
    assert [text.get_text() for text in mask.get_xticklabels()] == ['a', 'b', 'c']
    # Line i of the diagram belongs to token i.
    for line in range(3):
        cell = tokens.tables[0][line + 1, 0].get_text().get_window_extent()
        at = mask.transData.transform((0, line + 0.5))[1]
        assert abs((cell.y0 + cell.y1) / 2 - at) < 1.5
