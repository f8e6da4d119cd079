"""Configs against dataclasses: keys, types, ranges, and settings of the command line."""

import dataclasses

import ml_collections
import pytest

from jepa_text.settings import config_file, ranges, schema
from jepa_text.settings.schema import field


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
    size: int = field(doc='of it', minimum=1)
    share: float | None = field(None, 'of all', above=0, maximum=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Root:
    name: str = field('x', 'shown')
    rate: float | dict = field(0.5, 'by step', above=0)
    made: dict = field({'name': 'adamw', 'b1': 0.9}, 'a file')
    inner: Inner = field({}, 'within')
    maybe: Inner | None = field(None, 'or not')
    many: tuple[Inner, ...] = field((), 'of them')
    steps: tuple[int, ...] = field((0, 0), 'from, to', minimum=0)
    how: str = field('a', 'of two', choices=('a', 'b'))
    is_on: bool = field(False, 'or off')
    either: str | dict = field('a', 'of two')


WHOLE = {'inner': {'size': 3}}


def test_missing_keys_have_their_defaults():
    made = schema.read(Root, WHOLE)
    assert made == Root(inner=Inner(size=3))
    assert made.made == {'name': 'adamw', 'b1': 0.9} and made.maybe is None
    assert schema.resolved(Root, WHOLE) == {
        'name': 'x',
        'rate': 0.5,
        'made': {'name': 'adamw', 'b1': 0.9},
        'inner': {'size': 3},
        'many': [],
        'steps': [0, 0],
        'how': 'a',
        'is_on': False,
        'either': 'a',
    }
    # A resolved config is complete, so resolving it again changes nothing.
    assert schema.resolved(Root, schema.resolved(Root, WHOLE)) == schema.resolved(
        Root, WHOLE
    )


def test_defaults_are_not_shared():
    schema.read(Root, WHOLE).made['b1'] = 2
    assert schema.read(Root, WHOLE).made['b1'] == 0.9


def test_a_section_without_a_name_is_merged_into_the_default():
    def made(section):
        return schema.read(Root, WHOLE | {'made': section}).made

    assert made({'b1': 0.5}) == {'name': 'adamw', 'b1': 0.5}
    assert made({'name': 'sgd'}) == {'name': 'sgd'}
    own = {'name': 'my_lab.mine', 'options': {'names': ['a']}}  # with keys of its own
    assert made(own) == own


@pytest.mark.parametrize(
    'changes, words',
    [
        ({'nmae': 1}, "The config has no key 'nmae'. Did you mean 'name'?"),
        ({'inner': {'size': 1, 'sahre': 1}}, "inner has no key 'sahre'.*'share'"),
        ({'many': [{'size': 1}, {'sise': 1}]}, r"many\[1\] has no key 'sise'.*'size'"),
        ({'maybe': {'zise': 1}}, "maybe has no key 'zise'.*'size'"),
        ({'inner': {}}, 'The config has no inner.size: of it'),
        ({'inner': None}, r'inner=None must be a section, as dict\(size=...\)'),
        ({'inner': {'size': 0}}, 'inner.size=0 must be an integer at least 1'),
        ({'inner': {'size': 1.5}}, 'inner.size=1.5 must be an integer at least 1'),
        ({'inner': {'size': True}}, 'inner.size=True must be an integer'),
        ({'inner': {'size': 1, 'share': 2}}, 'share=2 must be a number above 0 and at'),
        ({'many': {'size': 1}}, 'many={.*} must be a list'),
        ({'steps': [1, -1]}, r'steps\[1\]=-1 must be an integer at least 0'),
        ({'steps': [None, 1]}, r'steps\[0\]=None must be an integer'),
        ({'how': 'c'}, "how='c'. .*Available: a, b"),
        ({'is_on': 1}, 'is_on=1 must be True or False'),
        ({'name': None}, 'name=None must be a string'),
        ({'rate': 'x'}, "rate='x' must be a number above 0 or a section"),
        ({'rate': [1]}, r'rate=\[1\] must be a number above 0'),
        ({'rate': True}, 'rate=True must be a number above 0'),
        ({'rate': float('nan')}, 'rate=nan must be a number above 0'),
        ({'rate': float('inf')}, 'rate=inf must be a finite number above 0'),
        ({'made': 'adamw'}, "made='adamw' must be a section"),
    ],
)
def test_invalid_values_are_named(changes, words):
    with pytest.raises(ValueError, match=words):
        schema.read(Root, WHOLE | changes)


def test_a_field_may_be_a_number_or_a_section():
    assert schema.read(Root, WHOLE | {'rate': {'name': 'wsd'}}).rate == {'name': 'wsd'}
    assert schema.read(Root, WHOLE | {'rate': 1}).rate == 1
    assert schema.read(Root, WHOLE | {'inner': {'size': 3.0}}).inner.size == 3
    assert schema.read(Root, WHOLE | {'maybe': {}}).maybe is None


def test_sections_within_a_dict_may_be_config_dicts():
    inner = ml_collections.ConfigDict({'b': (1, 2)})
    assert schema.plain({'a': [inner]}) == {'a': [{'b': [1, 2]}]}
    inner = ml_collections.ConfigDict({'b': print})
    with pytest.raises(ValueError, match=r'does not support \(a\.0\.b=<built-in'):
        schema.plain({'a': [inner]})


@pytest.mark.parametrize('config', [None, 3, 'x', [1]])
def test_values_that_are_not_sections_are_rejected(config):
    with pytest.raises(ValueError, match=r"The config=.*jt.config\('toy:mlm'\)"):
        schema.plain(config)
    with pytest.raises(ValueError, match='inner=.*must be a section'):
        schema.read(Inner, config, 'inner')


def test_whole_infinite_and_large_numbers_are_allowed():
    ranges.number('x', 2.0, whole=True, minimum=2, maximum=2)
    ranges.number('x', float('inf'), above=0, finite=False)
    ranges.number('x', 10**400, whole=True)


FILE = {'made': {'name': 'sgd', 'b1': 0.5, 'deep': [{'x': 1}]}, 'many': [{}, {'size': 2}]}


def test_settings_are_separated_from_other_arguments():
    words = ['train', '--config=a.py:x', '--config.a=1', '-config.b[0].c=2', 'more']
    rest, settings = config_file.split_settings([*words, '--config.f=a=b', '--workdir=x'])
    assert rest == ['train', '--config=a.py:x', 'more', '--workdir=x']
    assert settings == [('a', '1'), ('b[0].c', '2'), ('f', 'a=b')]


@pytest.mark.parametrize(
    'path, text, value',
    [
        ('name', '3', '3'),
        ('is_on', 'true', True),
        ('is_on', 'False', False),
        ('steps', '(1, 2)', [1, 2]),
        ('steps', '1,2', [1, 2]),
        ('rate', '1e-3', 1e-3),
        ('rate', 'inf', float('inf')),
        ('name', 'None', 'None'),
        ('rate', "{'name': 'wsd'}", {'name': 'wsd'}),
        ('rate.peak', '3', {'peak': 3}),
        ('either', 'b', 'b'),
        ('either', '{"name": "b"}', {'name': 'b'}),
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
        ('made.name', '3', FILE['made'] | {'name': '3'}),
        ('made.new', '[1, 2]', FILE['made'] | {'new': [1, 2]}),
        ('made.deep[0].x', '2', FILE['made'] | {'deep': [{'x': 2}]}),
        ('many[1].size', '3', [{}, {'size': 3}]),
        ('many[0].size', '3', [{'size': 3}, {'size': 2}]),
    ],
)
def test_values_are_converted_to_the_type_of_their_key(path, text, value):
    before = schema.plain(FILE)
    config = config_file.with_settings(Root, before, [(path, text)])
    assert config[path.split('.')[0].split('[')[0]] == value
    assert before == FILE, 'the config that is given stays'


@pytest.mark.parametrize('turn', [1, -1])
@pytest.mark.parametrize(
    'key, value',
    [('optimizer.b2', '0.9'), ('optimizer', '{"b2": 0.9}'), ('optimizer', {'b2': 0.9})],
)
def test_a_section_with_another_name_has_only_the_keys_that_are_set(key, value, turn):
    old = {'name': 'adamw', 'b2': 0.999, 'weight_decay': 0.05}
    settings = [(key, value), ('optimizer.name', 'muon')][::turn]
    for before in (old, old | {'name': 'muon'}):
        found = config_file.with_settings(Root, {'optimizer': before}, settings)
        kept = {} if before is old else {'weight_decay': 0.05}
        assert found == {'optimizer': {'name': 'muon', 'b2': 0.9} | kept}
    for before in (1e-3, 'adamw'):  # what is no section has no keys
        name = [('optimizer.name', 'muon')]
        found = config_file.with_settings(None, {'optimizer': before}, name)
        assert found == {'optimizer': {'name': 'muon'}}
    with pytest.raises(ValueError, match='config.. names no key'):
        config_file.with_settings(Root, {}, [('.', '1')])


@pytest.mark.parametrize('text', ["{{'repeat': True}}", '{[]: 1}', '[' * 10_000])
def test_a_value_that_python_cannot_make_is_a_text(text):
    assert config_file.with_settings(None, {}, [('made', text)]) == {'made': text}


def test_shared_steps_do_not_pass_by_runs_with_their_own():
    config = {'runs': [{'name': 'a', 'steps': 9}, {'name': 'b'}]}
    with pytest.raises(ValueError, match=r'but a \(runs\[0\]\) would keep the steps'):
        config_file.with_settings(None, config, [('steps', '3')])
    settings = [('steps', '3'), ('runs[0].steps', '4')]
    made = config_file.with_settings(None, config, settings)
    assert made['steps'] == 3 and made['runs'][0]['steps'] == 4


def test_a_missing_section_is_merged_with_its_default():
    config = config_file.with_settings(
        Root, {}, [('made.b2', '0.99'), ('inner.size', '2')]
    )
    made = schema.read(Root, config)
    assert made.made == {'name': 'adamw', 'b1': 0.9, 'b2': 0.99}
    assert made.inner == Inner(size=2)


def test_a_length_in_steps_replaces_a_fraction_and_vice_versa():
    before = {'schedule': {'name': 'wsd', 'warmup_fraction': 0.1, 'decay_steps': 9}}
    settings = [('schedule.warmup_steps', '3'), ('schedule', '{"decay_fraction": 0.5}')]
    set_to = {'name': 'wsd', 'warmup_steps': 3, 'decay_fraction': 0.5}
    assert config_file.with_settings(Root, before, settings) == {'schedule': set_to}
    both = [*settings, ('schedule.warmup_fraction', '0.1')]
    with pytest.raises(ValueError, match='--config.schedule.warmup_steps and --config.s'):
        config_file.with_settings(Root, before, both)


@pytest.mark.parametrize(
    'path, text, words',
    [
        ('many[1].sise', '1', r"many\[1\] has no key 'sise'"),
        ('many[2].size', '1', r'config.many\[2\].size: there is no \[2\], but 2 items'),
        ('name[0]', '1', r'there is no \[0\], but 0 items'),
        ('name.x', '1', "there is no 'x' in 'sgd'"),
    ],
)
def test_invalid_settings_are_named(path, text, words):
    many = [{'size': 1}, {'size': 2}]
    given = {'name': 'sgd', 'many': many, 'inner': {'size': 1}}
    with pytest.raises(ValueError, match=words):
        schema.read(Root, config_file.with_settings(Root, given, [(path, text)]))
