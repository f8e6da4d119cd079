"""Charts of an analysis show the given values, and distinguish controls."""

import itertools

import numpy as np
import pytest

from jepa_text.analysis import figures
from jepa_text.report import plots

pytest.importorskip('matplotlib')
MODELS = ['mlm', 'clm']
SUBJECTS = [('mlm', ''), ('mlm', 'untrained'), ('mlm', 'bag of embeddings'), ('clm', '')]
SUBJECTS += [('', 'TF-IDF'), ('', 'largest class')]
POINT = (0.5, 0.4, 0.6)
MAKERS = {
    'plane': lambda: figures.plane(
        dict.fromkeys(SUBJECTS, (POINT, (-1.0, -1.1, -0.9))), 'Plane', MODELS
    ),
    'dots': lambda: figures.dots(
        {'probe': dict.fromkeys(SUBJECTS, POINT), 'words': {('mlm', ''): POINT}},
        'Dots',
        'accuracy',
        MODELS,
    ),
    'eigenspectra': lambda: figures.eigenspectra(
        {('mlm', ''): [4.0, 1.0, 0.0], ('clm', ''): [0.0]}, 'Spectra', MODELS
    ),
    'similarity': lambda: figures.similarity_map(
        np.eye(3), 'CKA', 'mlm', 'clm', [range(3)] * 2
    ),
}


def labeled(figure):
    lines = figure.axes[0].lines
    return {line.get_label(): line for line in lines if line.get_label()[0] != '_'}


def test_each_value_has_its_own_line():
    (axes,) = MAKERS['dots']().axes
    marks = [line for line in axes.lines if line.get_marker() not in ('None', '')]
    places = {float(line.get_ydata()[0]) for line in marks}
    assert len(places) == len(SUBJECTS) + 1
    bottom, top = axes.get_ylim()
    assert top < 0 and bottom > max(places)


@pytest.mark.parametrize('name', ['plane', 'dots'])
def test_controls_are_hollow_with_the_color_of_their_model(name):
    marks = labeled(MAKERS[name]())
    assert marks['mlm'].get_color() == marks['mlm, untrained'].get_color()
    assert marks['mlm'].get_color() != marks['clm'].get_color()
    assert marks['mlm'].get_markerfacecolor() == marks['mlm'].get_color()
    assert marks['mlm, untrained'].get_markerfacecolor() == 'white'
    assert marks['TF-IDF'].get_color() == plots.MUTED
    shapes = {marks[figures.label(*subject)].get_marker() for subject in SUBJECTS}
    assert len(shapes) == 4


def test_values_and_intervals_are_drawn_correctly():
    marks = labeled(MAKERS['plane']())
    assert marks['mlm'].get_xydata().tolist() == [[0.5, -1.0]]
    axes = MAKERS['dots']().axes[0]
    assert list(axes.lines[0].get_xdata()) == [0.4, 0.6]
    assert [t.get_text() for t in axes.get_yticklabels()] == ['probe', 'words']
    share = labeled(MAKERS['eigenspectra']())['mlm']
    np.testing.assert_allclose(share.get_ydata(), [0.8, 0.2])


def test_maps_are_of_first_seeds_and_of_the_first_two_of_a_model():
    sides = [(model, seed) for model in 'ab' for seed in (0, 1, 2)]
    pairs = itertools.combinations_with_replacement(sides, 2)
    maps = [dict(sides=pair, layers=[[0, 4]] * 2, values=np.eye(2)) for pair in pairs]
    results = dict(models=dict(enumerate(sides)), similarity=maps, tasks=[dict(name='t')])
    section = figures.similarity(results)
    titles = [figure.get_suptitle() for figure in section['figures']]
    assert [t.removeprefix('Unbiased CKA ') for t in titles] == [
        'within a',
        'of a seed 0 and a seed 1',
        'of a and b',
        'within b',
        'of b seed 0 and b seed 1',
    ]
    axes = section['figures'][0].axes[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == ['0', '4']


def test_models_whose_long_names_differ_in_the_middle_are_told_apart():
    models = [f'experiment_of_november_{n}_on_muon_seq512_tied' for n in ('mlm', 'clm')]
    drawn = figures.dots({'a': {(name, ''): POINT for name in models}}, '', '', models)
    cut = 'experiment_of_no…on_muon_seq512_tied'
    legend = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert legend == [cut, f'{cut} (2)']
    maps = [dict(sides=[(name, 0) for name in models], layers=[[0]] * 2, values=[[1]])]
    given = dict(models={n: (n, 0) for n in models}, tasks=[dict(name='t')])
    (one,) = figures.similarity(given | dict(similarity=maps))['figures']
    assert one.get_suptitle() == f'Unbiased CKA of {cut} and {cut} (2)'


def test_similarity_map_shows_numbers_if_legible():
    assert {t.get_text() for t in MAKERS['similarity']().axes[0].texts} == {'1.00', '.00'}
    many = figures.similarity_map(np.zeros((20, 20)), '', '', '', [range(20)] * 2)
    assert not many.axes[0].texts
