"""Old names are rejected with the new ones."""

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
        ({'start': {'path': 'x'}}, 'start, which is now init_from'),
        ({'init_from': {'become': {}}}, 'which is now init_from.adapt'),
        ({'start': {'become': {'mask': 'auto'}}}, 'start, which is now init_from'),
        ({'evaluate': {'most_rows': 8}}, 'which is now evaluate.max_rows'),
        ({'optimizer': {'rates': ()}}, 'which is now optimizer.lr_multipliers'),
        (
            {'phases': [{'objective': {'latent': {'normalise': 'none'}}}]},
            'which is now phases.0.objective.latent.normalize',
        ),
        ({'runs': [{'start': {'path': 'x'}}]}, 'which is now runs.0.init_from'),
        ({'prepare': {'tokenizer': 'start'}}, "'start', which is now 'init_from'"),
        ({'model': {'preset': 'desk'}}, "'desk', which is now 'toy'"),
        ({'tasks': [{'name': 'labelled'}]}, "'labelled', which is now 'labeled'"),
    ],
)
def test_old_names_are_rejected_with_the_new_one(config, says):
    with pytest.raises(ValueError, match=says):
        renamed.check(config)


def test_a_schedule_may_have_a_key_start():
    momentum = {'name': 'linear', 'start': 0.99, 'end': 1.0}
    phases = [{'objective': {'latent': {'momentum': momentum}}}]
    renamed.check({'phases': phases, 'runs': [{'phases': phases}]})


def test_the_command_line_and_files_are_checked(tmp_path):
    for path, text in (('start.path', 'x'), ('runs[0].evaluate.most_rows', '8')):
        with pytest.raises(ValueError, match='The command line has .* is now'):
            overrides.apply(settings.Config, {}, [(path, text)])
    with pytest.raises(ValueError, match='which is now evaluate.max_rows'):
        schema.read(settings.Config, {'evaluate': {'most_rows': 8}})
    config = {'evaluate': {'most_rows': 8}}
    (tmp_path / 'config.json').write_text(json.dumps(config))
    with pytest.raises(ValueError, match='config.json has evaluate.most_rows, which is '):
        load.load(tmp_path)
    own = workdir.open_workdir(tmp_path, tiny.config(tmp_path))
    says = 'config.json has evaluate.most_rows, which is now'
    with pytest.raises(ValueError, match=says), own:
        pass


def test_checkpoints_of_an_older_version_are_not_moved_aside(tmp_path):
    (tmp_path / 'config.json').write_text('{}')
    (tmp_path / 'checkpoints' / '5').mkdir(parents=True)
    (tmp_path / 'checkpoints' / '5' / 'SEAL.json').write_text('{}')
    with pytest.raises(ValueError, match='is now called CHECKSUMS.json'):
        load.load(tmp_path)
