"""Only the builder reads the config; later code receives values."""

import ast
from pathlib import Path

import pytest
import tiny

from jepa_text.running import metrics
from jepa_text.training import train

PACKAGE = Path(__file__).parents[2] / 'jepa_text'
FOLDERS = ('training', 'running', 'models', 'objectives')
# Files that handle whole configs; workdir stores them.
BUILDERS = {
    'training/config',
    'training/completion',
    'training/recipe',
    'training/begin',
    'training/own_loop',
}
BUILDERS |= {'running/workdir'}
# Functions that pass a config to the builder, or take a section of it.
ENTRANCES = {
    'evaluation/train_command': {'run'},
    'training/train': {'train'},
    'training/prepare': {'run'},
    'running/budget': {'total_steps'},
    'training/tokenizer': {'run'},
}


def lines_with_config(tree, but=()):
    """Yields lines of a tree that name a config, except in the functions `but`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and node.name in but:
            continue
        name = getattr(node, 'arg', getattr(node, 'id', ''))
        if isinstance(node, ast.arg | ast.Name) and name == 'config':
            yield node.lineno
        yield from lines_with_config(node, but)


def test_only_the_builder_reads_the_config():
    for folder in FOLDERS:
        for path in sorted((PACKAGE / folder).rglob('*.py')):
            file = path.relative_to(PACKAGE).with_suffix('').as_posix()
            if file in BUILDERS:
                continue
            tree = ast.parse(path.read_text(encoding='utf-8'))
            lines = list(lines_with_config(tree, ENTRANCES.get(file, ())))
            assert not lines, f'{file}.py, lines {lines}: pass the values it uses.'


def test_reading_a_config_is_detected():
    source = """
import jax
from jepa_text.settings import ranges
def fine(section):
    return jax.config, ranges.config, section['config']
def run(config):
    return config['steps']
"""
    assert list(lines_with_config(ast.parse(source))) == [6, 7]
    assert not list(lines_with_config(ast.parse(source), {'run'}))


class Depth:
    """A custom evaluation."""

    every = 2

    def run(self, params, network):
        return {'mine/depth': network.encoder.depth}


@pytest.mark.slow
def test_custom_evaluations_run(tmp_path):
    config = tiny.config(tmp_path, steps=3, phases=(dict(objective=dict(name='mlm')),))
    config['evaluate'] = dict(every_steps=1)

    def make(recipe, section):
        assert (recipe.steps, section.every_steps) == (3, 1)
        return Depth()

    train.train(config, tmp_path / 'run', (make,))
    steps, depths = metrics.series(metrics.read(tmp_path / 'run'), 'mine/depth')
    assert list(steps) == [0, 2, 3] and set(depths) == {1}
