import html
import json
import os
import pathlib
import re

import foreign_tokenizers
import numpy as np
import pytest
import read_back
from ml_collections import ConfigDict

from jepa_text.data import pipeline, prepare
from jepa_text.data.rows import packing, row_folder, writing
from jepa_text.data.tokenizers import training
from jepa_text.report import rows_page
from jepa_text.training import prepare as preparing


@pytest.fixture
def corpus(tmp_path):
    """A source of 300 short documents, with some blank ones."""
    rng = np.random.default_rng(0)
    words = np.array(['the', 'whale', 'and', 'a', 'white', 'sea', 'of', 'é'])
    lines = [' '.join(rng.choice(words, rng.integers(1, 60))) for _ in range(300)]
    path = tmp_path / 'corpus.jsonl'
    lines = [json.dumps({'text': f'{n} {line}'}) for n, line in enumerate(lines)]
    path.write_text('\n'.join([*lines, '{"text": " \\n"}', '{"text": ""}']))
    return {'name': 'jsonl', 'path': path, 'heldout_every': 5}


@pytest.fixture
def make(corpus, ours, tmp_path):
    """`prepare` with small settings, any of them overridden."""

    def call(folder='rows', **changed):
        given = {'source': corpus, 'tokenizer': ours, 'row_length': 32} | changed
        return prepare.prepare(folder=tmp_path / folder, **given)

    return call


def test_every_token_of_every_document_is_in_the_rows(make, tmp_path, corpus, ours):
    manifest = make(row_length=4096)
    texts = [
        json.loads(line)['text']
        for line in corpus['path'].read_text().splitlines()
        if json.loads(line)['text'].strip()
    ]
    found = []
    for split in ('train', 'heldout'):
        pieces = read_back.pieces(tmp_path / 'rows', split)
        for piece in pieces:
            assert piece[0] == ours.bos_id and piece[-1] == ours.eos_id
            found.append(ours.decode(piece[1:-1]))
        counts = manifest['splits'][split]
        assert counts['documents'] == len(pieces)
        assert counts['tokens'] == sum(map(len, pieces))
        powers_of_2 = np.log2([len(piece) for piece in pieces]).astype(int)
        assert counts['lengths'] == np.bincount(powers_of_2).tolist()
        texts_of_split = [ours.decode(piece) for piece in pieces]
        assert counts['bytes'] == sum(len(text.encode()) for text in texts_of_split)
    assert sorted(found) == sorted(texts)


@pytest.mark.parametrize('name', packing.PACKINGS)
@pytest.mark.parametrize('window', [500, writing.WINDOW])
def test_short_rows_hold_the_same_tokens(make, tmp_path, monkeypatch, name, window):
    whole = make('long', row_length=4096)
    monkeypatch.setattr(writing, 'WINDOW', window)
    short = make('short', row_length=24, packing=name)
    for split in ('train', 'heldout'):
        for key in ('documents', 'tokens', 'bytes', 'lengths', 'text_sha256'):
            assert whole['splits'][split][key] == short['splits'][split][key]
        counted = []
        for folder, manifest in (('long', whole), ('short', short)):
            pieces = read_back.pieces(tmp_path / folder, split)
            counted.append(np.bincount(np.concatenate(pieces), minlength=2048))
            counts = manifest['splits'][split]
            places = counts['rows'] * manifest['row_length']
            assert counts['efficiency'] == counts['tokens'] / places
            assert counts['rows'] == sum(entry['rows'] for entry in counts['files'])
            # Exactly the maximum over the rows.
            data = pipeline.Rows(tmp_path / folder, split)
            largest = max(int(data[i]['segment_ids'].max()) for i in range(len(data)))
            assert data.max_documents == counts['max_documents'] == largest
        np.testing.assert_array_equal(*counted)


def test_bos_and_eos_are_options(make, tmp_path, ours):
    make(row_length=4096, add_bos=False, add_eos=False)
    pieces = read_back.pieces(tmp_path / 'rows', 'train')
    assert not np.isin(np.concatenate(pieces), ours.special_ids).any()


def test_documents_without_tokens_are_dropped(make, corpus, tmp_path):
    words = foreign_tokenizers.trained_wordpiece(['the whale'] * 9)
    with corpus['path'].open('a') as file:
        file.write('\n{"text": "\\u200b"}')
    bare = dict(tokenizer=words, add_bos=False, add_eos=False)
    assert make(**bare)['left_out'] == {'blank': 2, 'no tokens': 1}
    assert 'no tokens' not in make('other', tokenizer=words)['left_out']
    corpus['path'].write_text('{"text": "\\u200b"}')
    with pytest.raises(ValueError, match='left out: 1 no tokens'):
        make('none', splits=('train',), **bare)


def test_pieces_after_the_first_have_no_bos(make, tmp_path, ours):
    manifest = make(row_length=8)
    pieces = read_back.pieces(tmp_path / 'rows', 'train')
    begins = sum(piece[0] == ours.bos_id for piece in pieces)
    assert begins == manifest['splits']['train']['documents'] < len(pieces)
    assert not any((piece[1:] == ours.bos_id).any() for piece in pieces)


def test_output_is_deterministic_given_the_seed(make):
    one, two, other = make('one'), make('two'), make('other', seed=1)
    assert one == two
    first, second = (m['splits']['train']['files'][0] for m in (one, other))
    assert first['sha256'] != second['sha256']
    assert one['splits']['train']['tokens'] == other['splits']['train']['tokens']


def test_large_vocabularies_and_rows_use_four_bytes(make, tmp_path, ours):
    assert row_folder.dtype_for(2048, 512) == '<u2'
    assert row_folder.dtype_for(65536, 512) == '<u4'
    manifest = make('wide', row_length=70_000)
    assert manifest['dtype'] == '<u4'
    data = pipeline.Rows(tmp_path / 'wide', 'heldout')
    assert len(data) == 1 and data[0]['tokens'].shape == (70_000,)


def test_fewer_rows_than_shards(make, tmp_path):
    manifest = make(row_length=4096, shards=9)
    names = [entry['name'] for entry in manifest['splits']['heldout']['files']]
    assert names == ['heldout-00000-of-00001.array_record']


def test_a_finished_folder_is_unchanged(make, tmp_path):
    one = make()
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / 'rows').iterdir()}
    assert make() == one
    assert before == {p.name: p.stat().st_mtime_ns for p in (tmp_path / 'rows').iterdir()}


def test_other_settings_raise_and_are_named(make, tmp_path, ours):
    make()
    with pytest.raises(FileExistsError, match=r'row_length was 32 and is now 64; seed'):
        make(row_length=64, seed=1)
    other = training.train(['a b a b'], 300)
    with pytest.raises(FileExistsError, match=f"tokenizer was '{ours.fingerprint}'"):
        make(tokenizer=other)
    assert pipeline.verify(tmp_path / 'rows')['row_length'] == 32


def test_changed_settings_are_reported(make, corpus, tmp_path):
    about = {'name': 'bundled'}
    make(tokenizer_about=about)
    asked = {'source': corpus | {'path': str(corpus['path'])}, 'tokenizer': 'bundled'}
    asked['row_length'] = 32
    words = tmp_path / 'tokenizer.json'
    training.train(['a b a b'], 300).save(words)

    def changed(**changes):
        return pipeline.changed_settings(asked | changes, tmp_path / 'rows')

    assert changed() == []
    source = {key: asked['source'][key] for key in ('name', 'path')}
    assert changed(source=source) == []
    assert changed(tokenizer='init_from') == []
    assert changed(row_length=64) == ['row_length was 32 and is now 64']
    assert changed(clean={'min_chars': 0}) == []
    assert changed(clean={'min_chars': 5, 'normalize': 'NFC'}) == [
        "clean.normalize was '' and is now 'NFC'",
        'clean.min_chars was 0 and is now 5',
    ]
    own = tmp_path / 'own.jsonl'
    own.write_text('{"text": "a sentence that is nowhere in the corpus of this test"}\n')
    clean = {'decontaminate': [{'path': str(own)}]}
    make('clean', clean=clean | {'normalize': 'NFC'}, packing='concat', seed=3)
    words = {**asked, 'clean': clean | {'normalize': ''}}
    notes = pipeline.changed_settings(
        words | {'tokenizer': 'init_from'}, tmp_path / 'clean'
    )
    assert notes == [
        "packing was 'concat' and is now 'best_fit'",
        'seed was 3 and is now 0',
        "clean.normalize was 'NFC' and is now ''",
    ]
    (path,) = changed(source=asked['source'] | {'path': 'mine'})
    assert path.startswith('source.path was') and path.endswith("is now 'mine'")
    (other,) = changed(tokenizer=str(words))
    assert other.startswith('tokenizer was')


def test_a_folder_with_other_content_raises(make, tmp_path):
    (tmp_path / 'rows').mkdir()
    make()  # An empty one is fine.
    (tmp_path / 'mine').mkdir()
    (tmp_path / 'mine' / 'thesis.tex').write_text('x')
    with pytest.raises(FileExistsError, match='does not contain prepared rows'):
        make('mine')
    assert (tmp_path / 'mine' / 'thesis.tex').exists()


def test_a_damaged_finished_folder_raises(make, tmp_path):
    make()
    shard = next((tmp_path / 'rows').glob('train-*'))
    os.truncate(shard, 100)
    with pytest.raises(ValueError, match='it was truncated or replaced'):
        make()


@pytest.mark.parametrize(
    'changed, message',
    [
        ({'row_length': 4}, 'prepare.row_length=4 must be an integer at least 8'),
        ({'row_length': 2**24 + 1}, 'row_length=16777217 must be .* at most 16777216'),
        ({'row_length': 20, 'packing': 'paper'}, 'row_length=20 must be at least 24'),
        ({'packing': 'bestfit'}, "packing='bestfit'.*'best_fit'"),
        ({'shards': 0}, 'shards=0 must be'),
        ({'seed': -1}, 'seed=-1 must be'),
        ({'splits': 'train'}, "splits='train' must be a list"),
        ({'splits': ()}, 'prepare.splits is empty'),
        ({'source': {'name': 'bundle'}}, "Did you mean 'bundled'"),
        ({'source': {'name': 'text', 'path': 'nowhere'}}, 'no file or folder at nowhere'),
        ({'engine': {'name': 'beam'}}, "engine.name='beam'.*ray"),
        ({'clean': {'min_char': 3}}, "prepare.clean has no key 'min_char'"),
        ({'clean': {'decontaminate': [{'path': 'no/quiz'}]}}, 'no file or folder.*quiz'),
    ],
)
def test_invalid_settings_raise(make, tmp_path, changed, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        make(**changed)
    assert not [path for path in tmp_path.iterdir() if 'rows' in path.name]


@pytest.mark.parametrize('content', ['', '\n\n', '{"text": "  "}\n'])
def test_an_empty_corpus(make, corpus, tmp_path, content):
    corpus['path'].write_text(content)
    with pytest.raises(ValueError, match="no text in the split 'train'.*not blank"):
        make()
    assert not (tmp_path / 'rows').exists()
    assert not list(tmp_path.glob('.rows.partial/part-*'))  # it starts over


def test_a_corpus_of_one_document_makes_one_split(make, corpus, tmp_path):
    """The other split has no text, and the error says what to do."""
    corpus['path'].write_text('{"text": "the whale"}\n')
    with pytest.raises(ValueError, match=r"'heldout'.*as splits=\('train',\)"):
        make()
    assert make(splits=('train',))['splits']['train']['documents'] == 1
    with pytest.raises(ValueError, match="no split 'heldout'.*evaluate.every_steps=0"):
        pipeline.Rows(tmp_path / 'rows', 'heldout')


@pytest.mark.parametrize('left', [20, 10**9])
def test_a_full_disk_leaves_no_folder(make, tmp_path, monkeypatch, left):
    """Reported by a record, or when the file is closed."""

    class Writer:
        def __init__(self, path, options):
            pathlib.Path(path).write_bytes(b'half')
            self.left = left

        def write(self, record):
            self.left -= 1
            if not self.left:
                raise RuntimeError('write() failed: No space left on device; at byte 0')

        def close(self):
            raise RuntimeError('close() failed: No space left on device')

    monkeypatch.setattr(writing.array_record_module, 'ArrayRecordWriter', Writer)
    with pytest.raises(RuntimeError, match='No space left'):
        make()
    assert not (tmp_path / 'rows').exists()
    monkeypatch.undo()
    assert make() == make('straight')
    pipeline.verify(tmp_path / 'rows')


@pytest.mark.skipif(not os.path.exists('/dev/full'), reason='no /dev/full here')
def test_array_record_reports_a_full_disk(tmp_path):
    (tmp_path / '.x').symlink_to('/dev/full')
    shard = writing._Shard(tmp_path / 'x')
    with pytest.raises(RuntimeError, match='No space left'):
        shard.extend([b'record'])
        shard.close('x.array_record')


def test_rows_are_made_window_by_window(make, monkeypatch):
    """However long a unit is, its tokens are not all in memory."""
    write, pending = writing.Writer._write, []

    def record(self):
        pending.append(self._pending)
        write(self)

    monkeypatch.setattr(writing.Writer, '_write', record)
    monkeypatch.setattr(writing, 'WINDOW', 500)
    make(row_length=24)
    assert len(pending) > 9 and max(pending) < 650


def test_the_report_describes_the_rows(corpus, tmp_path, ours, capsys):
    config = ConfigDict({'prepare': {'row_length': 32, 'tokenizer': 'bundled'}})
    config.prepare.source = corpus | {'path': str(corpus['path'])}
    config.prepare.clean = {'min_chars': 12, 'exact_duplicates': True}
    config.update({'steps': 100, 'data': {'batch_size': 4}})
    manifest = preparing.run(config, tmp_path / 'rows')
    output = capsys.readouterr().out
    counts = manifest['splits']['train']
    assert f'{tmp_path / "rows"}: prepared\n' in output
    assert '1 file read' in output
    assert f'{counts["tokens"]:,} tokens' in output
    assert f'{400 / counts["rows"]:.2f} epochs in the steps' in output
    turned = {split: manifest['splits'][split] for split in ('heldout', 'train')}
    turned = rows_page.lines({**manifest, 'splits': turned}, budget=400)
    assert turned[-1] == rows_page.lines(manifest, budget=400)[-1]
    assert f'2 blank, {manifest["left_out"]["too short"]} too short' in output
    texts = read_back.texts(tmp_path / 'rows', 'train', ours)
    words = sum(len(text.split()) for text in texts)
    tokens = counts['tokens'] - 2 * counts['documents']
    reported = float(re.search(r'([\d.]+) tokens per word', output)[1])
    assert reported == pytest.approx(tokens / words, rel=0.1)
    page = (tmp_path / 'rows' / 'report.html').read_text()
    assert 'too short' in page and 'Sample rows' in page
    assert 'Document lengths' in page
    long = [text for text in texts if len(text) > 100]
    assert any(html.escape(text[2:60]) in page for text in long)
    preparing.run(config, tmp_path / 'rows', verify=True)
    assert 'all checksums match' in capsys.readouterr().out
    (tmp_path / 'rows' / 'report.html').unlink()  # as if killed before it
    assert preparing.run(config, tmp_path / 'rows') == manifest
    output = capsys.readouterr().out
    assert 'already prepared' in output and '1 file read' in output
    assert (tmp_path / 'rows' / 'report.html').is_file()
    rows = counts['rows']
    config.data = {'row_length': 32, 'batch_size': 4}
    for budget in ({'steps': rows}, {'tokens': 4 * 32 * rows}):
        preparing.run({**config, **budget}, tmp_path / 'rows')
        assert '4.00 epochs in the steps' in capsys.readouterr().out
    del config.prepare.tokenizer
    with pytest.raises(ValueError, match='The config has no prepare.tokenizer'):
        preparing.run(config, tmp_path / 'rows')
