"""Runs with damaged files: which ones resume, raise, or start from scratch.

One that saved a state does not begin again at step 0 by itself.
"""

import json
import shutil

import pytest
import tiny

from jepa_text.data import tokenizers
from jepa_text.parallel import exits
from jepa_text.pretrained import load
from jepa_text.running import metrics

# All of them need a run that has finished.
pytestmark = pytest.mark.slow

CHANGES = dict(
    steps=4,
    phases=tiny.phases('mlm'),
    checkpoint=dict(every_steps=2, keep=2),
    evaluate=dict(every_steps=0, rate=0.15, max_rows=16),
)


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """(config, workdir) of a finished run of four steps."""
    folder = tmp_path_factory.mktemp('finished')
    config = tiny.config(folder, **CHANGES)
    tiny.train(config, folder / 'run')
    return config, folder / 'run'


@pytest.fixture
def run(finished, tmp_path):
    """A copy of the finished run, to be damaged."""
    config, workdir = finished
    shutil.copytree(workdir, tmp_path / 'run')
    return config, tmp_path / 'run'


def test_a_missing_checkpoint_folder_raises(run):
    config, workdir = run
    shutil.rmtree(workdir / 'checkpoints')
    log = (workdir / metrics.FILE).read_bytes()
    with pytest.raises(exits.ConfigError, match='checkpoints is missing'):
        tiny.train(config, workdir)
    assert (workdir / metrics.FILE).read_bytes() == log


def test_foreign_files_are_not_damage(run):
    config, workdir = run
    for folder in (workdir, workdir / 'checkpoints', workdir / 'checkpoints' / '4'):
        (folder / '.DS_Store').write_text('icons')
    (workdir / 'checkpoints' / '7').write_text('a file that is called as a step')
    log = (workdir / metrics.FILE).read_bytes()
    state = tiny.train(config, workdir)
    assert int(state.step) == 4
    assert (workdir / metrics.FILE).read_bytes() == log


def test_a_changed_tokenizer_raises_and_training_restores_it(run):
    config, workdir = run
    path = workdir / 'tokenizer.json'
    content = json.loads(path.read_text())
    # Swap two tokens: the file is still valid.
    words = content['model']['vocab']
    first, second = sorted(words, key=words.get)[300:302]
    words[first], words[second] = words[second], words[first]
    path.write_text(json.dumps(content))
    tokenizers.load(path)
    for read in (load.load, load.untrained):
        with pytest.raises(ValueError, match='tokenizer.json is damaged or was edited'):
            read(workdir)
    path.write_text('{}')
    tiny.train(config, workdir)
    assert load.load(workdir)


def test_a_changed_model_config_raises(run):
    _, workdir = run
    path = workdir / 'config.json'
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {'log_every_steps': 7}))
    load.load(workdir)  # may change
    config['phases'][0]['objective']['rate'] = 0.31
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match='config.json is damaged or was edited'):
        load.load(workdir)
    path.write_text('{')
    with pytest.raises(ValueError, match=r'config\.json is damaged: it is not valid'):
        load.load(workdir)
