"""A workdir has one process and one config; anything else raises a clear error."""

import errno
import fcntl
import json
import os
import pathlib
from unittest import mock

import children
import pytest

from jepa_text.running import workdir

CONFIG = {
    'name': 'run',
    'phases': [{'steps': 10, 'objective': {'name': 'mlm', 'rate': 0.3}}],
    'checkpoint': {'every_steps': 5, 'keep': 2},
    'betas': (0.9, 0.95),
    'clip': None,
}
HOLD = """
import sys, time
from jepa_text.running import workdir
with workdir.open_workdir(sys.argv[1], {'phases': []}):
    print('held', flush=True)
    time.sleep(60)
"""


def _opened(path, config=None, *may_change, **options):
    """The saved config of a workdir after opening it."""
    config = CONFIG if config is None else config
    with workdir.open_workdir(path, config, may_change, **options) as path:
        return json.loads((path / 'config.json').read_text())


@pytest.fixture
def begun(tmp_path):
    """A function (config) -> the workdir of a run with a checkpoint."""

    def make(config=CONFIG):
        _opened(tmp_path / 'run', config)
        (tmp_path / 'run' / 'checkpoints' / '1').mkdir(parents=True)
        return tmp_path / 'run'

    return make


def test_first_use_writes_the_config_sorted_and_later_use_accepts_it(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with workdir.open_workdir('new/run', CONFIG) as path:
        assert path == tmp_path / 'new' / 'run'
        text = (path / 'config.json').read_text()
    assert list(json.loads(text)) == sorted(CONFIG)
    _opened(path)
    assert (path / 'config.json').read_text() == text
    assert {p.name for p in path.iterdir()} == {'config.json', 'lock'}
    # Until a checkpoint is complete, there is nothing to lose.
    assert _opened(path, {'phases': []}) == {'phases': []}


def test_another_config_raises_with_dotted_paths(begun):
    path = begun()
    before = (path / 'config.json').read_text()
    other = CONFIG | {'new': True}
    other['phases'] = [{'steps': 10, 'objective': {'name': 'mlm', 'rate': 0.5}}]
    other['phases'].append({'steps': 3})
    other['checkpoint'] = {}
    other.pop('clip')
    with pytest.raises(ValueError, match='another config') as caught:
        _opened(path, other)
    message = str(caught.value)
    for words in (
        'phases.0.objective.rate: 0.3 -> 0.5',
        "phases.1.steps: '(none)' -> 3",
        "checkpoint: '(none)' -> {}",
        "checkpoint.keep: 2 -> '(none)'",
        "clip: None -> '(none)'",
        "new: '(none)' -> True",
        str(path),
        'another --workdir to start a new one. ',
    ):
        assert words in message
    assert 'name' not in message.split('config:')[1].split('Start')[0]
    assert (path / 'config.json').read_text() == before
    with pytest.raises(ValueError, match='another .*, with init_from from a step of'):
        _opened(path, CONFIG | {'steps': 99})


def test_at_most_ten_differences_are_listed(begun):
    many = {f'key{i:02d}': i for i in range(25)}
    path = begun(many)
    with pytest.raises(ValueError, match='and 15 more') as caught:
        _opened(path, dict.fromkeys(many, -1))
    assert str(caught.value).count('->') == 10


def test_only_keys_in_may_change_can_change(begun):
    path = begun()
    kept = CONFIG | {'checkpoint': {'every_steps': 5, 'keep': 9}}
    assert _opened(path, kept, 'checkpoint.keep')['checkpoint']['keep'] == 9
    every = CONFIG | {'checkpoint': {'every_steps': 7, 'keep': 9}}
    with pytest.raises(ValueError, match=r'checkpoint\.every_steps: 5 -> 7'):
        _opened(path, every, 'checkpoint.keep', 'check')
    _opened(path, every, 'checkpoint')


def test_the_saved_config_is_completed_or_raises(begun):
    """A key that did not exist when the config was written gets its default."""

    def whole(config):
        if set(config) - {'a', 'b'}:
            raise ValueError("The config has no key 'c'.")
        return {'b': 2} | config

    path, config = begun({'a': 1}), {'a': 1, 'b': 2}
    with pytest.raises(ValueError, match='another config: b: .*none.* -> 2'):
        _opened(path, config)
    _opened(path, config, whole=whole)
    (path / 'config.json').write_text('{"a": 1, "c": 3}')
    with pytest.raises(ValueError, match="config.json: The config has no key 'c'"):
        _opened(path, config, whole=whole)
    (path / 'config.json').write_text('{"name": ')
    with pytest.raises(ValueError, match='is damaged: it is not valid JSON'):
        _opened(path, config)
    (path / 'config.json').unlink()
    with pytest.raises(ValueError, match='has checkpoints, but no config.json'):
        _opened(path, config)


@pytest.mark.parametrize(
    'name, text',
    [
        ('thesis.tex', 'years of work'),
        ('config.json', '{"model_type": "bert"}'),  # of an exported model
        ('config.json', '{"phases": '),  # it may have been edited by hand
    ],
)
def test_foreign_folder_is_not_written_into(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=f'not the workdir of one .*{name}'):
        _opened(tmp_path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [(name, text)]


def test_folder_of_a_run_that_died_immediately_is_accepted(tmp_path):
    (tmp_path / 'lock').write_text('process 1 on nowhere')
    (tmp_path / 'config.json.0a1b2c3d.tmp').write_text('{"na')
    assert _opened(tmp_path)


@pytest.mark.parametrize(
    'error',
    [PermissionError(13, 'Permission denied'), OSError(28, 'No space left on device')],
)
def test_errors_of_the_system_name_the_workdir(tmp_path, monkeypatch, error):
    def broken(*args, **kwargs):
        raise error

    monkeypatch.setattr(pathlib.Path, 'mkdir', broken)
    says = f'{tmp_path}/run cannot be used .{error.strerror}.*another --workdir'
    with pytest.raises(type(error), match=says) as caught:
        _opened(tmp_path / 'run')
    assert caught.value.errno == error.errno


def test_second_process_raises_and_the_lock_ends_with_its_holder(tmp_path):
    path = tmp_path / 'run'
    with children.started('-c', HOLD, path) as holder:
        assert holder.stdout.readline() == 'held\n'
        assert workdir.is_locked(path)
        for _ in range(2):  # a rejected process does not change the name in the lock
            with pytest.raises(RuntimeError, match='in use by') as caught:
                _opened(path, {'phases': []})
            assert f'process {holder.pid} on {os.uname().nodename}' in str(caught.value)
            assert 'very process' not in str(caught.value)
    assert not workdir.is_locked(path) and not workdir.is_locked(tmp_path / 'none')
    with workdir.open_workdir(path, {'phases': []}):
        assert str(os.getpid()) in (path / 'lock').read_text()


def test_lock_is_of_one_process_and_released_on_exit_and_on_error(begun):
    path = begun()
    with (
        workdir.open_workdir(path, CONFIG),
        pytest.raises(RuntimeError, match='this very process'),
    ):
        _opened(path)
    with pytest.raises(ZeroDivisionError), workdir.open_workdir(path, CONFIG):
        raise ZeroDivisionError
    with pytest.raises(ValueError, match='another config'):
        _opened(path, CONFIG | {'name': 'other'})
    _opened(path)


def test_filesystem_without_locks_is_a_warning(tmp_path, monkeypatch, caplog):
    for number in (errno.ENOLCK, errno.ENOTSUP, errno.EIO):
        flock = mock.Mock(side_effect=OSError(number, 'no locks'))
        monkeypatch.setattr(fcntl, 'flock', flock)
        caplog.clear()
        if number == errno.EIO:
            with pytest.raises(OSError, match='no locks'):
                _opened(tmp_path / 'run')
        else:
            _opened(tmp_path / 'run')
            assert 'does not support locks' in caplog.text


def test_only_the_first_process_of_a_job_locks_and_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(workdir.jax, 'process_index', lambda: 1)
    with workdir.open_workdir(tmp_path / 'run', CONFIG) as path:
        assert path == tmp_path / 'run'
    assert not path.exists()
