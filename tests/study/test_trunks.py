"""Trunk checkpoints are removed once no run needs them, and never before."""

from pathlib import Path

import fsspec
import numpy as np
import pytest

from jepa_text.files import addresses, checksums, transfer
from jepa_text.running import download, mirror, restore, retention, shared_runs, workdir
from jepa_text.study import tree, trunks


class Killed(BaseException):
    pass


def course(steps, decay):
    """Returns a Course whose rate is 1 until its decay to a distinct value."""
    rates_N = np.where(np.arange(steps) < decay, 1, 1 / steps).astype(np.float32)
    return tree.Course('alike', ((0, steps, {}, None),), rates_N)


# n continues from m after 16 steps, k after 30.
COURSES = dict(m=course(50, 40), n=course(20, 16), k=course(35, 30))
STEPS = {name: len(one.rates_N) for name, one in COURSES.items()}


def saved(folder, name, *steps):
    """Writes a member with these checkpoints."""
    for step in steps:
        place = folder / name / mirror.STEPS / str(step)
        place.mkdir(parents=True)
        (place / 'state').write_text(f'{name} {step}')
        (place / 'meta').mkdir()
        (place / 'meta' / 'metadata').write_text('{}')
        checksums.write(place)


def states(folder, name='m'):
    return restore.steps(folder / name / mirror.STEPS)


def of(place, courses=COURSES, ended=(), **checkpoint):
    place = shared_runs.Local(place) if isinstance(place, Path) else place
    section = dict(keep=1, keep_at=[]) | checkpoint
    configs = {name: {'checkpoint': section} for name in courses}
    return trunks.Trunks(place, configs, courses, set(ended))


def release(place, *finished, **checkpoint):
    of(place, **checkpoint).release(finished.__contains__)
    return states(getattr(place, 'folder', place))


def test_a_trunk_is_removed_when_all_that_continue_from_it_have_ended(tmp_path):
    saved(tmp_path, 'm', 16, 30, 50)
    assert of(tmp_path).milestones['m'] == {16, 30}
    assert release(tmp_path, 'm') == [16, 30, 50]
    assert release(tmp_path, 'n', 'k') == [16, 30, 50]  # m has not ended yet
    assert release(tmp_path, 'm', 'n') == [30, 50]
    assert release(tmp_path, 'm', 'n', 'k') == [50]


def test_a_trunk_retained_by_the_section_checkpoint_remains(tmp_path):
    saved(tmp_path, 'm', 10, 16, 20, 30, 40, 50)
    left = release(tmp_path, *COURSES, keep=2, keep_every=20, keep_at=[16])
    assert left == [16, 20, 40, 50]


def test_an_earlier_trunk_remains_if_the_later_one_is_lost(tmp_path):
    """k would continue after 30 steps, but can only continue after 16."""
    saved(tmp_path, 'm', 10, 16, 50)
    assert release(tmp_path, 'm', 'n') == [16, 50]


def test_an_interrupted_removal_is_completed(tmp_path, monkeypatch):
    saved(tmp_path, 'm', 16, 30, 50)

    def killed(path):
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(retention.shutil, 'rmtree', killed)
        release(tmp_path, 'm', 'n')
    assert states(tmp_path) == [30, 50]
    assert (tmp_path / 'm' / mirror.STEPS / 'deleting-16').is_dir()
    assert of(tmp_path).of('k') == ('m', 30)
    assert release(tmp_path, 'm', 'n') == [30, 50]
    left = {path.name for path in (tmp_path / 'm' / mirror.STEPS).iterdir()}
    assert left == {'30', '50'}


def test_two_workers_do_not_release_at_once(tmp_path):
    saved(tmp_path, 'm', 16, 30, 50)
    with workdir.locked(tmp_path / 'm'):
        assert release(tmp_path, *COURSES) == [16, 30, 50]
    assert release(tmp_path, *COURSES) == [50]


def test_a_later_arm_trains_steps_again_and_is_a_trunk_for_the_next(tmp_path):
    """With two later arms, only the first trains the beginning again."""
    saved(tmp_path, 'm', 50)
    more = dict(m=COURSES['m'], x=course(24, 20), y=course(25, 20))
    found = of(tmp_path, more, ended='m')
    assert found.of('x') is None
    assert found.retrained('x') == (
        'steps 1 to 20 are the same as in m, but its checkpoint was not retained: '
        'they are trained again'
    )
    assert found.milestones == {'m': set(), 'x': {20}, 'y': set()}
    assert not found.is_ready('y', {'x', 'y'})
    saved(tmp_path, 'x', 20, 24)
    assert found.of('y') == ('x', 20) and not found.retrained('y')
    # A shorter existing trunk is used.
    saved(tmp_path, 'm', 12)
    found = of(tmp_path, dict(m=COURSES['m'], z=course(23, 19)), ended='m')
    assert found.of('z') == ('m', 12)
    assert found.retrained('z').startswith('steps 13 to 19 are the same as in m')


def test_trunks_are_also_removed_at_an_address(tmp_path, monkeypatch):
    monkeypatch.setenv('JEPA_TEXT_CACHE', str(tmp_path))
    monkeypatch.setattr(addresses, 'PAUSE', 0.0)
    fsspec.filesystem('memory').store.clear()
    address = 'memory://shelf/study'
    with shared_runs.opened(address, ()) as place:
        saved(tmp_path / 'made', 'm', 16, 30, 50)
        transfer.upload_folder(tmp_path / 'made', address, f'm/{mirror.STEPS}/50/state')
        place.refresh()
        assert download.runs(transfer.list_files(address)) == {'m/': [16, 30, 50]}
        assert release(place, 'm', 'n') == [30, 50]
    assert download.runs(transfer.list_files(address)) == {'m/': [30, 50]}
    # Nothing is trained again on another machine.
    monkeypatch.setenv('JEPA_TEXT_CACHE', str(tmp_path / 'second'))
    with shared_runs.opened(address, ()) as place:
        assert of(place, ended='m').of('k') == ('m', 30) and place.fetch('m', 30)
        assert not of(place, ended='m').retrained('k')
        assert (place.folder / 'm' / mirror.STEPS / '30' / 'state').is_file()
        assert not (place.folder / 'm' / mirror.STEPS / '50' / 'state').exists()
