"""Old names are refused, and the new ones named."""

import json

import pytest

from jepa_text import load
from jepa_text.config import overrides, renamed, schema
from jepa_text.running import workdir
from jepa_text.training import config as settings
from tests import tiny


@pytest.mark.parametrize(
    ('config', 'says'),
    [
        ({'start': {'path': 'x'}}, 'start, which is init_from now'),
        ({'init_from': {'become': {}}}, 'which is init_from.adapt now'),
        ({'start': {'become': {'mask': 'auto'}}}, 'start, which is init_from now'),
        ({'evaluate': {'most_rows': 8}}, 'which is evaluate.max_rows now'),
        ({'optimizer': {'rates': ()}}, 'which is optimizer.lr_multipliers now'),
        (
            {'phases': [{'objective': {'latent': {'normalise': 'none'}}}]},
            'which is phases.0.objective.latent.normalize now',
        ),
        ({'runs': [{'start': {'path': 'x'}}]}, 'which is runs.0.init_from now'),
        ({'prepare': {'tokenizer': 'start'}}, "'start', which is 'init_from' now"),
        ({'model': {'preset': 'desk'}}, "'desk', which is 'toy' now"),
        ({'tasks': [{'name': 'labelled'}]}, "'labelled', which is 'labeled' now"),
    ],
)
def test_old_names_are_refused_by_the_new_one(config, says):
    with pytest.raises(ValueError, match=says):
        renamed.check(config)


def test_a_schedule_may_have_a_start():
    momentum = {'name': 'linear', 'start': 0.99, 'end': 1.0}
    phases = [{'objective': {'latent': {'momentum': momentum}}}]
    renamed.check({'phases': phases, 'runs': [{'phases': phases}]})


def test_the_command_line_and_files_are_checked(tmp_path):
    for path, text in (('start.path', 'x'), ('runs[0].evaluate.most_rows', '8')):
        with pytest.raises(ValueError, match='The command line has .* now'):
            overrides.apply(settings.Config, {}, [(path, text)])
    with pytest.raises(ValueError, match='which is evaluate.max_rows now'):
        schema.read(settings.Config, {'evaluate': {'most_rows': 8}})
    config = {'evaluate': {'most_rows': 8}}
    (tmp_path / 'config.json').write_text(json.dumps(config))
    with pytest.raises(ValueError, match='config.json has evaluate.most_rows, which is'):
        load.load(tmp_path)
    own = workdir.open_workdir(tmp_path, tiny.config(tmp_path))
    says = 'config.json has evaluate.most_rows, which is'
    with pytest.raises(ValueError, match=says), own:
        pass


def test_checkpoints_of_an_older_version_are_not_moved_aside(tmp_path):
    (tmp_path / 'config.json').write_text('{}')
    (tmp_path / 'checkpoints' / '5').mkdir(parents=True)
    (tmp_path / 'checkpoints' / '5' / 'SEAL.json').write_text('{}')
    with pytest.raises(ValueError, match='is CHECKSUMS.json now'):
        load.load(tmp_path)
