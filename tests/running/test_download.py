"""Runs at an address are downloaded once, and again when they have changed."""

import json
import logging

import fsspec
import jax
import numpy as np
import pytest
import tiny
from test_mirror import ADDRESS, elsewhere, run, store  # noqa: F401 (a fixture)

from jepa_text import export, load
from jepa_text.analysis import analyze
from jepa_text.files import cache, checksums, streams, transfer
from jepa_text.running import download, mirror, restore
from jepa_text.training import init_from

TOP = '/shelf/runs/one'


@pytest.fixture
def opened(monkeypatch):
    """The files that were read from an address."""
    names = []

    def noting(function):
        def noted(address, *given, **options):
            names.append(str(address).removeprefix(f'{ADDRESS}/'))
            return function(address, *given, **options)

        return noted

    monkeypatch.setattr(streams, 'open_bytes', noting(streams.open_bytes))
    monkeypatch.setattr(transfer, 'read', noting(transfer.read))
    return names


def flip(name):
    memory = fsspec.filesystem('memory')
    data = memory.cat(name)
    memory.pipe_file(name, data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])


def largest(step):
    memory = fsspec.filesystem('memory')
    return max(memory.find(f'{TOP}/checkpoints/{step}/state'), key=memory.size)


def test_only_the_newest_step_is_downloaded_and_once(opened):
    run([1, 2])
    folder = download.folder('x', ADDRESS)
    assert folder.name == 'one' and restore.steps(folder / 'checkpoints') == [2]
    assert restore.newest_good(folder / 'checkpoints') == (2, {'step': 2})
    assert (folder / 'metrics.jsonl').read_text() == '1\n2\n'
    assert not [name for name in opened if name.startswith('checkpoints/1/')]
    opened.clear()
    assert download.folder('x', f'{ADDRESS}/') == folder
    sums = f'checkpoints/2/{checksums.NAME}'
    assert sorted(opened) == [sums, 'config.json', 'metrics.jsonl', 'owner.json']
    # A run that continued is downloaded again; an older step by its number.
    run([3])
    assert restore.steps(download.folder('x', ADDRESS) / 'checkpoints') == [3]
    assert restore.steps(download.folder('x', ADDRESS, 2) / 'checkpoints') == [2]


def test_a_damaged_step_is_skipped_with_a_warning(caplog, tmp_path, monkeypatch):
    run([1, 2, 3], keep=3)
    flip(largest(3))
    fsspec.filesystem('memory').rm(largest(2))
    with caplog.at_level(logging.WARNING):
        folder = download.folder('x', ADDRESS)
    assert restore.newest_good_step(folder / 'checkpoints') == 1
    assert 'step 3 is skipped' in caplog.text and 'sha256' in caplog.text
    assert 'step 2 is skipped' in caplog.text and 'has no bytes' in caplog.text
    with pytest.raises(ValueError, match='is damaged: its sha256'):
        download.folder('x', ADDRESS, 3)
    flip(largest(1))
    elsewhere(monkeypatch, tmp_path, 'second')
    with pytest.raises(FileNotFoundError, match='3 checkpoints, and none is good'):
        download.folder('x', ADDRESS)


def test_a_damaged_local_copy_is_downloaded_again():
    run([1])
    folder = download.folder('x', ADDRESS)
    file = folder / 'checkpoints' / '1' / 'state' / '_METADATA'
    file.write_bytes(bytes(file.stat().st_size))
    assert restore.newest_good_step(download.folder('x', ADDRESS) / 'checkpoints') == 1


def test_a_step_removed_during_the_download_is_handled(monkeypatch):
    run([1, 2])
    copied, late = cache.download, [1]

    def copying(*given, **options):
        if late:
            late.pop()
            run([3])  # which removes step 1
            fsspec.filesystem('memory').rm(f'{TOP}/checkpoints/2', recursive=True)
        return copied(*given, **options)

    monkeypatch.setattr(cache, 'download', copying)
    assert restore.steps(download.folder('x', ADDRESS) / 'checkpoints') == [3]


def test_missing_runs_and_steps_raise():
    with pytest.raises(FileNotFoundError, match=f'no files at {ADDRESS}'):
        download.folder('x', ADDRESS)
    run([1, 2])
    with pytest.raises(FileNotFoundError, match=r'step 7 at .*There are: 1, 2'):
        download.folder('x', ADDRESS, 7)
    for odd in ('https://host/run', 'hf://datasets/a/b', 'memory:/cut'):
        with pytest.raises(
            ValueError,
            match='init_from.path.*unsupported protocol|is not a valid address',
        ):
            download.folder('init_from.path', odd)


@pytest.mark.slow
def test_a_run_at_an_address_can_be_used_everywhere(tmp_path, monkeypatch, capsys):
    """Load it, export it to an address, load that, analyze it, and start from it."""
    config = tiny.config(tmp_path, phases=(dict(objective=dict(name='mlm')),), steps=4)
    tiny.train(config, ADDRESS)
    here = mirror.folder_of(ADDRESS)
    own, away = load.load(here), load.load(ADDRESS)
    assert away.name == f'{ADDRESS} at step 4'
    for one, other in zip(jax.tree.leaves(own.params), jax.tree.leaves(away.params)):
        np.testing.assert_array_equal(one, other)
    load.check(ADDRESS)
    load.check_fills(ADDRESS)
    assert load.outline(ADDRESS).params == {} and load.untrained(ADDRESS).params
    export.run({'to': 'memory://shelf/out/theirs'}, ADDRESS)
    theirs = load.load('hf:memory://shelf/out/theirs')
    texts = ['Call me Ishmael.', 'My fellow Americans:']
    np.testing.assert_allclose(theirs.encode(texts), away.encode(texts), atol=1e-5)
    assert (
        'one-4' in fsspec.filesystem('memory').cat('/shelf/out/theirs/README.md').decode()
    )
    described = [
        init_from.describe(init_from.parse(dict(path=p))) for p in (ADDRESS, str(here))
    ]
    assert described[0] == described[1]
    names = analyze.run_names([ADDRESS, 'runs/b'])
    assert names == {ADDRESS: ('one', 0), 'runs/b': ('b', 0)}
    began = tiny.train(
        config | dict(init_from=dict(path=ADDRESS, optimizer='kept'), model={}),
        tmp_path / 'second',
    )
    assert int(began.step) == 4
    lines = json.loads((tmp_path / 'second' / init_from.FILE).read_text())['lines']
    assert f'{ADDRESS} at step 4' in lines[0]
