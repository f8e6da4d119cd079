"""Tests for which files of a folder are read, and how others are reported."""

import os
from pathlib import Path

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


def names(found):
    return [file.path.removeprefix(f'{found.top}/') for file in found.files]


def test_suffixes_are_case_insensitive(tmp_path):
    write(tmp_path, 'A.TXT', 'b.txt', 'C.Txt', 'sub/d.txt', 'readme.md', '.hidden.txt')
    found = listing.expand(tmp_path, TXT)
    assert names(found) == ['A.TXT', 'C.Txt', 'b.txt', 'sub/d.txt']
    skipped = '1 (hidden: .hidden.txt), 1 (other suffix: readme.md)'
    assert str(found) == f'4 files read; skipped: {skipped}'


def test_compressed_suffixes_are_case_insensitive(tmp_path):
    import gzip

    (tmp_path / 'A.TXT.GZ').write_bytes(gzip.compress(b'the sea\n\nthe whale'))
    both = [*text.make('train', tmp_path), *text.make('heldout', tmp_path)]
    assert {document['text'] for document in both} == {'the sea', 'the whale'}


def test_links_are_followed_once(tmp_path):
    write(tmp_path, 'corpus/a.txt', 'elsewhere/b.txt', 'elsewhere/deep/c.txt')
    corpus = tmp_path / 'corpus'
    (corpus / 'linked').symlink_to('../elsewhere')
    (corpus / 'linked_again').symlink_to('../elsewhere/deep')
    (corpus / 'same.txt').symlink_to('a.txt')
    (tmp_path / 'elsewhere' / 'loop').symlink_to('..')
    (corpus / 'itself').symlink_to('.')
    found = listing.expand(corpus, TXT)
    assert len(names(found)) == 3 and 'a.txt' in names(found)
    assert {Path(file.path).name for file in found.files} == {'a.txt', 'b.txt', 'c.txt'}
    assert len(found.skipped[listing.AGAIN]) >= 3
    assert 'duplicate by a link' in str(found)


def test_unreadable_files_are_named(tmp_path, monkeypatch):
    write(tmp_path, 'a.txt', 'b.txt', 'c.txt', 'closed/d.txt', 'e.txt')
    (tmp_path / 'broken.txt').symlink_to('nowhere.txt')
    os.mkfifo(tmp_path / 'pipe.txt')
    closed_to_us(monkeypatch, tmp_path / 'closed', tmp_path / 'e.txt')
    found = listing.expand(tmp_path, TXT)
    assert names(found) == ['a.txt', 'b.txt', 'c.txt']
    for words in (
        '1 (broken link: broken.txt)',
        '2 (unreadable: closed, e.txt)',
        '1 (not a regular file: pipe.txt)',
    ):
        assert words in str(found)


def closed_to_us(monkeypatch, *places):
    """Makes places unreadable, as permissions do for users other than root."""
    scandir, access = os.scandir, os.access

    def scan(path):
        if Path(path) in places:
            raise PermissionError(13, 'Permission denied', str(path))
        return scandir(path)

    monkeypatch.setattr(os, 'scandir', scan)
    monkeypatch.setattr(os, 'access', lambda p, m: Path(p) not in places and access(p, m))


def test_a_mostly_unreadable_corpus_raises(tmp_path):
    write(tmp_path, 'a.txt', 'notes.md', 'more.md')
    (tmp_path / 'moved').symlink_to('/nowhere/moved')
    assert len(listing.expand(tmp_path, TXT).files) == 1
    (tmp_path / 'b.txt').symlink_to('/nowhere/b.txt')
    with pytest.raises(
        ValueError, match=r'Most files of .*2 \(broken link: b.txt, moved\)'
    ):
        listing.expand(tmp_path, TXT)


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
