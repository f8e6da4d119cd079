"""Files beside the checkpoints are what these say, or are named as damaged."""

import json
import os
import shutil

import pytest
import tiny

from jepa_text import load
from jepa_text.data import tokenizers
from jepa_text.training import train

CHANGES = dict(
    steps=2,
    phases=(dict(objective=dict(name='mlm')),),
    checkpoint=dict(every=2, keep=2),
    evaluate=dict(every=0, rate=0.15, most_rows=16),
)


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp('identity')
    config = tiny.config(folder, **CHANGES)
    train.train(config, folder / 'run')
    return config, folder / 'run'


@pytest.fixture
def run(finished, tmp_path):
    """(config, workdir), to be damaged."""
    shutil.copytree(finished[1], tmp_path / 'run')
    return finished[0], tmp_path / 'run'


def test_another_tokenizer_than_the_run_had_is_named(run):
    _, workdir = run
    path = workdir / 'tokenizer.json'
    content = json.loads(path.read_text())
    # Two words change places: the file is as good as before.
    words = content['model']['vocab']
    first, second = sorted(words, key=words.get)[300:302]
    words[first], words[second] = words[second], words[first]
    path.write_text(json.dumps(content))
    tokenizers.load(path)
    for read in (load.load, load.untrained):
        with pytest.raises(ValueError, match='tokenizer.json is damaged or was edited'):
            read(workdir)


def test_a_config_of_another_model_is_named(run):
    _, workdir = run
    path = workdir / 'config.json'
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {'log_every': 7}))
    load.load(workdir)  # may change
    config['phases'][0]['objective']['rate'] = 0.31
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match='config.json is damaged or was edited'):
        load.load(workdir)
    path.write_text('{')
    with pytest.raises(ValueError, match=r'config\.json is damaged: it is not JSON'):
        load.load(workdir)


def test_a_training_command_writes_the_tokenizer_again(run):
    config, workdir = run
    (workdir / 'tokenizer.json').write_text('{}')
    train.train(config, workdir)
    assert load.load(workdir)


def test_a_full_disk_leaves_no_half_a_tokenizer(tmp_path, monkeypatch):
    tokenizer = tokenizers.load(tokenizers.BUNDLED)

    def full(descriptor):
        raise OSError(28, 'No space left on device')

    with monkeypatch.context() as patch, pytest.raises(OSError, match='No space left'):
        patch.setattr(os, 'fsync', full)
        tokenizer.save(tmp_path / 'tokenizer.json')
    assert list(tmp_path.iterdir()) == []
    tokenizer.save(tmp_path / 'tokenizer.json')
    found = tokenizers.load(tmp_path / 'tokenizer.json')
    assert found.fingerprint == tokenizer.fingerprint


@pytest.mark.parametrize(
    'change', [lambda c: c | {'steps': 1}, lambda c: c | {'steps': 0, 'stdps': 2}]
)
def test_a_length_that_changed_on_the_disk_is_no_wish_for_more_steps(run, change):
    config, workdir = run
    path = workdir / 'config.json'
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(ValueError, match=r'config\.json is damaged or was edited'):
        train.train(config, workdir)
