"""Each source, local or remote, reads what was written, holds out by the text, and names
what is wrong."""

import csv as library
import gzip
import io
import json
import shutil
import sys
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet as arrow

from jepa_text.data import prepare, sources
from jepa_text.data.corpora import reading
from jepa_text.data.rows import row_folder
from jepa_text.data.sets import tables
from jepa_text.data.sources import bundled, csv, jsonl, parquet, text, tfds

ALL = 10**9  # heldout_every of which nothing is held out
ROWS = [{'text': f'number {n}', 'n': n} for n in range(3)]
CELLS = [
    {'id': '1', 'text': 'a plain one', 'more': ''},
    {'id': '2', 'text': 'with, a comma and "quotes"', 'more': 'x'},
    {'id': '3', 'text': 'over\ntwo lines, é', 'more': 'NA'},
    {'id': '4', 'text': '12.50', 'more': 'null'},
]


def texts(documents):
    return [document['text'] for document in documents]


def both(make, path, **section):
    """Returns the documents of both splits."""
    return [*make('train', path, **section), *make('heldout', path, **section)]


def packed(path, data):
    """Writes bytes, compressed if the name says so."""
    path.write_bytes(gzip.compress(data) if path.name.lower().endswith('.gz') else data)
    return path


def lines(rows):
    return '\n'.join(map(json.dumps, rows)).encode()


def cells(rows, **dialect):
    file = io.StringIO()
    writer = library.DictWriter(file, ['id', 'text', 'more'], **dialect)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


def test_bundled_documents_have_metadata():
    train, heldout = bundled.make('train'), bundled.make('heldout')
    assert (len(train), len(heldout)) == (291, 27)
    for document in train + heldout:
        assert set(document) == {'author', 'title', 'year', 'text'}
        assert 1790 <= document['year'] <= 2021
        assert document['text'] == document['text'].strip() != ''
    assert not set(texts(train)) & set(texts(heldout))
    years = [
        [d['year'] for d in split if d['title'].startswith('State')]
        for split in (train, heldout)
    ]
    assert max(years[0]) < 2014 <= min(years[1])
    (found,) = [d for d in train if 'Call me Ishmael.' in d['text']]
    assert (found['author'], found['year']) == ('Herman Melville', 1851)
    # Chapters continue from one split to the other.
    moby = [d['title'] for d in train + heldout if d['title'].startswith('Moby Dick')]
    numbers = [int(title.split('chapter ')[1].split(':')[0]) for title in moby]
    assert numbers == list(range(1, 136))
    with pytest.raises(ValueError, match="no split 'test'"):
        bundled.make('test')


def test_the_kind_of_a_file_is_told_by_its_own_name(tmp_path):
    (tmp_path / 'data.json.d').mkdir()
    for name in ('text.txt.gz', 'csv.csv', 'jsonl.ndjson', 'parquet.PARQUET'):
        path = tmp_path / 'data.json.d' / name
        path.touch()
        kind = name.partition('.')[0]
        assert sources.section_of(path) == {'name': kind, 'path': str(path)}
    path = 'https://host/a.TSV.gz?download=true'
    assert sources.section_of(path) == {'name': 'csv', 'path': path}


def test_the_kind_of_a_folder_is_that_of_its_visible_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ('.cache/a.txt', '.notes.txt', 'README.md', 'infos.json', 'sub/b.jsonl'):
        Path('d', name).parent.mkdir(parents=True, exist_ok=True)
        Path('d', name).touch()
    assert sources.section_of('d')['name'] == 'jsonl'
    assert sources.section_of(f'file://{tmp_path}/d')['name'] == 'jsonl'
    monkeypatch.setenv('HOME', str(tmp_path))
    for path in ('~/d', '~/d/'):
        assert sources.section_of(path) == {'name': 'jsonl', 'path': f'{tmp_path}/d'}
    Path('d', 'README.txt').touch()
    message = r"kinds: d/README.txt, d/sub/b.jsonl. .* pattern, such as 'd/\*\*/\*.txt'"
    with pytest.raises(ValueError, match=message):
        sources.section_of('d')
    assert sources.section_of('d/**/*.jsonl')['name'] == 'jsonl'
    assert sources.section_of('')['path'] == ''  # not '/'


def test_text_between_blank_lines_or_of_whole_files(tmp_path):
    packed(tmp_path / 'a.txt', '\ufeffone\r\nline\r\n \r\n\r\ntwo é\n\n\n3'.encode())
    (tmp_path / 'b').mkdir()
    packed(tmp_path / 'b' / 'C.TXT.GZ', b'four\n\nfive\n')
    (tmp_path / 'ignored.md').write_text('six')
    found = texts(both(text.make, tmp_path))
    assert sorted(found) == sorted(['one\nline', 'two é', '3', 'four', 'five'])
    packed(tmp_path / 'b' / 'd.txt', b' \n\n')  # counted as blank
    found = texts(both(text.make, tmp_path / 'b', documents='file'))
    assert sorted(found) == ['', 'four\n\nfive']


@pytest.mark.parametrize('end', ['\n', '\r\n', '\r'])
def test_all_ends_of_lines_are_read(tmp_path, end):
    wanted = ['', '', 'one é', 'two', '', '', 'three']
    path = packed(tmp_path / 'a.txt', end.join(wanted).encode())
    assert list(reading.lines(path)) == list(enumerate(wanted, 1))
    assert texts(text.make('train', path, heldout_every=ALL)) == ['one é\ntwo', 'three']
    path.write_bytes(end.join(['a', '\xff']).encode('latin-1'))
    with pytest.raises(ValueError, match=f'at byte {1 + len(end)}, line 2'):
        list(reading.lines(path))


def test_json_is_read_where_there_is_no_jsonl(tmp_path):
    packed(tmp_path / 'b.json', b'{"text": "b"}')
    assert texts(jsonl.make('train', tmp_path, heldout_every=ALL)) == ['b']
    packed(tmp_path / 'c.jsonl', b'{"text": "c"}')
    assert texts(jsonl.make('train', tmp_path, heldout_every=ALL)) == ['c']
    (tmp_path / 'd.jsonl').symlink_to('nothing')
    with pytest.raises(FileNotFoundError, match='d.jsonl'):
        jsonl.make('train', tmp_path)


def test_jsonl_keeps_other_fields(tmp_path):
    rows = [{'body': 'one é', 'year': 1}, {'body': 'a \U0001f433', 'text': 'x'}]
    path = packed(tmp_path / 'a.jsonl.gz', lines(rows).replace(b'\n', b'\n\n'))
    train = jsonl.make('train', path, field='body', heldout_every=ALL)
    # Written as two halves, as in JSON; and read again.
    for _ in range(2):
        assert list(train) == [
            {'body': 'one é', 'year': 1, 'text': 'one é'},
            {'body': 'a \U0001f433', 'text': 'a \U0001f433'},
        ]


@pytest.mark.parametrize('name', ['a.csv', 'a.csv.gz', 'a.CSV'])
@pytest.mark.parametrize('end', ['\n', '\r\n'])
def test_cells_are_read_as_written(tmp_path, name, end):
    data = b'\xef\xbb\xbf' + cells(CELLS, lineterminator=end)
    path = packed(tmp_path / name, data)
    assert texts(csv.make('train', path, heldout_every=ALL)) == texts(CELLS)
    if name != 'a.CSV':
        assert tables.read(path) == CELLS
    # Of another delimiter, and beside a file without lines.
    packed(path, cells(CELLS, delimiter=';'))
    packed(tmp_path / 'b.csv', b'')
    given = dict(delimiter=';', heldout_every=ALL)
    assert texts(csv.make('train', tmp_path, **given)) == texts(CELLS)


def test_tsv_cells_are_literal(tmp_path):
    data = b'id\ttext\n1\ta "quoted" one\n2\t"open\n3\tit\'s, here\n'
    path = packed(tmp_path / 'a.tsv', data)
    expected = ['a "quoted" one', '"open', "it's, here"]
    assert texts(csv.make('train', path, heldout_every=ALL)) == expected


def test_a_table_is_never_cut(tmp_path, units_of):
    wanted = [f'number {n},\nof "all"' for n in range(900)]
    rows = [{'id': '', 'text': text, 'more': ''} for text in wanted]
    path = packed(tmp_path / 'a.csv', cells(rows))
    units_of(400)
    one = csv.make('train', path, heldout_every=ALL)
    assert texts(one) == wanted and len(one.units()) == 1


@pytest.mark.parametrize('form', ['new_file', 'new_stream'])
def test_arrow_files_are_read(tmp_path, units_of, form):
    units_of(10)
    path, table = tmp_path / 'a.arrow', pyarrow.Table.from_pylist(ROWS * 700)
    with getattr(pyarrow.ipc, form)(str(path), table.schema) as writer:
        writer.write_table(table)
    one = parquet.make('train', tmp_path, heldout_every=ALL)
    assert texts(one) == texts(ROWS) * 700 and len(one.units()) == 1
    with pytest.raises(ValueError, match="a.arrow has no column 'body'; it has: text, n"):
        list(parquet.make('train', tmp_path, field='body'))
    path.write_bytes(path.read_bytes()[:999])
    with pytest.raises(ValueError, match='a.arrow is not an Arrow file, or is damaged'):
        list(one)


def test_the_heldout_rule_depends_only_on_the_text(tmp_path):
    documents = [f'document {n}' for n in range(2000)]
    (tmp_path / 'a.txt').write_text('\n\n'.join(documents))
    (tmp_path / 'b.txt').write_text('\n\n'.join(documents[::-1] * 2))
    section = dict(heldout_every=10)
    one = texts(text.make('heldout', path=tmp_path / 'a.txt', **section))
    rest = texts(text.make('train', path=tmp_path / 'a.txt', **section))
    two = texts(text.make('heldout', path=tmp_path / 'b.txt', **section))
    assert sorted(one + rest) == sorted(documents)
    assert set(one) == set(two) and len(two) == 2 * len(one)
    assert 140 < len(one) < 260
    assert [t for t in documents if reading.split_of(t, 10.0) == 'heldout'] == one


DEEP = b'{"text": ' + b'[' * 100_000 + b']' * 100_000 + b'}'
FAULTS = [
    (jsonl, 'a.jsonl', b'{"n": ' + b'1' * 5000 + b'}', 'not valid JSON: Exceeds the lim'),
    (jsonl, 'a.jsonl', b'{"text": "a"}\n' + DEEP, 'line 2.*JSON'),
    (jsonl, 'a.jsonl', b'["text"]', 'line 1 is a JSON list, not an object.*jq -c'),
    (jsonl, 'a.json', b'[\n{"text": "a"}\n]', 'line 1 is not valid JSON.*jq -c'),
    (jsonl, 'a.jsonl', b'{"body": "a", "n": 1}', "no field 'text'; it has: body, n"),
    (jsonl, 'a.jsonl', b'{"text": 7}', "line 1: the field 'text' is int, not a string"),
    (csv, 'a.csv', b'id;text\n1;a\n', "0 columns 'text'; it has: id;text.*delimiter"),
    (csv, 'a.csv', b'id,body\n1,a\n', "0 columns 'text'; it has: id, body"),
    (csv, 'a.csv', b'id,text\n1,a\n2,b,c\n', 'line 3: the row has 3 cells.* 2 columns'),
    (csv, 'a.csv', b'id,text\n1,a\n2\n', 'line 3: the row has 1 cells.*must be quoted'),
    # A quote that is not doubled, and one that is not closed.
    (csv, 'a.csv', b'text,id\n"foo" bar,1\n', "line 2 is not CSV: ',' expected"),
    (csv, 'a.csv', b'text\na\n"b\nc\n', 'line 4 is not CSV: unexpected end of data'),
    (csv, 'a.csv', b'text,text\na,b\n', "has 2 columns 'text'; it has: text, text"),
    (csv, 'a.csv', b'text\n"' + b'x' * 2000 + b'"\n', 'line 2 is not CSV: field larger'),
    (parquet, 'a.parquet', b'no parquet at all', 'is not a Parquet file'),
]


@pytest.mark.parametrize('source, name, data, message', FAULTS)
def test_faults_are_named_with_file_and_place(
    tmp_path, monkeypatch, source, name, data, message
):
    monkeypatch.setattr(reading, 'CELL', 300)
    usual = library.field_size_limit(300)
    path = packed(tmp_path / name, data)
    with pytest.raises(ValueError, match=message) as caught:
        both(source.make, path)
    library.field_size_limit(usual)
    assert str(path) in str(caught.value)


def test_invalid_settings_are_refused_before_reading(tmp_path):
    with pytest.raises(FileNotFoundError, match='no file or folder at .*none, relative'):
        text.make('train', tmp_path / 'none')
    for number in range(9):
        (tmp_path / f'{number}.md').write_text('a')
    with pytest.raises(FileNotFoundError, match='ends in .txt.* but 9 others'):
        text.make('train', tmp_path)
    (tmp_path / 'a.txt').write_text('a')
    for given, message in (
        (dict(documents='page'), "documents='page'"),
        *((dict(heldout_every=every), 'heldout_every=') for every in (1, 0, 2.5, True)),
    ):
        with pytest.raises(ValueError, match=message):
            text.make('train', tmp_path, **given)
    with pytest.raises(ValueError, match="split='valid'.*Available: heldout, train"):
        text.make('valid', tmp_path)
    with pytest.raises(ValueError, match="delimiter=';;' must be one character"):
        csv.make('train', tmp_path, delimiter=';;')


def test_damaged_parquet_files_raise(tmp_path):
    table = pyarrow.table({'text': [f'document {n} of the sea' for n in range(400)]})
    path = tmp_path / 'a.parquet'
    arrow.write_table(table, path, compression='none', write_page_checksum=True)
    good, refused = path.read_bytes(), 0
    expected = texts(parquet.make('train', path))
    for at in range(0, len(good), len(good) // 97):
        bad = bytearray(good)
        bad[at] ^= 16
        path.write_bytes(bad)
        try:
            found = texts(parquet.make('train', path))
        except ValueError as error:
            assert str(path) in str(error)
            refused += 1
        else:
            assert found == expected
    assert refused > 50


SHARDS = 2


@pytest.fixture(scope='module')
def words(tmp_path_factory):
    import tensorflow_datasets
    from words_set.builder import WordsSet

    folder = tmp_path_factory.mktemp('tfds')
    builder = WordsSet(data_dir=folder, file_format='array_record')
    config = tensorflow_datasets.download.DownloadConfig(num_shards=SHARDS)
    builder.download_and_prepare(download_config=config)
    return builder.data_path


def test_tfds_reads_array_record_without_tensorflow(words):
    section = dict(splits=('train', 'test'), heldout_every=5)
    wanted = [f'Sentence number {n}, é.' for n in range(50)]
    assert sorted(texts(both(tfds.make, str(words), **section))) == sorted(wanted)
    assert len(both(tfds.make, str(words), heldout_every=5)) == 40
    # Processes share the shards.
    assert len(tfds.make('train', words, **section).units()) == 2 * SHARDS
    assert 'tensorflow' not in sys.modules


def test_tfds_errors_are_named(words, tmp_path):
    with pytest.raises(FileNotFoundError, match='is not a prepared dataset'):
        tfds.make('train', tmp_path)
    for given, message in (
        (dict(splits=('dev',)), "split='dev'.*Available: test, train"),
        (dict(field='body'), "feature='body'.*Available: n, text"),
        (dict(field='n'), "the field 'n' is .*, not a string"),
    ):
        with pytest.raises(ValueError, match=message):
            list(tfds.make('train', words, **given))


@pytest.mark.parametrize('harm', ['half', 'tail', 'flip', 'empty', 'gone'])
def test_a_damaged_array_record_is_named(words, tmp_path, harm):
    folder = shutil.copytree(words, tmp_path / 'set')
    path, _ = sorted(folder.glob('*-train.*'))
    data = path.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    path.unlink()
    cut = {'half': data[:middle], 'tail': data[:-10], 'flip': flipped, 'empty': b''}
    if harm in cut:
        path.write_bytes(cut[harm])
    with pytest.raises(ValueError, match='set is damaged, truncated or incomplete'):
        list(tfds.make('train', folder))


def blocks(texts):
    return '\n\n'.join(texts).encode()


def row_groups(texts):
    sink = pyarrow.BufferOutputStream()
    arrow.write_table(pyarrow.table({'text': texts}), sink, row_group_size=20)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    'name, module, pack', [('text', text, blocks), ('parquet', parquet, row_groups)]
)
def test_remote_documents_units_and_rows_match_local_ones(
    name, module, pack, tmp_path, ours, units_of, memory, rng
):
    units_of(1500)
    folder, address = tmp_path / 'texts', 'memory://corpus'
    folder.mkdir()
    for number in range(4):
        words = ['the', 'whale', 'sea', 'é']
        texts = [' '.join(rng.choice(words, rng.integers(3, 30))) for _ in range(70)]
        file = f'{number}.{"txt" if name == "text" else name}'
        (folder / file).write_bytes(pack(texts))
        memory.pipe_file(f'{address}/{file}', pack(texts))
    here, there = (module.make('train', str(top)) for top in (folder, address))
    assert list(here) == list(there) and len(list(here)) > 250
    sizes = [[piece[1:4] for piece in pieces] for pieces in here.units()]
    assert sizes == [[piece[1:4] for piece in pieces] for pieces in there.units()]
    assert len(sizes) > 3
    sums = []
    for rows, top in (('here', folder), ('there', address)):
        source = {'name': name, 'path': str(top), 'heldout_every': 5}
        manifest = prepare.prepare(source, ours, tmp_path / rows, row_length=32)
        assert manifest['read'].startswith('4 files read')
        sums.append([entry['sha256'] for _, entry in row_folder.files(manifest)])
    assert sums[0] == sums[1] and len(sums[0]) > 8
