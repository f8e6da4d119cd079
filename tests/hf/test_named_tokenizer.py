"""`prepare.tokenizer` accepts every name that `jepa-text tokenizer` does."""

import shutil

import foreign_tokenizers
import pytest

from jepa_text.data import pipeline, tokenizers
from jepa_text.hf import named_tokenizer
from jepa_text.training import prepare

OURS = ('bundled', str(tokenizers.BUNDLED), str(tokenizers.BUNDLED.parent))


def named(kind, folder):
    """The name of a foreign tokenizer; 'hub' is in the cache of the Hub."""
    if kind == 'sp':
        return str(foreign_tokenizers.sentencepiece(folder / 'their.model'))
    cached = folder / 'snapshots' / ('c0ffee' * 7)[:40]
    foreign_tokenizers.wordpiece(cached / 'tokenizer.json')
    return f'hf:{cached}'


def section(tmp_path, name):
    lines = [f'the whale and the sea {n}' for n in range(60)]
    (tmp_path / 'a.txt').write_text('\n\n'.join(lines))
    source = {'name': 'text', 'path': str(tmp_path / 'a.txt'), 'heldout_every': 5}
    return {'source': source, 'tokenizer': name, 'row_length': 32}


@pytest.mark.parametrize('kind', ['hub', pytest.param('sp', marks=pytest.mark.peer)])
def test_prepare_takes_other_formats_and_reports_their_origin(kind, tmp_path, capsys):
    folder, name = tmp_path / 'rows', named(kind, tmp_path)
    manifest = prepare.make(section(tmp_path, name), folder)
    made = tokenizers.load(folder / 'tokenizer.json')
    assert made.fingerprint == manifest['tokenizer_fingerprint']
    assert None not in (made.pad_id, made.bos_id, made.eos_id, made.mask_id)
    about = manifest['tokenizer']
    assert about['name'] == name and any('mask' in line for line in about['said'])
    printed = capsys.readouterr().out
    assert f'tokenizer: {name}; ' in printed
    for line in about['said']:
        assert line in printed
    row = pipeline.Rows(folder, 'train')[0]
    text = made.decode(row['tokens'])
    assert 'whale' in text.replace('##', '').replace(' ', '')


def test_the_commit_is_part_of_the_manifest(tmp_path):
    name, folder = named('hub', tmp_path), tmp_path / 'rows'
    asked = section(tmp_path, name)
    one = prepare.make(asked, folder)
    assert one['settings']['tokenizer_commit'] == one['tokenizer']['commit']
    assert one['tokenizer']['commit'].startswith('c0ffee')
    assert prepare.make(asked, folder) == one
    other = tmp_path / 'snapshots' / ('decade' * 7)[:40]
    shutil.copytree(name.removeprefix('hf:'), other)
    with pytest.raises(FileExistsError, match=r"tokenizer_commit was 'c0ffee.*'decade"):
        prepare.make(asked | {'tokenizer': f'hf:{other}'}, folder)


@pytest.mark.peer
@pytest.mark.parametrize('kind', ['hub', 'sp'])
def test_rows_of_another_tokenizer_are_reported(kind, tmp_path, capsys):
    theirs = {other: named(other, tmp_path) for other in ('hub', 'sp')}
    asked, folder = section(tmp_path, theirs[kind]), str(tmp_path / 'rows')
    prepare.make(asked, folder)
    capsys.readouterr()
    prepare.if_missing(asked, folder)
    assert capsys.readouterr().out == ''
    others = [name for other, name in theirs.items() if other != kind]
    for name in (*others, 'bundled'):
        prepare.if_missing(asked | {'tokenizer': name}, folder)
        assert 'Note: ' in (said := capsys.readouterr().out) and 'tokenizer was' in said


@pytest.mark.parametrize('name', OURS)
def test_a_tokenizer_of_this_package_is_unchanged(name, tmp_path, ours):
    opened = named_tokenizer.opened(name)
    assert opened.tokenizer.fingerprint == ours.fingerprint
    assert opened.commit == ''
    manifest = prepare.make(section(tmp_path, name), tmp_path / 'rows')
    assert manifest['tokenizer'] == {'name': name}
    assert 'tokenizer_commit' not in manifest['settings']


def test_a_tokenizer_file_is_not_completed(tmp_path):
    path = foreign_tokenizers.wordpiece(tmp_path / 'theirs' / 'tokenizer.json')
    with pytest.raises(ValueError, match='no pad token.*jepa-text tokenizer'):
        prepare.make(section(tmp_path, str(path)), tmp_path / 'rows')
    assert not (tmp_path / 'rows').exists()


@pytest.mark.parametrize(
    'name, message',
    [
        ('hf:/none/at/all', 'not a valid name on the hub'),
        ('none.model', 'No tokenizer at none.model'),
        ('init_from', 'init_from.path is not set'),
    ],
)
def test_missing_tokenizers_are_reported_before_anything_is_written(
    name, message, tmp_path
):
    with pytest.raises((FileNotFoundError, ValueError), match=message):
        prepare.make(section(tmp_path, name), tmp_path / 'rows')
    assert not (tmp_path / 'rows').exists()


def test_exists_does_not_download():
    there = ('bundled', 'init_from', 'hf:lab/x', str(tokenizers.BUNDLED))
    assert all(map(named_tokenizer.exists, there))
    assert not any(map(named_tokenizer.exists, ('', 'none.json')))
