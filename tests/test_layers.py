"""A file imports only from lower layers, and importing costs what it must."""

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / 'jepa_text'

# The layer of every file; a name that ends in / stands for all files of the folder that
# are not named themselves. As imports only go down, there are no cycles.
LAYERS = {
    # what every entrance asks
    'paths': -1,
    'ranges': -1,
    'tokenizer_check': -1,
    # what a run needs around it
    'resolve': 0,
    'config_file': 0,
    'tokenizers': 0,
    'running/exits': 0,
    'running/budget': 0,
    # below all that writes
    'running/seal': -1,
    'running/lines': -1,
    'running/signals': 0,
    'running/xla_flags': 0,
    'running/patterns': 0,
    'running/arithmetic': 1,
    'running/compilation': 0,
    'running/allocator': 0,
    'running/profiling': 0,
    'running/metrics': 0,
    'running/console': 0,
    'running/distributed': 1,
    'running/watchdog': 1,
    'running/supervise': 1,
    'running/goodput': 1,
    'running/workdir': 1,
    'running/restore': 1,
    'running/identity': 1,
    'running/housekeeping': 2,
    'running/checkpoint': 3,
    'running/anew': 2,
    'running/reporter': 4,
    # text -> rows -> batch
    'data/reading': 0,
    'data/finding': 0,
    'data/corpus_build': 0,
    'data/packing': 0,
    'data/rows': 0,
    'data/shards': 1,
    'data/tokenizing': 0,
    'data/sources/': 1,
    'data/prepare': 2,
    'data/pipeline': 1,
    'masking': 0,
    'document_masking': 0,
    'blocks': 0,
    # batch -> hidden
    'sharding': 0,
    'models/layers': 0,
    'models/visible': 0,
    'models/trial': 0,
    'models/backends/': 1,
    'models/fitting': 2,
    'models/attention': 3,
    'models/block': 4,
    'models/stack': 4,
    'models/': 5,
    # models of others
    'hf/names': 0,
    'hf/files': 0,
    'hf/task_head': 0,
    'hf/kinds': 1,
    'hf/layout': 0,
    'hf/values': 2,
    'hf/become': 1,
    'hf/sentence': 1,
    'hf/place': 1,
    'hf/configs': 3,
    'hf/card': 2,
    'hf/outgoing': 4,
    'hf/vocabulary': 5,
    'hf/load': 6,
    'hf/export': 8,
    # hidden -> loss
    'losses': 0,
    'spectrum': 0,
    'fused': 0,
    'regularisers': 0,
    'schedules': 1,
    'balance_rules': 0,
    'balance': 2,
    'telemetry': 1,
    'latent': 3,
    'objective': 6,
    'latent_objective': 7,
    'objectives/': 8,
    # loss -> update
    'adam': 0,
    'muon': 0,
    'optimizers': 1,
    'state': 2,
    'step': 3,
    'recipe': 5,
    'load': 7,
    'transplant': 6,
    'start': 8,
    'switches': 6,
    'warm': 9,
    'extend': 6,
    'ending': 2,
    'kept': 1,
    'begin': 10,
    'train': 11,
    # what it takes
    'planning/flops': 0,
    'planning/hardware': 0,
    'planning/outline': 8,
    'planning/baseline': 9,
    'planning/memory': 9,
    'planning/ahead': 9,
    'planning/fit': 10,
    'planning/plan_tables': 10,
    'planning/plan': 11,
    'peer': 0,
    'benchmark_worker': 6,
    'benchmark': 7,
    # vectors -> numbers
    'measures/as_read': 0,
    'measures/cloud': 0,
    'measures/correlations': 0,
    'measures/pooling': 0,
    'measures/probes': 0,
    'measures/statistics': 0,
    'measures/words': 0,
    'measures/class_geometry': 1,
    'measures/neighbours': 1,
    'measures/ridge': 1,
    'measures/sentence_sets': 1,
    'measures/significance': 1,
    'measures/similarity': 1,
    'measures/trained_pooling': 1,
    'measures/geometry': 2,
    'measures/lexical': 2,
    'measures/forms': 3,
    'task': 0,
    'tables': 1,
    'tasks/': 2,
    'evals/frequencies': 0,
    'evals/': 4,
    # numbers -> figures and pages
    'plots': 0,
    'page': 0,
    'report': 1,
    'diagrams': 1,
    'analysis/array_cache': 0,
    'analysis/threads': 0,
    'analysis/controls': 1,
    'analysis/telling': 2,
    'analysis/features': 1,
    'analysis/charts': 2,
    'analysis/readouts': 3,
    'analysis/cells': 4,
    'analysis/measuring': 5,
    'analysis/between': 5,
    'analysis/findings': 6,
    'analysis/figures': 7,
    'analysis/verdicts': 8,
    'analysis/page': 9,
    'analysis/analyse': 10,
    'study_probes': 5,
    'study_report': 6,
    'accelerator': 12,
    'study': 12,
    'main': 13,
}

FILES = sorted(PACKAGE.rglob('*.py'))


def module_name(path):
    """'data/packing' of jepa_text/data/packing.py."""
    return path.relative_to(PACKAGE).with_suffix('').as_posix()


def layer_of(name):
    """The layer of a file such as 'data/packing'."""
    if name.split('/')[-1] == '__init__':
        return 0
    folder = name.rsplit('/', 1)[0] + '/' if '/' in name else None
    if name not in LAYERS and folder not in LAYERS:
        raise LookupError(
            f'jepa_text/{name}.py has no layer: add {name!r} to LAYERS in '
            'tests/test_layers.py, one above the highest file that it imports.'
        )
    return LAYERS[name] if name in LAYERS else LAYERS[folder]


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


@pytest.mark.parametrize('path', FILES, ids=module_name)
def test_imports_only_lower_layers(path):
    names = {module_name(file) for file in FILES}
    name = module_name(path)
    layer = layer_of(name)
    for other in imported(path.read_text(encoding='utf-8'), names):
        if not other.endswith('__init__'):
            assert layer_of(other) < layer, (
                f'jepa_text/{name}.py (layer {layer}) imports {other} (layer '
                f'{layer_of(other)}). Move what it needs to a lower file, or give it a '
                'higher layer in tests/test_layers.py if nothing below needs it.'
            )


def test_a_file_without_layer_is_told_where_to_add_it():
    with pytest.raises(LookupError, match="'newcomer' to LAYERS in tests/test_layers.py"):
        layer_of('newcomer')
    assert layer_of('models/newcomer') == LAYERS['models/']
    assert layer_of('models/layers') < LAYERS['models/']


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
    done = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_imports_nothing():
    program = """
        import sys
        before = set(sys.modules)
        import jepa_text
        print(sorted(set(sys.modules) - before))
    """
    assert run_python(program).strip() == "['jepa_text']"


# Only what jax and optax themselves need can be imported; all else that is installed is
# refused, so nothing depends on what happens to be on this machine.
ALONE = """
    import re, sys
    from importlib import metadata

    def needs(name, found):
        if name not in found:
            found.add(name)
            for line in metadata.requires(name) or []:
                if 'extra ==' not in line:
                    needs_if_installed(re.match(r'[\\w.-]+', line)[0], found)
        return found

    def needs_if_installed(name, found):
        try:
            needs(re.sub(r'[-_.]+', '-', name).lower(), found)
        except metadata.PackageNotFoundError:
            pass

    allowed = needs('optax', needs('jax', set()))
    canonical = lambda name: re.sub(r'[-_.]+', '-', name).lower()
    refused = {
        module for module, owners in metadata.packages_distributions().items()
        if not allowed & {canonical(owner) for owner in owners}
    } - {'jepa_text'}
    for module in ('flax', 'orbax', 'grain', 'ml_collections', 'einops', 'tokenizers'):
        assert module in refused, f'{module} is not installed, or jax needs it: {allowed}'

    class Refuse:
        def find_spec(self, name, path=None, target=None):
            if name.split('.')[0] in refused:
                raise ModuleNotFoundError(f'{name} is refused', name=name)

    already = set(sys.modules)
    sys.meta_path.insert(0, Refuse())
"""


def test_losses_need_jax_and_optax_only():
    program = f"""
        {textwrap.indent(ALONE, ' ' * 4).strip()}

        import jax.numpy as jnp
        from jepa_text import losses

        mean = losses.masked_mean(jnp.array([1.0, 3.0]), jnp.array([True, False]))
        assert float(mean) == 1.0, mean
        new = {{name.split('.')[0] for name in set(sys.modules) - already}}
        assert not new & refused, new & refused
        print(sorted(name for name in sys.modules if name.startswith('jepa_text')))
    """
    assert run_python(program).strip() == "['jepa_text', 'jepa_text.losses']"


def test_the_refusal_refuses():
    program = f"""
        {textwrap.indent(ALONE, ' ' * 4).strip()}

        try:
            import flax
        except ModuleNotFoundError as error:
            print(error)
    """
    assert run_python(program).strip() == 'flax is refused'
