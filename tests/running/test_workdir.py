"""A workdir has one process and one config; anything else raises a clear error."""

import fcntl
import json
import os
import pathlib

import children
import pytest

from jepa_text.running import workdir

CONFIG = {
    'name': 'run',
    'phases': [{'steps': 10, 'objective': {'name': 'mlm', 'rate': 0.3}}],
    'checkpoint': {'every': 5, 'keep': 2},
    'betas': (0.9, 0.95),
    'clip': None,
}
HOLD = """
import sys, time
from jepa_text.running import workdir
with workdir.open_workdir(sys.argv[1], {'a': 1}):
    print('held', flush=True)
    time.sleep(60)
"""


def _changed(**changes):
    return {**CONFIG, **changes}


def test_first_use_writes_the_config_sorted_and_later_use_accepts_it(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with workdir.open_workdir('new/run', CONFIG) as path:
        assert path == tmp_path / 'new' / 'run'
        text = (path / 'config.json').read_text()
    assert list(json.loads(text)) == sorted(CONFIG)
    with workdir.open_workdir(path, CONFIG):
        assert (path / 'config.json').read_text() == text
    assert {p.name for p in path.iterdir()} == {'config.json', 'lock'}


def test_another_config_raises_with_dotted_paths(tmp_path):
    with workdir.open_workdir(tmp_path / 'run', CONFIG) as path:
        before = (path / 'config.json').read_text()
    other = _changed(
        phases=[{'steps': 10, 'objective': {'name': 'mlm', 'rate': 0.5}}], new=True
    )
    other.pop('clip')
    with pytest.raises(ValueError, match='another config') as caught:
        workdir.open_workdir(path, other).__enter__()
    message = str(caught.value)
    assert 'phases.0.objective.rate: 0.3 -> 0.5' in message
    assert "clip: None -> '(none)'" in message
    assert "new: '(none)' -> True" in message
    assert str(path) in message
    assert 'another --workdir to start a new one. ' in message
    assert 'name' not in message.split('config:')[1].split('Start')[0]
    assert (path / 'config.json').read_text() == before
    with pytest.raises(ValueError, match='another .*, with init_from from a step of'):
        workdir.open_workdir(path, _changed(steps=99)).__enter__()


def test_at_most_ten_differences_are_listed(tmp_path):
    many = {f'key{i:02d}': i for i in range(25)}
    with workdir.open_workdir(tmp_path / 'run', many):
        pass
    with pytest.raises(ValueError, match='and 15 more') as caught:
        workdir.open_workdir(tmp_path / 'run', dict.fromkeys(many, -1)).__enter__()
    assert str(caught.value).count('->') == 10


def test_only_keys_in_may_change_can_change(tmp_path):
    with workdir.open_workdir(tmp_path / 'run', CONFIG) as path:
        pass
    kept = _changed(checkpoint={'every': 5, 'keep': 9})
    with workdir.open_workdir(path, kept, ('checkpoint.keep',)):
        assert json.loads((path / 'config.json').read_text())['checkpoint']['keep'] == 9
    every = _changed(checkpoint={'every': 7, 'keep': 9})
    with pytest.raises(ValueError, match=r'checkpoint\.every: 5 -> 7'):
        workdir.open_workdir(path, every, ('checkpoint.keep', 'check')).__enter__()
    with workdir.open_workdir(path, every, ('checkpoint',)):
        pass


def test_differences_see_types_lists_and_empty_sections():
    old = {'a': [1, 2], 'b': {}, 'c': {'d': 1}}
    new = {'a': [1, 2, 3], 'b': {'x': 0}, 'c': {'d': 1}}
    assert workdir.differences(old, new) == {
        'a.2': ('(none)', 3),
        'b': ({}, '(none)'),
        'b.x': ('(none)', 0),
    }
    assert workdir.differences(old, old) == {}


def test_the_saved_config_is_completed_or_raises(tmp_path):
    """A key that did not exist when the config was written gets its default."""

    def whole(config):
        if set(config) - {'a', 'b'}:
            raise ValueError("The config has no key 'c'.")
        return {'b': 2} | config

    path = tmp_path / 'run'
    with workdir.open_workdir(path, {'a': 1}):
        pass
    with (
        pytest.raises(ValueError, match='another config: b: .*none.* -> 2'),
        workdir.open_workdir(path, {'a': 1, 'b': 2}),
    ):
        pass
    with workdir.open_workdir(path, {'a': 1, 'b': 2}, whole=whole):
        pass
    (path / 'config.json').write_text('{"a": 1, "c": 3}')
    with (
        pytest.raises(ValueError, match="config.json: The config has no key 'c'"),
        workdir.open_workdir(path, {'a': 1, 'b': 2}, whole=whole),
    ):
        pass


def test_damaged_config_file_raises(tmp_path):
    with workdir.open_workdir(tmp_path / 'run', CONFIG) as path:
        pass
    (path / 'config.json').write_text('{"name": ')
    with pytest.raises(ValueError, match='not readable as JSON'):
        workdir.open_workdir(path, CONFIG).__enter__()


def test_foreign_folder_is_not_written_into(tmp_path):
    (tmp_path / 'thesis.tex').write_text('years of work')
    with pytest.raises(ValueError, match='not the workdir of a run') as caught:
        workdir.open_workdir(tmp_path, CONFIG).__enter__()
    assert 'thesis.tex' in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ['thesis.tex']


def test_folder_of_a_run_that_died_immediately_is_accepted(tmp_path):
    (tmp_path / 'lock').write_text('process 1 on nowhere')
    (tmp_path / 'config.json.0a1b2c3d.tmp').write_text('{"na')
    with workdir.open_workdir(tmp_path, CONFIG):
        assert (tmp_path / 'config.json').exists()


@pytest.mark.parametrize(
    'error',
    [
        FileExistsError(17, 'File exists'),
        PermissionError(13, 'Permission denied'),
        OSError(28, 'No space left on device'),
        OSError(116, 'Stale file handle'),
    ],
)
def test_errors_of_the_system_name_the_workdir(tmp_path, monkeypatch, error):
    def broken(*args, **kwargs):
        raise error

    monkeypatch.setattr(pathlib.Path, 'mkdir', broken)
    says = f'{tmp_path}/run cannot be used .{error.strerror}.*another --workdir'
    with pytest.raises(type(error), match=says) as caught:
        workdir.open_workdir(tmp_path / 'run', CONFIG).__enter__()
    assert caught.value.errno == error.errno


def test_second_process_raises_and_the_lock_ends_with_its_holder(tmp_path):
    with children.started('-c', HOLD, tmp_path / 'run') as holder:
        assert holder.stdout.readline() == 'held\n'
        for _ in range(2):  # a rejected process does not change the name in the lock
            with pytest.raises(RuntimeError, match='in use by') as caught:
                workdir.open_workdir(tmp_path / 'run', {'a': 1}).__enter__()
            assert f'process {holder.pid} on {os.uname().nodename}' in str(caught.value)
            assert 'very process' not in str(caught.value)
    with workdir.open_workdir(tmp_path / 'run', {'a': 1}) as path:
        assert str(os.getpid()) in (path / 'lock').read_text()


def test_lock_is_of_one_process_and_released_on_exit_and_on_error(tmp_path):
    with (
        workdir.open_workdir(tmp_path / 'run', CONFIG),
        pytest.raises(RuntimeError, match='this very process'),
        workdir.open_workdir(tmp_path / 'run', CONFIG),
    ):
        pass
    with (
        pytest.raises(ZeroDivisionError),
        workdir.open_workdir(tmp_path / 'run', CONFIG),
    ):
        raise ZeroDivisionError
    with pytest.raises(ValueError, match='another config'):
        workdir.open_workdir(tmp_path / 'run', _changed(name='other')).__enter__()
    with workdir.open_workdir(tmp_path / 'run', CONFIG):
        pass


def test_filesystem_without_locks_is_a_warning(tmp_path, monkeypatch, caplog):
    def unsupported(*args):
        raise OSError(95, 'Operation not supported')

    monkeypatch.setattr(fcntl, 'flock', unsupported)
    with workdir.open_workdir(tmp_path / 'run', CONFIG):
        pass
    assert 'does not support locks' in caplog.text


def test_only_the_first_process_of_a_job_locks_and_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(workdir.jax, 'process_index', lambda: 1)
    with workdir.open_workdir(tmp_path / 'run', CONFIG) as path:
        assert path == tmp_path / 'run'
    assert not path.exists()
