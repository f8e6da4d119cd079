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
        ({'start': {'become': {}}}, 'has start: it is now init_from'),
        ({'runs': [{'start': {}}]}, 'has runs.start: it is now init_from'),
        ({'prepare': {'workers': 2}}, 'has prepare.workers: it is now engine.jobs'),
        ({'prepare': {'engine': 'beam'}}, "prepare.engine=beam: .* .*name='ray'"),
        ({'evaluate': {'most_rows': 8}}, 'evaluate.most_rows: it is now max_rows'),
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


def test_a_schedule_may_have_a_key_start():
    momentum = {'name': 'linear', 'start': 0.99, 'end': 1.0}
    phases = objective(latent={'momentum': momentum})
    renamed.check(phases | {'runs': [phases], 'baseline': {'by': 'time'}})


def test_the_command_line_and_files_are_checked(tmp_path):
    given = config_file.with_settings(settings.Config, {}, [('evaluate.most_rows', '8')])
    with pytest.raises(ValueError, match='evaluate.most_rows: it is now max_rows'):
        schema.read(settings.Config, given)
    config = {'evaluate': {'most_rows': 8}, 'model': {}}
    config |= objective(balance={'name': 'softmin'})
    (tmp_path / 'config.json').write_text(json.dumps(config))
    with pytest.raises(
        ValueError, match='config.json has phases.objective.balance.name=softmin'
    ):
        load.load(tmp_path)
    (tmp_path / 'checkpoints' / '1').mkdir(parents=True)
    own = workdir.open_workdir(tmp_path, tiny.config(tmp_path))
    with (
        pytest.raises(ValueError, match='config.json: The config has evaluate.most_rows'),
        own,
    ):
        pass
