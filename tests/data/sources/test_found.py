"""Tests for which files of a folder are read, and how others are reported."""

import pytest

from jepa_text.data.rows import row_folder
from jepa_text.data.sources import jsonl, text
from jepa_text.files import listing
from jepa_text.training import prepare as preparing

TXT = ('.txt', '.txt.gz')


def write(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'the text of {name}\n\nand more of {name}\n\nof the sea')


def test_compressed_suffixes_are_case_insensitive(tmp_path):
    import gzip

    (tmp_path / 'A.TXT.GZ').write_bytes(gzip.compress(b'the sea\n\nthe whale'))
    both = [*text.make('train', tmp_path), *text.make('heldout', tmp_path)]
    assert {document['text'] for document in both} == {'the sea', 'the whale'}


def test_a_folder_without_readable_files_raises(tmp_path):
    write(tmp_path, *(f'{n}.md' for n in range(9)))
    with pytest.raises(FileNotFoundError, match=r'9 \(other suffix: 0.md, .*, ...\)'):
        listing.expand(tmp_path, TXT)
    (tmp_path / 'gone').symlink_to('nowhere')
    with pytest.raises(FileNotFoundError, match='There is no file or folder at'):
        listing.expand(tmp_path / 'gone', TXT)


def test_prepare_reports_read_and_skipped_files(tmp_path, capsys):
    write(tmp_path, *(f'texts/{n}.txt' for n in range(4)), 'texts/table.csv')
    source = dict(name='text', path=str(tmp_path / 'texts'), heldout_every=2)
    config = {'prepare': dict(source=source, tokenizer='bundled', row_length=8)}
    preparing.run(config, str(tmp_path / 'rows'))
    words = '4 files read; skipped: 1 (other suffix: table.csv)'
    assert words in capsys.readouterr().out
    assert row_folder.read_manifest(tmp_path / 'rows')['read'] == words
    preparing.run({'prepare': dict(config['prepare'])}, str(tmp_path / 'rows'))
    assert words in capsys.readouterr().out


def test_documents_can_be_read_again(tmp_path):
    (tmp_path / 'a.jsonl').write_text('{"text": "the sea"}\n{"text": "a whale"}\n')
    train = jsonl.make('train', tmp_path, heldout_every=10**6)
    assert len(list(train)) == len(list(train)) == 2
