"""Settings on the command line are converted and applied, or rejected by name."""

import dataclasses

import pytest

from jepa_text.config import overrides, schema
from jepa_text.config.schema import field, section


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
    size: int = field(1, 'of it', minimum=1)
    share: float | None = field(None, 'of all')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Root:
    name: str = field('x', 'shown')
    rate: float | dict = field(0.5, 'by step')
    made: dict = field({'name': 'adamw', 'b1': 0.9}, 'a file')
    inner: Inner = section(Inner, 'within')
    many: tuple[Inner, ...] = field((), 'of them')
    steps: tuple[int, ...] = field((0, 0), 'from, to')
    how: str | dict = field('a', 'of two')
    is_on: bool = field(False, 'or off')


FILE = {'made': {'name': 'sgd', 'b1': 0.5, 'deep': [{'x': 1}]}, 'many': [{}, {'size': 2}]}


def test_settings_are_separated_from_other_arguments():
    words = ['train', '--config=a.py:x', '--config.a=1', '-config.b[0].c', '2', 'more']
    words += ['--config.d', '--noconfig.e', '--config.f=a=b', '--workdir=x']
    rest, found = overrides.split(words)
    assert rest == ['train', '--config=a.py:x', 'more', '--workdir=x']
    assert dict(found) == {
        'a': '1',
        'b[0].c': '2',
        'd': 'true',
        'e': 'false',
        'f': 'a=b',
    }


@pytest.mark.parametrize(
    'path, text, value',
    [
        ('name', '3', '3'),
        ('is_on', 'true', True),
        ('is_on', '0', False),
        ('steps', '(1, 2)', [1, 2]),
        ('steps', '1,2', [1, 2]),
        ('rate', '1e-3', 1e-3),
        ('rate', "{'name': 'wsd'}", {'name': 'wsd'}),
        ('rate.peak', '3', {'peak': 3}),
        ('how', 'b', 'b'),
        ('how', '{"name": "b"}', {'name': 'b'}),
        # A missing section is created: the other keys have their defaults.
        ('inner.size', '3', {'size': 3}),
        ('inner.share', '0.5', {'share': 0.5}),
        ('inner.share', 'None', {'share': None}),
        ('inner', '{"size": 4, "share": null}', {'size': 4, 'share': None}),
        # An existing section keeps its other keys unless its name changes.
        ('made', "{'b1': 1}", FILE['made'] | {'b1': 1}),
        ('made', "{'name': 'adamw'}", {'name': 'adamw'}),
        ('made.b1', '0.25', FILE['made'] | {'b1': 0.25}),
        ('made.new', 'text', FILE['made'] | {'new': 'text'}),
        ('made.new', '[1, 2]', FILE['made'] | {'new': [1, 2]}),
        ('made.deep[0].x', '2', FILE['made'] | {'deep': [{'x': 2}]}),
        ('many[1].size', '3', [{}, {'size': 3}]),
        ('many[0].size', '3', [{'size': 3}, {'size': 2}]),
    ],
)
def test_values_are_converted_to_the_type_of_their_key(path, text, value):
    before = schema.plain(FILE)
    config = overrides.set_value(Root, before, path, text)
    assert config[path.split('.')[0].split('[')[0]] == value
    assert before == FILE, 'the config that is given stays'


def test_a_missing_section_is_merged_with_its_default():
    config = overrides.apply(Root, {}, [('made.b2', '0.99'), ('inner.size', '2')])
    made = schema.read(Root, config)
    assert made.made == {'name': 'adamw', 'b1': 0.9, 'b2': 0.99}
    assert made.inner == Inner(size=2)


@pytest.mark.parametrize(
    'path, text, words',
    [
        ('nmae', '1', "there is no key 'nmae'. Did you mean 'name'"),
        ('inner.sise', '1', "there is no key 'sise'. Did you mean 'size'"),
        ('many[1].sise', '1', "there is no key 'sise'"),
        ('many[2].size', '1', r'there is no \[2\], but 2 items'),
        ('name[0]', '1', r'there is no \[0\], but no items'),
        ('name.x', '1', "there is no 'x' in 'sgd'"),
        ('steps', 'many', "steps='many' must be a list"),
        ('inner.size', '1.5', "size='1.5' must be an integer"),
        ('inner.size', 'None', "size='None' must be an integer"),
        ('is_on', 'maybe', "is_on='maybe' must be True or False"),
        ('rate', 'fast', "rate='fast' must be a finite number or a section"),
        ('made.b1', 'fast', "b1='fast' must be a finite number"),
        ('inner', '3', "inner='3' must be a section"),
    ],
)
def test_invalid_values_are_named(path, text, words):
    with pytest.raises(ValueError, match=words):
        overrides.set_value(Root, schema.plain(FILE | {'name': 'sgd'}), path, text)
