"""States that only stay for other runs go when these have ended, and never before."""

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
    """Of a run whose rate is 1 up to its decay, to a value of its own."""
    rates_N = np.where(np.arange(steps) < decay, 1, 1 / steps).astype(np.float32)
    return tree.Course('alike', ((0, steps, {}, None),), rates_N)


# n goes on from m after 16, k after 30.
COURSES = dict(m=course(50, 40), n=course(20, 16), k=course(35, 30))
STEPS = {name: len(one.rates_N) for name, one in COURSES.items()}


def saved(folder, name, *steps):
    """A member with these states."""
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
    place = shared_runs.Here(place) if isinstance(place, Path) else place
    section = dict(keep=1, keep_at=[]) | checkpoint
    configs = {name: {'checkpoint': section} for name in courses}
    return trunks.Trunks(place, configs, courses, set(ended))


def release(place, *finished, **checkpoint):
    of(place, **checkpoint).release(finished.__contains__)
    return states(getattr(place, 'folder', place))


def test_a_state_goes_when_all_that_go_on_from_it_have_ended(tmp_path):
    saved(tmp_path, 'm', 16, 30, 50)
    assert of(tmp_path).milestones['m'] == {16, 30}
    assert release(tmp_path, 'm') == [16, 30, 50]
    assert release(tmp_path, 'n', 'k') == [16, 30, 50]  # m has still to end
    assert release(tmp_path, 'm', 'n') == [30, 50]
    assert release(tmp_path, 'm', 'n', 'k') == [50]


def test_a_state_stays_that_the_section_checkpoint_keeps(tmp_path):
    saved(tmp_path, 'm', 10, 16, 20, 30, 40, 50)
    left = release(tmp_path, *COURSES, keep=2, keep_every=20, keep_at=[16])
    assert left == [16, 20, 40, 50]


def test_an_earlier_state_stays_where_the_later_one_is_lost(tmp_path):
    """k would go on from that after 30, and can only from that after 16."""
    saved(tmp_path, 'm', 10, 16, 50)
    assert release(tmp_path, 'm', 'n') == [16, 50]


def test_killed_between_nothing_is_lost_and_nothing_is_left(tmp_path, monkeypatch):
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


def test_an_arm_that_comes_later_trains_again_and_lends_to_the_next(tmp_path):
    """Two of them: the beginning is trained once, by the first."""
    saved(tmp_path, 'm', 50)
    more = dict(m=COURSES['m'], x=course(24, 20), y=course(25, 20))
    found = of(tmp_path, more, ended='m')
    assert found.of('x') is None
    assert found.again('x') == (
        'steps 1 to 20 are those of m, whose state there is not kept: '
        'they are trained again'
    )
    assert found.milestones == {'m': set(), 'x': {20}, 'y': set()}
    assert not found.is_ready('y', {'x', 'y'})
    saved(tmp_path, 'x', 20, 24)
    assert found.of('y') == ('x', 20) and not found.again('y')
    # What is there is of use, if less than all.
    saved(tmp_path, 'm', 12)
    found = of(tmp_path, dict(m=COURSES['m'], z=course(23, 19)), ended='m')
    assert found.of('z') == ('m', 12)
    assert found.again('z').startswith('steps 13 to 19 are those of m')


def test_at_an_address_it_goes_there_too(tmp_path, monkeypatch):
    monkeypatch.setenv('JEPA_TEXT_CACHE', str(tmp_path))
    monkeypatch.setattr(addresses, 'PAUSE', 0.0)
    fsspec.filesystem('memory').store.clear()
    address = 'memory://shelf/study'
    with shared_runs.opened(address, ()) as place:
        saved(tmp_path / 'made', 'm', 16, 30, 50)
        transfer.folder(tmp_path / 'made', address, f'm/{mirror.STEPS}/50/state')
        place.look()
        assert download.runs(transfer.listed(address)) == {'m/': [16, 30, 50]}
        assert release(place, 'm', 'n') == [30, 50]
    assert download.runs(transfer.listed(address)) == {'m/': [30, 50]}
    # On another machine nothing is trained again.
    monkeypatch.setenv('JEPA_TEXT_CACHE', str(tmp_path / 'second'))
    with shared_runs.opened(address, ()) as place:
        assert of(place, ended='m').of('k') == ('m', 30) and place.bring('m', 30)
        assert not of(place, ended='m').again('k')
        assert (place.folder / 'm' / mirror.STEPS / '30' / 'state').is_file()
        assert not (place.folder / 'm' / mirror.STEPS / '50' / 'state').exists()
