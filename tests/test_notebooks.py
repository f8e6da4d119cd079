"""Notebooks are whole, small and clean; their runner fails where a reader would."""

import ast
import importlib.util
import inspect
import json
import re

import children
import notebooks
import pytest
import readme

import jepa_text

PATHS = sorted((notebooks.ROOT / 'colabs').glob('*.ipynb'))


def cells_of(path):
    """The cells of code of a notebook."""
    return notebooks.code_cells(json.loads(path.read_text(encoding='utf-8')))


def saved(folder, *cells):
    """A notebook of these cells of code."""
    made = [{'cell_type': 'code', 'source': [code]} for code in cells]
    path = folder / 'made.ipynb'
    path.write_text(json.dumps({'cells': made}))
    return path


@pytest.mark.parametrize('path', PATHS, ids=lambda path: path.stem)
def test_a_notebook_is_as_it_ran(path):
    cells = cells_of(path)
    assert [cell['execution_count'] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output['output_type'] for cell in cells for output in cell['outputs']}
    assert 'error' not in kinds
    assert any('image/png' in o.get('data', {}) for c in cells for o in c['outputs'])
    assert path.stat().st_size <= 1000 * notebooks.MAX_KB


def test_short_runs_are_shorter_and_elsewhere():
    for path in PATHS:
        cells = cells_of(path)
        long, short = (
            '\n'.join(notebooks.program(cell, quick) for cell in cells)
            for quick in (False, True)
        )
        trains = 'jt.train' in long
        assert ('steps=320' in long, 'steps=40' in short) == (trains, trains)
        assert 'steps=320' not in short
        tunes = 'jt.evaluate' in long
        assert ('(3e-4, 1e-3, 3e-3)' in long) == tunes
        assert (', (1e-3, 3e-3)\n' in short) == tunes
        assert 'runs/colabs/' not in short


def test_all_notebooks_install_the_wheel_of_this_version():
    (first,) = {''.join(cells_of(path)[0]['source']) for path in PATHS}
    setup = (notebooks.ROOT / 'setup.py').read_text(encoding='utf-8')
    (version,) = re.findall(r"\bversion='(.+)'", setup)
    assert f"# %pip install -q 'jepa_text-{version}-py3-none-any.whl[" in first


def missing(code):
    """The names that code takes from jepa_text and that are not there."""
    tree, found, absent = ast.parse(code), {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named = {alias.name: alias.asname for alias in node.names}
            found |= {named[name]: jepa_text for name in named if name == 'jepa_text'}
        if isinstance(node, ast.ImportFrom) and node.module.startswith('jepa_text'):
            home = importlib.import_module(node.module)
            for alias in node.names:
                name = f'{node.module}.{alias.name}'
                if not hasattr(home, alias.name) and importlib.util.find_spec(name):
                    importlib.import_module(name)
                absent += [] if hasattr(home, alias.name) else [name]
                found[alias.asname or alias.name] = getattr(home, alias.name, None)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = found.get(node.value.id)
            if inspect.ismodule(module) and not hasattr(module, node.attr):
                absent.append(f'{module.__name__}.{node.attr}')
    return absent


@pytest.mark.parametrize('path', PATHS, ids=lambda path: path.stem)
def test_what_a_notebook_takes_from_the_package_is_there(path):
    cells = cells_of(path)
    assert not missing('\n'.join(map(notebooks.program, cells)))


def test_what_the_pages_take_from_the_package_is_there():
    for path in readme.pages():
        text = path.read_text(encoding='utf-8')
        codes = [code for language, code in readme.blocks(text) if language == 'python']
        for code in [*codes, *readme.files(text).values()]:
            assert not missing(code), path


def test_a_name_that_is_gone_is_found():
    code = 'from jepa_text import losses as l, gone\nl.gone()\nl.select\n'
    code += 'import jepa_text as jt\njt.train\njt.trains'
    gone = {'jepa_text.gone', 'jepa_text.losses.gone', 'jepa_text.trains'}
    assert {*missing(code)} == gone


def test_cells_share_names_and_show_what_they_print_and_end_with(tmp_path):
    path = saved(tmp_path, '%magic\nx = 20\nprint("one")\nx + 1', 'x * 2')
    notebooks.run(path, write=True)
    one, two = cells_of(path)
    stream, result = one['outputs']
    assert stream == {'output_type': 'stream', 'name': 'stdout', 'text': 'one\n'}
    assert result['data'] == {'text/plain': '21'}
    assert two['outputs'][0]['data'] == {'text/plain': '40'}
    assert (one['execution_count'], two['execution_count']) == (1, 2)


def test_figures_become_pictures_and_tables_html(tmp_path):
    pytest.importorskip('matplotlib')
    figure = 'from matplotlib.figure import Figure\nFigure((2, 1))'
    table = 'class T:\n    def _repr_html_(self):\n        return "<b>"\ndisplay(T())'
    path = saved(tmp_path, figure, table)
    notebooks.run(path, write=True)
    one, two = cells_of(path)
    assert one['outputs'][0]['data']['image/png'].startswith('iVBOR')
    assert one['outputs'][0]['metadata']['image/png'] == {'width': 144, 'height': 72}
    assert two['outputs'][0]['data']['text/html'] == '<b>'


@pytest.mark.parametrize(
    'code, error, message',
    [
        ('1 / 0', ZeroDivisionError, 'division'),
        ('print("x" * 500_000)', ValueError, 'would have 500 kB'),
    ],
)
def test_what_a_reader_would_mind_fails_and_changes_nothing(
    tmp_path, code, error, message
):
    path = saved(tmp_path, code)
    before = path.read_text()
    with pytest.raises(error, match=message):
        notebooks.run(path, write=True)
    assert path.read_text() == before


def test_a_notebook_that_warns_fails_the_program(tmp_path):
    path = saved(tmp_path, 'import warnings\nwarnings.warn("old")')
    assert 'cell 1 warns' in children.run(notebooks.__file__, path, code=1).stderr
