"""Keys and values of earlier versions are refused with what to write instead."""

import json

import pytest

from jepa_text.pretrained import load
from jepa_text.running import workdir
from jepa_text.settings import config_file, renamed, schema
from jepa_text.training import config as settings
from tests import tiny


def objective(**section):
    return {'phases': [{'objective': section}]}


@pytest.mark.parametrize(
    ('config', 'says'),
    [
        ({'prepare': {'workers': 2}}, 'has prepare.workers: it is now engine.jobs'),
        (
            {'schedule': {'name': 'wsd', 'warmup': 1.0}},
            r'has schedule.warmup: it is now warmup_steps or warmup_fraction \(docs/up',
        ),
        ({'runs': [{'schedule': {'decay': 9}}]}, 'schedule.decay: it is now decay_steps'),
        (objective(rate={'name': 'wsd', 'decay': 0.1}), 'rate.decay: it is now decay_st'),
        ({'phases': [{'share': 1.0}]}, 'has phases.share: it is now fraction'),
        ({'phases': [{'at_switch': {'rewarm': 2}}]}, 'switch.rewarm: it is now rewarm_s'),
        (
            {'log_every': 5},
            r'has log_every: it is now log_every_steps \(docs/upgrading.md',
        ),
        ({'runs': [{'log_every': 5}]}, 'has runs.log_every: it is now log_every_steps'),
        ({'checkpoint': {'every': 5}}, 'has checkpoint.every: it is now every_steps'),
        (objective(balance={'every': 5}), 'balance.every: it is now every_steps'),
        ({'watchdog': {'pause': 5}}, 'has watchdog.pause: it is now pause_seconds'),
        ({'plan': {'price': 5}}, 'has plan.price: it is now dollars_per_chip_hour'),
        ({'prepare': {'clean': {'overlap': 5}}}, 'clean.overlap: it was removed: 13 sha'),
        ({'finetuning': {'warmup': 0.1}}, 'finetuning.warmup: it is now warmup_fraction'),
        ({'cases': [{'warmup': 1}]}, 'has cases.warmup: it is now warmup_steps'),
        ({'prepare': {'engine': 'beam'}}, "prepare.engine=beam: .* .*name='ray'"),
        ({'tasks': [{'group': 'a'}]}, 'has tasks.group: it was removed: give a folder'),
        ({'task': {'name': 'pairs'}}, "has task.name=pairs: .* name='labeled' with kind"),
        (
            {'prepare': {'clean': {'near_duplicates': 0.8}}},
            'near_duplicates: .*datatrove',
        ),
        ({'baseline': 'time'}, "has baseline=time: .* use baseline='flops'"),
        ({'runs': [{'baseline': 'time'}]}, 'has runs.baseline=time: it was removed'),
        (objective(balance={'name': 'softmin'}), 'balance.name=softmin: .*gradient_rat'),
        (objective(latent={'prototypes': 8}), 'has phases.objective.latent.prototypes: '),
        (
            objective(latent={'regularizer': {'name': 'visreg', 'weight': 1}}),
            "regularizer.name=visreg: it was removed: use name='sigreg' or 'vicreg'",
        ),
    ],
)
def test_old_settings_are_refused_with_the_remedy(config, says):
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
