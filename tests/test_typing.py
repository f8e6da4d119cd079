"""The public API has types that a checker of a user's program sees."""

import ast
import inspect
import re
from pathlib import Path

import children
import pytest

import jepa_text as jt
from jepa_text import api, losses
from jepa_text.pretrained import load

STUB = Path(jt.__file__).with_suffix('.pyi')
MODULES = {'losses', 'sklearn'}
PROGRAM = """
import jepa_text as jt
from jepa_text import losses

model = jt.load('runs/mine', mesh=None)
run = jt.train(jt.config('toy', steps=3), 'runs/mine')
state, step, batches = jt.steps({})
reveal_type(model)
reveal_type(model.encode(('a', 'b')))
reveal_type(model.fill('a <mask>')[0][0])
reveal_type(run.model())
reveal_type(state)
reveal_type(jt.sklearn.TextEncoder(model).transform(['a']))
reveal_type(losses.mse)
model.encode(3)
model.encode('a', layers=2)
model.push_to_hub()
jt.load(7)
jt.laod('runs/mine')
jt.load('runs/mine', mesh=4)
losses.mse('a', 'b')
"""
SAID = {
    7: r'note: Revealed type is "jepa_text.pretrained.model.Pretrained"',
    8: r'note: Revealed type is "numpy.ndarray\[',
    9: r'note: Revealed type is "tuple\[str, float\]"',
    10: r'note: Revealed type is "jepa_text.pretrained.model.Pretrained"',
    11: r'note: Revealed type is "jepa_text.training.state.TrainState"',
    12: r'note: Revealed type is "numpy.ndarray\[',
    13: r'note: Revealed type is "def \(prediction_BMD: jax.* -> jax',
    14: r'error: .*incompatible type "int"; expected "str \| Iterable\[str\]"',
    15: r'error: Unexpected keyword argument "layers".*did you mean "layer"',
    16: r'error: Missing positional argument "name"',
    17: r'error: .*incompatible type "int"; expected "str \| PathLike',
    18: r'error: Module has no attribute "laod"',
    19: r'error: .*incompatible type "int"; expected "Mesh \| None"',
    20: r'error: .*incompatible type "str"; expected "Array"',
}


@pytest.mark.long
def test_a_checker_knows_the_types_of_a_program(tmp_path):
    """And nothing is wrong in its other lines."""
    (tmp_path / 'program.py').write_text(PROGRAM.lstrip())
    words = ['-m', 'mypy', '--no-pretty', tmp_path / 'program.py']
    said = children.run(*words, code=1, timeout=900).stdout
    lines = re.findall(r'program.py:(\d+): (.*)', said)
    first = {int(number): text for number, text in reversed(lines)}
    assert first.keys() == SAID.keys()
    for number, pattern in SAID.items():
        assert re.match(pattern, first[number]), first[number]


def test_a_checker_sees_the_names_that_are_imported_when_asked_for():
    stub = ast.parse(STUB.read_text())
    seen = {node.names[0].asname: f'{node.module}' for node in stub.body}
    modules = dict.fromkeys(MODULES, 'jepa_text')
    assert seen == modules | {k: f'jepa_text.{v}' for k, v in jt._PUBLIC.items()}


MODEL = ('encode', 'tokens', 'fill', 'predict', 'save', 'push_to_hub')


def public():
    """All functions and methods that a user calls."""
    parts = [getattr(jt, name) for name in jt._PUBLIC]
    parts += [getattr(losses, name) for name in losses.__all__]
    parts += [getattr(load.Pretrained, name) for name in MODEL]
    parts += [api.Run.model, api.Run.metrics.fget]
    encoder = jt.sklearn.TextEncoder
    parts += [encoder.__init__, encoder.fit, encoder.transform]
    return [part for part in parts if inspect.isfunction(part)]


@pytest.mark.parametrize('function', public(), ids=lambda one: one.__qualname__)
def test_what_is_public_has_types(function):
    signature = inspect.signature(function)
    empty = inspect.Parameter.empty
    given = [one for one in signature.parameters.values() if one.name != 'self']
    assert [one.name for one in given if one.annotation is empty] == []
    assert function.__name__ == '__init__' or signature.return_annotation is not empty
