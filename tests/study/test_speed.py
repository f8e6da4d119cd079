"""The speed board: its entries, and the documents on which it is tuned and scored."""

import sys
import types
from pathlib import Path

from jepa_text.data.corpora import invalid_text
from jepa_text.data.sources import bundled
from jepa_text.settings import config_file
from jepa_text.study import measure, study

FILE = Path(__file__).parents[2] / 'configs' / 'speed.py'


def speed(argument=''):
    """Returns the complete config of the speed board as plain dicts."""
    return study.plain(config_file.read(f'{FILE}:{argument}'))


def test_the_board_is_scored_on_other_documents_than_it_is_tuned_on():
    whole = bundled.make('heldout')
    tuned, scored = (bundled.make(split, test=True) for split in ('heldout', 'test'))
    assert len(tuned) + len(scored) == len(whole) and len(scored) == 2 * len(tuned)
    assert all((one in tuned) != (one in scored) for one in whole)
    # Each author with several documents is in both splits.
    authors = [{one['author'] for one in part} for part in (tuned, scored)]
    several = {'Jane Austen', 'Herman Melville', 'Donald J Trump'}
    assert several <= authors[0] & authors[1]
    assert bundled.make('train', test=True) == bundled.make('train')


def test_the_board_measures_the_test_split(monkeypatch):
    read = []
    monkeypatch.setattr(measure.tokenizers, 'load', lambda path: None)
    monkeypatch.setattr(
        measure.representation, 'make', lambda documents, *_: read.extend(documents)
    )
    for argument, split in (('scale=desk', 'test'), ('scale=tune', 'heldout')):
        read.clear()
        config = speed(argument)
        measure.probes(config, Path('rows'))
        assert read == bundled.make(split, test=True)
        assert measure.split_of(config['study']) == split


def test_invalid_documents_are_not_measured(monkeypatch):
    read, mine = [], types.ModuleType('lab.mine')
    rows = [{'text': 'good'}, invalid_text.Bad(invalid_text.NUL), {'text': 'a \0'}]
    mine.make = lambda split: rows
    monkeypatch.setitem(sys.modules, 'lab', types.ModuleType('lab'))
    monkeypatch.setitem(sys.modules, 'lab.mine', mine)
    monkeypatch.setattr(measure.tokenizers, 'load', lambda path: None)
    monkeypatch.setattr(
        measure.representation, 'make', lambda *given: read.extend(given[0])
    )
    measure.probes(speed() | {'prepare': {'source': {'name': 'lab.mine'}}}, Path('rows'))
    assert read == rows[:1]


def test_entries_of_the_board_have_equal_size_and_rows():
    config = speed('seeds=1')
    names = [run['name'] for run in config['runs']]
    assert names[:2] == ['mlm', 'clm_mlm'] and {'muon', 'hybrid'} < set(names)
    for run in config['runs']:
        assert not run.keys() & {'prepare', 'seed', 'init_from'}
        # Norms of queries and keys are 256 of 1.1 M parameters.
        assert run.get('model', {}).keys() <= {'qk_norm'}
        assert run.get('data', {}).keys() <= {'batch_size'}
    only = speed('scale=tune,only=muon,mlm,seeds=2')
    assert [run['name'] for run in only['runs']] == ['muon', 'mlm']
    assert only['seeds'] == [0, 1]
