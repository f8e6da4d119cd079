"""setup.py and launch/requirements: bounds, and that they agree."""

import ast
import re
import runpy
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import packages
import pytest
import setuptools
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / 'launch' / 'requirements'
LOCKS = sorted(REQUIREMENTS.glob('*.txt'))
# The extras of launch/lock.sh: all whose packages are installed with their hashes.
LOCKED = (
    *('eval', 'viz', 'test', 'cuda', 'cuda12', 'tpu'),
    *('gs', 's3', 'https', 'stores', 'ray', 'hf'),
)


@pytest.fixture
def package(monkeypatch):
    """The arguments of setup() in setup.py."""
    given = {}
    monkeypatch.setattr(setuptools, 'setup', lambda **arguments: given.update(arguments))
    monkeypatch.chdir(ROOT)
    runpy.run_path('setup.py')
    return given


def required(package, *extras):
    """The requirements of the package and some of its extras."""
    lines = list(package['install_requires'])
    for extra in extras:
        lines += package['extras_require'][extra]
    return [Requirement(line) for line in lines]


def versions(lock):
    """{package: version} of a file of launch/requirements."""
    pins = re.findall(r'^([\w.-]+)==([\w.!+-]+)', lock.read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


def test_what_is_declared(package):
    others = {'kernels', 'docs', 'dev'}
    assert set(package['extras_require']) == {*LOCKED, *others}
    assert set(package['extras_require']['test']) < set(package['extras_require']['dev'])


def test_the_version_is_in_one_place():
    again = [
        path
        for path in [ROOT / 'pyproject.toml', *(ROOT / 'jepa_text').rglob('*.py')]
        if re.search(r'^(__)?version(__)?\s*=', path.read_text(encoding='utf-8'), re.M)
    ]
    assert not again


def test_bounds(package):
    bounds = {r.name: r.specifier for r in required(package)}
    for version in ('0.10.2', '0.11.2', '0.12.0.1'):
        assert version in bounds['jax']
    assert '0.10.1' not in bounds['jax'] and '0.13.0' not in bounds['jax']
    assert '0.12.8' in bounds['flax'] and '0.12.7' not in bounds['flax']
    for extra in package['extras_require']:
        for requirement in required(package, extra):
            operators = {bound.operator for bound in requirement.specifier}
            assert '>=' in operators, f'{requirement} has no lower bound'
    for extra in ('cuda', 'cuda12', 'tpu'):
        (accelerated,) = map(Requirement, package['extras_require'][extra])
        assert accelerated.specifier == bounds['jax']


def test_what_is_imported_is_declared(package):
    """Not only there because another package needs it."""
    extras = package['extras_require']
    declared = {canonicalize_name(r.name) for r in required(package, *extras)}
    # threadpoolctl belongs to scikit-learn; benchmark compares with a user's own torch;
    # IPython runs what asks for it.
    declared |= {'threadpoolctl', 'torch', 'ipython'}
    owners = metadata.packages_distributions()
    for path in (ROOT / 'jepa_text').rglob('*.py'):
        for module in imported(path):
            names = {canonicalize_name(n) for n in owners.get(module, [module])}
            assert names & declared, f'{path} imports {module}: declare it in setup.py'


def imported(path):
    """The names of the modules that a file imports, without those of Python and ours."""
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        names = [alias.name for alias in getattr(node, 'names', ())]
        if isinstance(node, ast.ImportFrom):
            names = [node.module]
        elif not isinstance(node, ast.Import):
            continue
        tops = {name.split('.')[0] for name in names}
        yield from tops - {'jepa_text', *sys.stdlib_module_names}


@pytest.mark.parametrize('extra', LOCKED)
@pytest.mark.parametrize('lock', LOCKS, ids=lambda path: path.stem)
def test_requirements_satisfy_setup(package, lock, extra):
    have = versions(lock)
    for requirement in required(package, extra):
        version = have.get(canonicalize_name(requirement.name))
        assert version is not None and version in requirement.specifier, (
            f'{lock.name} has {requirement.name} {version}, setup.py asks for '
            f'{requirement}. Run bash launch/lock.sh.'
        )


def test_one_file_of_versions_for_each_jax():
    assert [path.stem for path in LOCKS] == ['py311', 'py312']
    assert all({'pip', 'setuptools', 'setuptools-scm'} <= {*versions(p)} for p in LOCKS)
    assert not any('torch' in versions(path) for path in LOCKS)


@pytest.fixture(scope='module')
def built(tmp_path_factory):
    return packages.build(tmp_path_factory.mktemp('built'))


@pytest.mark.slow
def test_a_build_contains_every_file(built):
    """Of the package, and the config files, and of nothing else: data files too."""
    ours = {
        p.relative_to(ROOT).as_posix()
        for name in ('jepa_text', 'configs')
        for p in (ROOT / name).rglob('*')
        if p.is_file() and p.suffix != '.pyc'
    }
    assert 'jepa_text/data/bundled/tokenizer.json' in ours
    sdist, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if '.dist-info/' not in n}
    assert names == {re.sub('^configs', 'jepa_text/configs', n) for n in ours}
    with tarfile.open(sdist) as archive:
        names = {m.name.partition('/')[2] for m in archive.getmembers() if m.isfile()}
    beside = {n for n in names - ours if '.egg-info/' not in n}
    assert ours < names and beside == {
        *('LICENSE', 'MANIFEST.in', 'PKG-INFO', 'README.md'),
        *('pyproject.toml', 'setup.cfg', 'setup.py'),
    }


def test_the_core_is_small(package):
    """A package more needs a reason, and its megabytes a line in docs/faq.md."""
    count = len(package['install_requires'])
    assert count <= 24
    assert f'{count} packages are required' in packages.FAQ.read_text()


@pytest.mark.long
def test_a_wheel_trains_in_an_empty_folder(built, tmp_path):
    """With no clone anywhere; `.ci/run --all` has environments without our packages."""
    with zipfile.ZipFile(built[1]) as archive:
        archive.extractall(tmp_path / 'installed')
    (tmp_path / 'empty').mkdir()
    command = [sys.executable, '-m', 'jepa_text.main']
    environ = {'PYTHONPATH': str(tmp_path / 'installed')}
    packages.walk([sys.executable, '-c'], command, tmp_path / 'empty', **environ)
