"""Builds the package, and uses it as a stranger would, outside of the clone.

    python tests/packages.py python3.11 python3.12    in empty environments of these

Each environment has the wheel alone at first, then also jax, then all that the package
needs; then the sdist takes the wheel's place.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FAQ = ROOT / 'docs' / 'faq.md'
IMPORT_SECONDS = 0.05
# Of the wheel alone: how long the import takes, and which modules it needs.
IMPORT = """
import sys, time
before, began = set(sys.modules), time.process_time()
import jepa_text as jt
took, new = time.process_time() - began, set(sys.modules) - before
tops = {name.split('.')[0] for name in new} - {*sys.stdlib_module_names}
print(took, *tops, *(name for name in new if name.startswith('jepa_text.')))
"""
JAX = """
from importlib.metadata import requires
print(next(line for line in requires('jepa-text') if line.startswith('jax')))
"""
# With jax alone.
LOSSES = """
import importlib.util
import jax.numpy as jnp
from jepa_text import losses
assert not any(map(importlib.util.find_spec, ('flax', 'optax', 'grain', 'orbax')))
print(losses.masked_mean(jnp.array([1.0, 3.0]), jnp.array([True, False])))
"""
VECTORS = """
import jepa_text as jt
assert jt.config('toy:clm').steps
print(*jt.load('runs/a').encode(['Call me Ishmael.', 'It is cold.']).shape)
"""
# How much was installed: the number of packages, and megabytes without bytecode.
SIZE = """
import pathlib, sysconfig
from importlib import metadata
names = {d.name for d in metadata.distributions()} - {'pip', 'jepa-text'}
site = pathlib.Path(sysconfig.get_path('purelib'))
ours = [p for p in site.iterdir() if not p.name.startswith(('pip', 'jepa_text'))]
files = [f for p in ours for f in (p, *p.rglob('*')) if f.is_file()]
sizes = [f.stat().st_size for f in files if f.suffix != '.pyc']
print(len(names), sum(sizes) // 10**6)
"""


def build(folder):
    """Builds sdist and wheel of the files here in a folder; their paths."""
    clone = folder / 'clone'
    for name in ('jepa_text', 'configs', 'tests'):
        ignore = shutil.ignore_patterns('__pycache__')
        shutil.copytree(ROOT / name, clone / name, ignore=ignore)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, clone)
    code = (
        'from setuptools import build_meta as b; b.build_sdist(".."); b.build_wheel("..")'
    )
    said([sys.executable, '-c', code], clone)
    return (*folder.glob('*.tar.gz'), *folder.glob('*.whl'))


def said(command, folder, **environ):
    """What a command prints in a folder; fails with all that it said."""
    env = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'} | environ
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, f'{command} ended with {done.returncode}:\n{done.stdout}'
    return done.stdout


def walk(python, jepa_text, folder, **environ):
    """The first commands of a stranger in an empty folder.

    python       the command that is followed by a program
    jepa_text    the command that is followed by its words
    """

    def command(*words):
        return said([*jepa_text, *words], folder, **environ)

    assert 'Commands' in command('--help')
    toy = ['--steps=4', '--config.model.preset=tiny', '--config.evaluate.every_steps=0']
    command('train', 'toy:clm_mlm', '--workdir=runs/a', *toy)
    assert said([*python, VECTORS], folder, **environ).split()[-2:] == ['2', '64']
    dry = command('evaluate', '--model=runs/a', '--task=bundled', '--dry-run')
    assert 'runs/evaluate-a-bundled' in dry, dry
    (line,) = re.findall('Next: jepa-text (.*)', command('init', 'toy:clm_mlm', 'my.py'))
    assert ' file\n' in command(*line.split(), '--print-config')


def environment(python, sdist, wheel, folder):
    """Walks with the wheel, then with the sdist, in a new environment of an interpreter;
    returns what was measured."""
    said([python, '-m', 'venv', folder / 'venv'], folder)
    scripts = folder / 'venv' / 'bin'
    python, pip = [scripts / 'python', '-c'], [scripts / 'pip', '-q']
    install = [*pip, 'install', '--no-compile']
    said([*install, '--no-deps', wheel], folder)
    took, *modules = said([*python, IMPORT], folder).split()
    assert float(took) < IMPORT_SECONDS and modules == ['jepa_text'], (took, modules)
    said([*install, *said([*python, JAX], folder).splitlines()], folder)
    assert said([*python, LOSSES], folder).split()[-1] == '1.0'
    said([*install, wheel], folder)
    count, size = map(int, said([*python, SIZE], folder).split())
    walk(python, [scripts / 'jepa-text'], _new(folder, 'wheel'))
    said([*pip, 'uninstall', '-y', 'jepa-text'], folder)
    said([*install, sdist], folder)
    walk(python, [scripts / 'jepa-text'], _new(folder, 'sdist'))
    said([*pip, 'check'], folder)
    return float(took), count, size


def _new(folder, name):
    (folder / name).mkdir()
    return folder / name


def main(pythons):
    """Walks with each interpreter, and compares what was measured with docs/faq.md."""
    (wrote,) = re.findall(r'(\d+) packages in all, of (\d+) MB', FAQ.read_text())
    with tempfile.TemporaryDirectory() as scratch:
        sdist, wheel = build(_new(Path(scratch), 'build'))
        for number, python in enumerate(pythons):
            folder = _new(Path(scratch), str(number))
            took, *sizes = environment(python, sdist, wheel, folder)
            print(f'{python}: import {1000 * took:.0f} ms, {sizes} packages and MB')
            for size, stated in zip(sizes, map(int, wrote)):
                assert abs(size / stated - 1) < 0.1, f'docs/faq.md says {stated}: {size}'


if __name__ == '__main__':
    main(sys.argv[1:])
