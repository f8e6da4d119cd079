"""A file imports only from lower layers, and importing costs what it must."""

import ast
import functools
import textwrap
from pathlib import Path

import children
import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / 'jepa_text'

# A folder, or a file beside the folders, imports only from those before it in this list.
# files/ is first, as everything writes whole or not at all.
LAYERS = [
    'files',
    'settings',
    'report',
    'parallel',
    'engine',
    'losses',
    'data',
    'models',
    'optim',
    'objectives',
    'measures',
    'running',
    'hf',
    'pretrained',
    'sklearn',
    'training',
    'evaluation',
    'analysis',
    'planning',
    'study',
    'commands',
    'api',
    'main',
]

FILES = sorted(PACKAGE.rglob('*.py'))


def module_name(path):
    """'data/rows/packing' of jepa_text/data/rows/packing.py."""
    return path.relative_to(PACKAGE).with_suffix('').as_posix()


def layer_of(name):
    """The layer of a file such as 'data/rows/packing'."""
    layer = name.split('/')[0]
    if layer not in LAYERS:
        raise LookupError(
            f'jepa_text/{layer} has no layer: put it into LAYERS of '
            'tests/test_layers.py, after all that it imports.'
        )
    return LAYERS.index(layer)


@functools.cache
def imports():
    """{file: files of the package that it imports}, without the package itself."""
    names = {module_name(path) for path in FILES}
    return {
        module_name(path): imported(path.read_text(encoding='utf-8'), names)
        for path in FILES
        if path.parent != PACKAGE or path.name != '__init__.py'
    }


def cycle(graph):
    """Files that import each other in a circle; [] if none do."""
    done = set()

    def walk(name, trail):
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name in done:
            return []
        done.add(name)
        # A file of a package runs after its __init__, which may import it.
        nexts = (other for other in graph.get(name, ()) if other != name)
        return next(filter(None, (walk(other, [*trail, name]) for other in nexts)), [])

    return next(filter(None, (walk(name, []) for name in graph)), [])


def imported(source, names):
    """Files of the package that a source text imports, anywhere in it.

    A string that is a module's full name counts: it is there to be imported by name.
    """
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f'line {node.lineno}: write `from jepa_text... import`.')
            found.update(f'{node.module}.{alias.name}' for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return {file for dotted in found if (file := file_of(dotted, names))}


def file_of(dotted, names):
    """The file that holds jepa_text.a.b or the name b of jepa_text.a; None outside."""
    parts = dotted.split('.')
    if parts[0] != 'jepa_text':
        return None
    for stop in (len(parts), len(parts) - 1):
        for candidate in (
            '/'.join(parts[1:stop]),
            '/'.join([*parts[1:stop], '__init__']),
        ):
            if candidate in names:
                return candidate
    return None


def test_folders_import_only_from_those_before_them():
    for name, others in imports().items():
        for other in others - {'__init__'}:
            assert layer_of(other) <= layer_of(name), (
                f'jepa_text/{name}.py imports {other}: its folder comes later in LAYERS '
                'of tests/test_layers.py. Move what it needs to a folder before its '
                'own, or hand it in.'
            )


def test_no_files_import_each_other_in_a_circle():
    assert cycle(imports()) == []
    assert cycle({'a': {'b'}, 'b': {'c'}, 'c': {'b'}}) == ['b', 'c', 'b']


def test_every_folder_has_a_layer_and_every_layer_is_there():
    there = {module_name(path).split('/')[0] for path in FILES} - {'__init__'}
    assert there == set(LAYERS)
    with pytest.raises(LookupError, match='jepa_text/newcomer has no layer'):
        layer_of('newcomer/file')


def test_tests_lie_in_the_folders_of_what_they_test():
    tests = Path(__file__).parent
    folders = {path.parent.relative_to(tests) for path in tests.rglob('test_*.py')}
    for folder in folders - {Path('launch')}:
        assert (PACKAGE / folder).is_dir(), f'tests/{folder}: there is no such package'


def test_every_kind_of_import_is_seen():
    names = {'a', 'b/c', 'b/d', 'b/__init__', 'e', 'f'}
    source = """
        import numpy, jepa_text.a
        from jepa_text.b import c
        def late():
            from jepa_text.b.d import name
            from jepa_text import e
            return 'jepa_text.f'
    """
    assert imported(textwrap.dedent(source), names) == {'a', 'b/c', 'b/d', 'e', 'f'}
    assert imported('from jepa_text.b import name', names) == {'b/__init__'}
    assert imported('import jepa_texture.a', names) == set()
    with pytest.raises(ValueError, match='line 1: write `from jepa_text'):
        imported('from . import a', names)


def run_python(program):
    """Standard output of a fresh interpreter; fails with its standard error."""
    return children.run('-c', program).stdout


HEAVY = (
    *('scipy.stats', 'scipy.optimize', 'matplotlib', 'sklearn', 'tensorflow'),
    *('pandas', 'datasets', 'transformers', 'torch', 'pyarrow'),
)


@pytest.mark.parametrize(
    'program, needed, refused',
    [
        ('import jepa_text', 'jepa_text', ('jax', 'numpy')),
        ("from jepa_text import main; main.main(['', '--help'])", 'jepa_text', ('jax',)),
        (
            'import jepa_text.report.console, jepa_text.report.page, '
            'jepa_text.report.plots, jepa_text.measures.geometry, '
            'jepa_text.measures.probes, jepa_text.running.metrics',
            'numpy',
            ('rich', 'tensorboardX', 'matplotlib', 'sklearn', 'jax'),
        ),
        pytest.param(
            'import jepa_text.evaluation.train_command, jepa_text.study.study',
            'grain',
            HEAVY,
            marks=pytest.mark.slow,
        ),
    ],
    ids=['package', 'help', 'reports', 'train'],
)
def test_importing_costs_what_it_must(program, needed, refused):
    output = run_python(f'import sys; {program}; print(*sys.modules)')
    modules = set(output.splitlines()[-1].split())
    assert needed in modules and not {*refused} & modules
    if program == 'import jepa_text':
        assert not [name for name in modules if name.startswith('jepa_text.')]


def test_losses_need_jax_only():
    program = """
        import sys
        import jax.numpy as jnp
        jnp.ones(2).sum()
        before = {name.split('.')[0] for name in sys.modules}
        from jepa_text import losses
        mean = losses.masked_mean(jnp.array([1.0, 3.0]), jnp.array([True, False]))
        assert float(mean) == 1.0, mean
        new = {name.split('.')[0] for name in sys.modules} - before
        print(*new - {*sys.stdlib_module_names})
        print(*(name for name in sys.modules if name.startswith('jepa_text.')))
    """
    packages, inside = run_python(program).splitlines()
    assert packages == 'jepa_text' and inside
    assert all(name.startswith('jepa_text.losses') for name in inside.split())
