"""One hybrid step from config to the first updated parameters is what its page says."""

import collections
import dataclasses
import json
import re
import sys
import threading
from pathlib import Path

import children
import pytest
import tiny

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / 'jepa_text'
PAGE = ROOT / 'docs' / 'life_of_a_batch.md'
# Of the run that is profiled.
LETTERS = {'B': 8, 'L': 32, 'D': 64, 'V': 2048, 'N': 8}


class Profile:
    """Names of functions of the package in the order of their first call, and the shapes
    of what each first returned or yielded."""

    def __init__(self):
        self.returned = collections.OrderedDict()

    def __call__(self, frame, event, value):
        code = frame.f_code
        if not code.co_filename.startswith(str(PACKAGE)) or code.co_name == '<module>':
            return
        file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
        name = file, code.co_qualname
        if event == 'call':
            self.returned.setdefault(name, None)
        elif event == 'return' and not self.returned.get(name):
            self.returned[name] = arrays(value)


def arrays(value):
    """{name: 'dtype shape'} of the arrays in a dict, a dataclass or a scalar."""
    if isinstance(value, tuple) and value:
        value = value[0]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    named = value.items() if isinstance(value, dict) else [('loss', value)]
    return {
        str(key): f'{leaf.dtype} {list(leaf.shape)}'
        for key, leaf in named
        if hasattr(leaf, 'shape') and hasattr(leaf, 'dtype')
    }


def profile(folder):
    """Prints what one hybrid step enters."""
    objective = dict(name='hybrid', balance=dict(name='sigmoid'), predictor_width=16)
    phases = (dict(objective=objective),)
    config = tiny.config(folder, phases=phases, steps=1, evaluate=dict(every_steps=0))
    from jepa_text.training import train

    seen = Profile()
    threading.setprofile(seen)
    sys.setprofile(seen)
    train.train(config, Path(folder, 'run'))
    sys.setprofile(None)
    called = [[*name, shapes or {}] for name, shapes in seen.returned.items()]
    print(json.dumps(called))


@pytest.fixture(scope='module')
def called(tmp_path_factory):
    """{(file, function): {name: 'dtype shape'}}, in the order of the first calls."""
    folder = tmp_path_factory.mktemp('life')
    paths = [str(ROOT / 'tests'), str(Path(__file__).parent)]
    program = (
        f'import sys; sys.path[:0] = {paths}; import {Path(__file__).stem} as test; '
    )
    program += f'test.profile({str(folder)!r})'
    output = children.run('-c', program).stdout.splitlines()[-1]
    return {(file, name): shapes for file, name, shapes in json.loads(output)}


def stops():
    """(file, function, {name: 'dtype shape'}) of each row of the page's table."""
    row = re.compile(r'^\| `(\S+\.py)` +\| `(\S+)` +\| (.*) \|$', re.MULTILINE)
    item = re.compile(r'`(\w+)` (\w+) \[([\w, ]*)\]')
    for file, function, text in row.findall(PAGE.read_text()):
        shapes = {}
        for name, dtype, letters in item.findall(text):
            sizes = [LETTERS.get(x, x) for x in letters.split(', ') if x]
            shapes[name] = f'{dtype} {sizes}'
        yield file, function, shapes


@pytest.mark.slow
def test_the_batch_passes_each_stop_with_the_shapes_of_the_page(called):
    masked = {}
    for file, function, shapes in stops():
        assert (file, function) in called, f'{file}: {function} is not called'
        seen = called[file, function]
        for name, shape in shapes.items():
            # M is what the objective has room for, the same everywhere.
            if "'M'" in shape:
                masked[name] = json.loads(seen[name].split(maxsplit=1)[1])[1]
                shape = shape.replace("'M'", str(masked[name]))
            assert seen[name] == shape, f'{file}: {function}: {name}'
    assert len({*masked.values()}) == 1
    order = list(called)
    on_host = [order.index(stop[:2]) for stop in stops() if stop[0] in HOST]
    assert on_host == sorted(on_host)


# Their functions are first called in the order of the page; masks are also drawn to count
# the FLOPs of the step before it runs.
HOST = ('training/train.py', 'training/begin.py', 'training/recipe.py', 'data/stream.py')


@pytest.mark.slow
def test_every_other_file_that_is_entered_has_its_reason(called):
    text = PAGE.read_text()
    reasons = dict(re.findall(r'^\| `(\w+)/` +\| (\S.*?) +\|$', text, re.MULTILINE))
    on_line = {file for file, _, _ in stops()}
    entered = {file for file, _ in called}
    for file in entered - on_line:
        assert file.split('/')[0] in reasons, f'{file} is entered, which the page omits'
    assert {file.split('/')[0] for file in entered - on_line} == {*reasons}
    count = len({f for f in entered if f.split('/')[0] not in ('models', 'losses')})
    assert count <= int(re.search(r'(\d+) files outside', text)[1])
