"""Keys and values of earlier versions are refused with what to write instead."""

import json
from pathlib import Path

import pytest

from jepa_text.pretrained import load
from jepa_text.running import workdir
from jepa_text.settings import config_file, renamed, schema
from jepa_text.training import config as settings
from tests import tiny

DOCS = Path(__file__).parents[2] / 'docs'


def objective(**section):
    return {'phases': [{'objective': section}]}


@pytest.mark.parametrize('old', renamed.INSTEAD)
def test_old_settings_are_refused_with_the_remedy(old):
    """In a config and in a run of a study; the page that is named has the key."""
    path, _, value = old.partition('=')
    section, key = path.split('.')
    config = {key: value or 1}
    config = {section: config} if section else config
    says = f'{old.removeprefix(".")}: {renamed.INSTEAD[old]} (docs/'
    for given, place in ((config, ''), ({'runs': [config]}, 'runs.')):
        with pytest.raises(ValueError) as refused:
            renamed.check(given)
        head, _, page = str(refused.value).partition(says)
        assert head == f'The config has {place}'
        assert key in (DOCS / page.removesuffix(').')).read_text()


@pytest.mark.parametrize(
    ('config', 'says'),
    [
        (objective(rate={'name': 'wsd', 'decay': 0.1}), 'rate.decay: it is now decay_st'),
        (objective(latent={'distance': 'prototypes'}), 'latent.distance=prototypes: '),
        ({'prepare': {'clean': {'ngram': 5}}}, 'prepare.clean.ngram: .*datatrove'),
        ({'task': {'name': 'pairs'}}, "has task.name=pairs: .* name='labeled' with kind"),
    ],
)
def test_old_settings_within_others_are_named_with_their_place(config, says):
    with pytest.raises(ValueError, match=says):
        renamed.check(config)


def test_a_module_of_the_users_may_have_the_old_keys():
    own = {'name': 'my_lab.rate', 'warmup': 3}
    renamed.check({'schedule': own} | objective(balance={'name': 'schedule', 'of': own}))


def test_saved_phases_get_the_new_names():
    rate = {'name': 'wsd', 'peak': 0.3, 'warmup': 0.1, 'decay': 20}
    before = objective(name='mlm', rate=rate)['phases'][0]
    before |= {'share': 0.5, 'at_switch': {'rewarm': 0, 'reset': '.*'}}
    rate = {'name': 'wsd', 'peak': 0.3, 'warmup_fraction': 0.1, 'decay_steps': 20}
    of_now = objective(name='mlm', rate=rate)['phases'][0]
    of_now |= {'fraction': 0.5, 'at_switch': {'rewarm_steps': 0, 'reset': '.*'}}
    assert renamed.current([before], 'phases') == [of_now]
    assert renamed.current([of_now], 'phases') == [of_now]


def test_the_command_line_and_files_are_checked(tmp_path):
    given = config_file.with_settings(settings.Config, {}, [('evaluate.every', '8')])
    with pytest.raises(ValueError, match='evaluate.every: it is now every_steps'):
        schema.read(settings.Config, given)
    config = {'evaluate': {'every': 8}, 'model': {}}
    config |= objective(balance={'name': 'softmin'})
    (tmp_path / 'config.json').write_text(json.dumps(config))
    with pytest.raises(
        ValueError, match='config.json has phases.objective.balance.name=softmin'
    ):
        load.load(tmp_path)
    (tmp_path / 'checkpoints' / '1').mkdir(parents=True)
    own = workdir.open_workdir(tmp_path, tiny.config(tmp_path))
    with (
        pytest.raises(ValueError, match='config.json: The config has evaluate.every'),
        own,
    ):
        pass
