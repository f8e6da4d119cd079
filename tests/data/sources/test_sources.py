import errno
import gzip
import json
import pathlib
import shutil
import sys

import pyarrow
import pytest

from jepa_text.data.corpora import reading, row_groups
from jepa_text.data.sets import tables
from jepa_text.data.sources import bundled, jsonl, parquet, text, tfds


def texts(documents):
    return [document['text'] for document in documents]


def both(make, **section):
    """Returns the documents of both splits."""
    return texts(make('train', **section)) + texts(make('heldout', **section))


# The bundled corpus.


def test_bundled_documents_have_metadata():
    train, heldout = bundled.make('train'), bundled.make('heldout')
    assert (len(train), len(heldout)) == (291, 27)
    for document in train + heldout:
        assert set(document) == {'author', 'title', 'year', 'text'}
        assert 1790 <= document['year'] <= 2021
        assert document['text'] == document['text'].strip() != ''
    assert not set(texts(train)) & set(texts(heldout))
    assert 4e6 < sum(len(t.encode()) for t in texts(train + heldout)) < 5e6


@pytest.mark.parametrize(
    'author, year, words',
    [
        ('Abraham Lincoln', 1862, 'The dogmas of the quiet past are inadequate'),
        ('George W Bush', 2002, 'axis of evil'),
        ('Herman Melville', 1851, 'Call me Ishmael.'),
        ('Jane Austen', 1818, 'Sir Walter Elliot, of Kellynch Hall, in Somersetshire'),
    ],
)
def test_bundled_metadata_is_right(author, year, words):
    found = [d for d in bundled.make('train') if words in d['text']]
    assert [(d['author'], d['year']) for d in found] == [(author, year)]


def test_bundled_holds_out_the_last_documents_of_each_kind():
    train, heldout = bundled.make('train'), bundled.make('heldout')
    spoken = [d['year'] for d in train if d['title'].startswith('State')]
    assert max(spoken) < min(d['year'] for d in heldout if d['title'].startswith('State'))
    assert heldout[-1]['text'].endswith('rolled on as it rolled five thousand years ago.')
    assert {d['author'] for d in heldout} >= {'Herman Melville', 'Jane Austen'}
    # Chapters continue from one split to the other.
    moby = [d['title'] for d in train + heldout if d['title'].startswith('Moby Dick')]
    numbers = [int(title.split('chapter ')[1].split(':')[0]) for title in moby]
    assert numbers == list(range(1, 136))


def test_bundled_errors(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="no split 'test'"):
        bundled.make('test')
    monkeypatch.setattr(bundled, 'FOLDER', tmp_path)
    with pytest.raises(FileNotFoundError, match='without its package data'):
        bundled.make('train')


# Text.


def test_text_between_blank_lines(tmp_path):
    path = tmp_path / 'a.txt'
    path.write_bytes('\ufeffone\r\nline\r\n \r\n\r\ntwo é\n\n\nthree'.encode())
    assert set(both(text.make, path=path)) == {'one\nline', 'two é', 'three'}


def test_text_of_a_folder_with_one_document_per_file(tmp_path):
    (tmp_path / 'b').mkdir()
    (tmp_path / 'a.txt').write_text('one\n\ntwo\n')
    (tmp_path / 'b' / 'c.txt.gz').write_bytes(gzip.compress(b'three'))
    (tmp_path / 'ignored.md').write_text('four')
    found = both(text.make, path=tmp_path, documents='file')
    assert set(found) == {'one\n\ntwo', 'three'}


@pytest.mark.parametrize('name', ['a.txt', 'a.txt.gz'])
@pytest.mark.parametrize(
    'data, message',
    [
        (
            'fine é\nsécond'.encode() + b' caf\xe9 !',
            r'0xe9 at byte offset 19\b.*line 2.*iconv',
        ),
        ('one'.encode('utf-16'), '0xff at byte offset 0.*iconv -f UTF-16 -t'),
        # A byte order mark counts in the offset.
        (b'\xef\xbb\xbfab\xff', r'0xff at byte offset 5\b.*line 1'),
    ],
)
def test_invalid_utf8_is_located(tmp_path, name, data, message):
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith('.gz') else data)
    with pytest.raises(ValueError, match=message):
        both(text.make, path=path)


def test_text_errors(tmp_path):
    with pytest.raises(
        FileNotFoundError, match='no file or folder at .*none, relative to'
    ):
        text.make('train', path=tmp_path / 'none')
    with pytest.raises(FileNotFoundError, match='has no file that ends in .txt'):
        text.make('train', path=tmp_path)
    (tmp_path / 'a.txt').write_text('a')
    with pytest.raises(ValueError, match="documents='page'"):
        text.make('train', path=tmp_path, documents='page')
    with pytest.raises(ValueError, match="no split 'valid'"):
        text.make('valid', path=tmp_path)
    for every in (1, 0, 2.5, True):
        with pytest.raises(ValueError, match='heldout_every='):
            text.make('train', path=tmp_path, heldout_every=every)


@pytest.mark.parametrize('end', ['\n', '\r\n', '\r'])
def test_all_ends_of_lines_are_read(tmp_path, end):
    lines = ['', '', 'one é', 'two', '', '', 'three']
    path = tmp_path / 'a.txt'
    path.write_bytes(end.join(lines).encode())
    assert list(reading.lines(path)) == list(enumerate(lines, 1))
    assert texts(text.make('train', path, heldout_every=10**9)) == ['one é\ntwo', 'three']
    path.write_bytes(end.join(['a', '\xff']).encode('latin-1'))
    with pytest.raises(ValueError, match=f'byte offset {1 + len(end)}, line 2'):
        list(reading.lines(path))


ROWS = [{'text': f'number {n}', 'n': n} for n in range(3)]


@pytest.mark.parametrize('name', ['a.json', 'a.json.gz'])
def test_json_lists_are_read(tmp_path, units_of, name):
    units_of(10)
    data = json.dumps(ROWS, indent=1)
    pack = gzip.compress if name.endswith('.gz') else bytes
    (tmp_path / name).write_bytes(pack(f'\ufeff\n {data}'.encode()))
    (tmp_path / 'b.json').write_text('\n'.join(map(json.dumps, ROWS)))
    one = jsonl.make('train', tmp_path, heldout_every=10**9)
    assert list(one) == ROWS * 2
    read = [d for unit in one.units() for piece in unit for d in one.documents(piece)]
    assert read == ROWS * 2 and len(one.units()) > 2
    (tmp_path / name).write_bytes(pack(b'[{"text": "a"}, 7]'))
    with pytest.raises(ValueError, match='element 2 is a JSON int'):
        list(one)
    # Beside .jsonl files, .json files are of something else.
    (tmp_path / 'c.jsonl').write_text('{"text": "c"}')
    assert texts(jsonl.make('train', tmp_path, heldout_every=10**9)) == ['c']


@pytest.mark.parametrize('form', ['new_file', 'new_stream'])
def test_arrow_files_are_read(tmp_path, units_of, form):
    units_of(10)
    table = pyarrow.Table.from_pylist(ROWS * 700)
    with getattr(pyarrow.ipc, form)(str(tmp_path / 'a.arrow'), table.schema) as writer:
        writer.write_table(table)
    one = parquet.make('train', tmp_path, heldout_every=10**9)
    assert texts(one) == [row['text'] for row in ROWS] * 700
    assert len(one.units()) == 1
    with pytest.raises(ValueError, match="a.arrow has no column 'body'; it has: text, n"):
        list(parquet.make('train', tmp_path, field='body'))
    (tmp_path / 'a.arrow').write_bytes((tmp_path / 'a.arrow').read_bytes()[:999])
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
    assert [t for t in documents if reading.split_of(t, 10) == 'heldout'] == one


# JSON lines.


def test_jsonl_keeps_other_fields(tmp_path):
    path = pathlib.Path(tmp_path, 'a.jsonl.gz')
    rows = [{'body': 'one é', 'year': 1}, {'body': 'a \U0001f433', 'text': 'x'}]
    path.write_bytes(gzip.compress('\n\n'.join(map(json.dumps, rows)).encode()))
    found = [
        document
        for split in reading.SPLITS
        for document in jsonl.make(split, path=path, field='body', heldout_every=2)
    ]
    found.sort(key=lambda document: document['text'], reverse=True)
    assert found[0] == {'body': 'one é', 'year': 1, 'text': 'one é'}
    # Written as two halves, as in JSON.
    assert found[1] == {'body': 'a \U0001f433', 'text': 'a \U0001f433'}


@pytest.mark.parametrize(
    'line, message',
    [
        ('{"text": ', 'line 2 is not valid JSON: .* column'),
        ('{"n": ' + '1' * 5000 + '}', 'line 2 is not valid JSON: Exceeds the limit'),
        ('["text"]', 'line 2 is a JSON list, not an object'),
        ('{"body": "a", "year": 1}', "line 2 has no field 'text'; it has: body, year"),
        ('{"text": 7}', "line 2: the field 'text' is int, not a string"),
    ],
)
def test_jsonl_names_the_line(tmp_path, line, message):
    path = tmp_path / 'a.jsonl'
    path.write_text('{"text": "fine"}\n' + line + '\n')
    with pytest.raises(ValueError, match=message):
        both(jsonl.make, path=path)


# Parquet.


def write_parquet(folder, **columns):
    pyarrow = pytest.importorskip('pyarrow')
    from pyarrow import parquet as writer

    folder.mkdir(exist_ok=True)
    path = folder / f'part-{len(list(folder.iterdir()))}.parquet'
    writer.write_table(pyarrow.table(columns), path, row_group_size=7)
    return path


def test_parquet_yields_every_row_once(tmp_path):
    first = [f'first {n}' for n in range(30)]
    second = [f'second {n}' for n in range(20)]
    write_parquet(tmp_path / 'set', body=first, label=list(range(30)))
    write_parquet(tmp_path / 'set', body=second, label=list(range(20)))
    section = dict(path=tmp_path / 'set', field='body', heldout_every=5)
    assert sorted(both(parquet.make, **section)) == sorted(first + second)
    assert 2 < len(list(parquet.make('heldout', **section))) < 20
    (with_label, *_) = parquet.make('train', columns=['label'], **section)
    assert with_label['body'] == with_label['text'] and 'label' in with_label


def test_parquet_errors_are_named(tmp_path):
    path = write_parquet(tmp_path / 'set', text=['one', None, 'three'])
    with pytest.raises(ValueError, match="no column 'body'; it has: text"):
        list(parquet.make('train', path, field='body'))
    with pytest.raises(ValueError, match="row 2: the field 'text' is NoneType"):
        both(parquet.make, path=path)
    broken = tmp_path / 'broken.parquet'
    broken.write_bytes(b'no parquet at all')
    with pytest.raises(ValueError, match=r'broken\.parquet is not a Parquet file'):
        list(parquet.make('train', broken))


def test_parquet_on_a_disk_that_fails(tmp_path, monkeypatch):
    path = write_parquet(tmp_path / 'set', text=['one', 'two'])

    def fail(*_):
        raise OSError(errno.EIO, 'Input/output error')

    monkeypatch.setattr(row_groups, '_decoded', fail)
    with pytest.raises(OSError, match=f'error: cannot read {path} after row 0') as caught:
        list(parquet.make('train', path))
    assert caught.value.errno == errno.EIO


# TensorFlow Datasets.


@pytest.fixture(scope='module')
def words(tmp_path_factory):
    from words_set.builder import WordsSet

    folder = tmp_path_factory.mktemp('tfds')
    builder = WordsSet(data_dir=folder, file_format='array_record')
    builder.download_and_prepare()
    return builder.data_path


def test_tfds_reads_array_record_without_tensorflow(words):
    section = dict(path=str(words), splits=('train', 'test'), heldout_every=5)
    wanted = [f'Sentence number {n}, é.' for n in range(50)]
    assert sorted(both(tfds.make, **section)) == sorted(wanted)
    assert len(both(tfds.make, path=str(words), heldout_every=5)) == 40
    assert 'tensorflow' not in sys.modules


def test_tfds_errors_are_named(words, tmp_path):
    with pytest.raises(FileNotFoundError, match=r'no dataset_info\.json'):
        tfds.make('train', tmp_path)
    with pytest.raises(ValueError, match="no split 'dev'; it has: test, train"):
        tfds.make('train', words, splits=('dev',))
    with pytest.raises(ValueError, match="no feature 'body'; it has: n, text"):
        tfds.make('train', words, field='body')
    with pytest.raises(ValueError, match='not UTF-8 text'):
        list(tfds.make('train', words, field='n'))


@pytest.mark.parametrize('harm', ['half', 'tail', 'flip', 'empty', 'gone'])
def test_a_damaged_array_record_is_named(words, tmp_path, harm):
    folder = shutil.copytree(words, tmp_path / 'set')
    (path,) = folder.glob('*-train.*')
    data = path.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    path.unlink()
    cut = {'half': data[:middle], 'tail': data[:-10], 'flip': flipped, 'empty': b''}
    if harm in cut:
        path.write_bytes(cut[harm])
    with pytest.raises(ValueError, match=rf'{path.name} is damaged, truncated or mi'):
        list(tfds.make('train', folder))


def test_damaged_parquet_files_raise(tmp_path):
    import pyarrow
    from pyarrow import parquet as library

    table = pyarrow.table({'text': [f'document {n} of the sea' for n in range(400)]})
    path = tmp_path / 'a.parquet'
    library.write_table(table, path, compression='none', write_page_checksum=True)
    good = path.read_bytes()
    expected = texts(parquet.make('train', path))
    refused = 0
    for at in range(0, len(good), len(good) // 97):
        bad = bytearray(good)
        bad[at] ^= 16
        path.write_bytes(bad)
        for read in (lambda: texts(parquet.make('train', path)), lambda: both_of(path)):
            try:
                found = read()
            except ValueError as error:
                assert str(path) in str(error)
                refused += 1
            else:
                assert set(found) >= set(expected)
    assert refused > 100


def both_of(path):
    return tables.columns(tables.read(path), ['text'], str(path))[0]


def test_too_deep_json_raises(tmp_path):
    depth = 100_000
    path = tmp_path / 'a.jsonl'
    path.write_text('{"text": "a"}\n{"text": ' + '[' * depth + ']' * depth + '}\n')
    for read in (lambda: texts(jsonl.make('train', path)), lambda: tables.read(path)):
        with pytest.raises(ValueError, match='a.jsonl, line 2.*JSON'):
            read()
