"""Tests that Apache Beam gives the same rows as local processes."""

import sys

import numpy as np
import pytest

from jepa_text.data import prepare, preparing, tokenizers
from jepa_text.data.rows import row_folder
from jepa_text.files import partial


@pytest.fixture
def folder(tmp_path, units_of):
    units_of(1500)
    place, rng = tmp_path / 'texts', np.random.default_rng(0)
    place.mkdir()
    for number in range(4):
        words = ['the', 'whale', 'sea', 'é']
        texts = [' '.join(rng.choice(words, rng.integers(3, 30))) for _ in range(70)]
        (place / f'{number}.txt').write_text('\n\n'.join([*texts, 'of all']))
    return place


def made(folder, name, **changed):
    return prepare.prepare(
        {'name': 'text', 'path': str(folder), 'heldout_every': 5},
        tokenizers.load(tokenizers.BUNDLED),
        folder.parent / name,
        row_length=32,
        **changed,
    )


@pytest.mark.beam
@pytest.mark.parametrize('clean', [{}, {'exact_duplicates': True}])
def test_beam_gives_the_same_output(folder, clean):
    here = made(folder, 'here', workers=1, clean=clean)
    there = made(folder, 'there', engine='beam', clean=clean)
    assert here == there and len(row_folder.files(here)) > 8
    assert bool(clean) == ('exact duplicate' in here['left_out'])
    assert not list(folder.parent.glob('.*'))


@pytest.mark.beam
def test_beam_by_several_processes_with_flags(folder):
    flags = ('--direct_running_mode=multi_processing', '--direct_num_workers=2')
    assert made(folder, 'here', workers=1) == made(
        folder, 'there', engine='beam', beam=flags
    )


@pytest.mark.beam
def test_invalid_text_raises_and_finished_units_are_kept(folder):
    good = (folder / '2.txt').read_bytes()
    (folder / '2.txt').write_bytes(b'\xff' + good[1:])
    (folder / '9.txt').write_bytes(b'\xff')  # also invalid, but of a later unit
    with pytest.raises(ValueError, match='2.txt is not UTF-8: byte 0xff at byte off'):
        made(folder, 'rows', engine='beam')
    assert partial.done_parts(folder.parent / '.rows.partial')
    (folder / '2.txt').write_bytes(good)
    (folder / '9.txt').write_bytes(b'a')
    assert made(folder, 'rows', workers=1) == made(folder, 'straight')
    assert not list((folder.parent / 'rows').glob('failed*'))


def test_missing_beam_raises(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, 'apache_beam', None)
    monkeypatch.delitem(sys.modules, 'jepa_text.data.preparing.beam', raising=False)
    monkeypatch.delattr(preparing, 'beam', raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'jepa-text\[beam\]'"):
        made(folder, 'rows', engine='beam')
    with pytest.raises(ValueError, match="engine='bean' is invalid.*'beam'"):
        made(folder, 'rows', engine='bean')
    assert not list(folder.parent.glob('*rows*'))
