"""The config stops at the builder: what comes after it is handed values."""

import ast
from pathlib import Path

import pytest
import tiny

from jepa_text.running import metrics
from jepa_text.training import train

PACKAGE = Path(__file__).parents[2] / 'jepa_text'
FOLDERS = ('training', 'running', 'models', 'objectives')
# Files that are about a whole config; workdir stores it.
BUILDERS = {'training/config', 'training/settle', 'training/assemble', 'training/build'}
BUILDERS |= {'running/workdir'}
# Functions that are handed one, and hand it to the builder or take their section of it.
ENTRANCES = {
    'evaluation/train_command': {'run'},
    'training/train': {'train'},
    'training/prepare': {'run'},
    'training/tokenizer': {'run'},
}


def those_who_see_it(tree, but=()):
    """Lines of a tree where a config is named, outside of some of its functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and node.name in but:
            continue
        name = getattr(node, 'arg', getattr(node, 'id', ''))
        if isinstance(node, ast.arg | ast.Name) and name == 'config':
            yield node.lineno
        yield from those_who_see_it(node, but)


def test_nothing_after_the_builder_sees_the_config():
    for folder in FOLDERS:
        for path in sorted((PACKAGE / folder).rglob('*.py')):
            file = path.relative_to(PACKAGE).with_suffix('').as_posix()
            if file in BUILDERS:
                continue
            tree = ast.parse(path.read_text(encoding='utf-8'))
            lines = list(those_who_see_it(tree, ENTRANCES.get(file, ())))
            assert not lines, f'{file}.py, lines {lines}: hand in the values it uses.'


def test_who_sees_a_config_is_seen():
    source = """
import jax
from jepa_text.config import ranges
def fine(section):
    return jax.config, ranges.config, section['config']
def run(config):
    return config['steps']
"""
    assert list(those_who_see_it(ast.parse(source))) == [6, 7]
    assert not list(those_who_see_it(ast.parse(source), {'run'}))


class Depth:
    """An evaluation of somebody else's."""

    every = 2

    def why_not(self, network):
        return ''

    def run(self, params, network):
        return {'mine/depth': network.encoder.depth}


@pytest.mark.slow
def test_evaluations_are_those_that_are_handed_in(tmp_path, capsys):
    config = tiny.config(tmp_path, steps=3, phases=(dict(objective=dict(name='mlm')),))
    config['evaluate'] = dict(every=1)

    def make(recipe, section):
        assert (recipe.steps, section.every) == (3, 0)
        return Depth()

    train.train(config, tmp_path / 'run', (('geometry', make),))
    steps, depths = metrics.series(metrics.read(tmp_path / 'run'), 'mine/depth')
    assert list(steps) == [0, 2, 3] and set(depths) == {1}
    assert 'evaluate.every=1, but no evaluation was handed in' in capsys.readouterr().err
