"""Tests for tables in all file formats, and for errors with the line."""

import functools
import gzip
import json
import lzma

import pytest

from jepa_text.data.sets import tables

ROWS = [{'text': f'He said "{n}",\nand left.', 'label': str(n)} for n in range(3)]


def quoted(cell):
    return '"' + cell.replace('"', '""') + '"'


def write(path, text):
    openers = {'.gz': gzip.open, '.xz': lzma.open}
    with openers.get(path.suffix, open)(path, 'wt', encoding='utf-8') as file:
        file.write(text)
    return path


CSV = 'text,label\n' + ''.join(f'{quoted(r["text"])},{r["label"]}\n' for r in ROWS)
KINDS = {
    'set.csv.xz': CSV,
    'Set.CSV': CSV,
    'set.json': json.dumps(ROWS),
    'set.json.gz': json.dumps({'version': 1, 'data': ROWS}),
    'set.jsonl': ''.join(json.dumps(row) + '\n' for row in ROWS),
    'set.ndjson.gz': ''.join(json.dumps(row) + '\n' for row in ROWS),
}


@pytest.mark.parametrize('name', KINDS)
def test_all_file_formats_give_the_same_rows(name, tmp_path):
    assert tables.read(write(tmp_path / name, KINDS[name])) == ROWS


def test_suffixes_of_a_folder_may_be_in_upper_case(tmp_path):
    for number in '12':
        write(tmp_path / f'train-{number}.CSV', CSV)
    assert tables.splits(tmp_path).train == 2 * ROWS


def test_columns_without_a_name_are_allowed(tmp_path):
    path = write(tmp_path / 'set.csv', 'text,label,,\nhello,1,,\n')
    assert tables.read(path)[0] | {'': ''} == {'text': 'hello', 'label': '1', '': ''}


def test_cells_may_be_long(tmp_path):
    text = 'a long text, ' * 20_000
    path = write(tmp_path / 'set.csv', f'text,label\n{quoted(text)},1\n')
    assert tables.read(path) == [{'text': text, 'label': '1'}]


QUOTED = [
    ('"open\t1\n', [('"open', '1')], 0),
    ('"a" b\t1\n', [('"a" b', '1')], 0),
    ('"a"\t1\nb\t"1"\n', [('"a"', '1'), ('b', '"1"')], 2),
    ('"a ""b"""\t1\n', [('"a ""b"""', '1')], 1),
]


@pytest.mark.parametrize('text, rows, count', QUOTED)
def test_quotes_in_a_tsv_are_text_which_is_said(text, rows, count, tmp_path, recwarn):
    path = write(tmp_path / 'set.tsv.gz', 'text\tlabel\n' + text)
    assert next(tables.rows(path))['text'] == rows[0][0]  # reads, and says, no more
    assert [(row['text'], row['label']) for row in tables.read(path)] == rows
    said = [str(one.message) for one in recwarn]
    assert len(said) == bool(count)
    assert not count or f'{count} cells in quotes are kept' in said[0]


def parquet(path, columns, names):
    pyarrow = pytest.importorskip('pyarrow')
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns, names=names), path)
    return path


def test_binary_columns_of_parquet_are_text(tmp_path):
    columns = [[b'caf\xc3\xa9', None], [b'\xff', b'a']]
    path = parquet(tmp_path / 'set.parquet', columns, ['text', 'data'])
    rows = [{'text': 'caf\xe9', 'data': b'\xff'}, {'text': None, 'data': b'a'}]
    assert tables.read(path) == rows


def test_repeated_and_nested_names_of_columns(tmp_path):
    path = parquet(tmp_path / 'set.parquet', [['a'], ['b']], ['text', 'text'])
    with pytest.raises(ValueError, match='repeats a column name: text'):
        tables.read(path)
    path = write(tmp_path / 'set.jsonl', '{"meta": {"label": 1}, "a.b": 2}\n')
    rows = tables.read(path)
    assert tables.columns(rows, ['meta.label'], path)[0] == [1]
    assert tables.columns(rows, ['a.b'], path)[0] == [2]
    with pytest.raises(ValueError, match="row 1, meta, has no field 'lable'.*'label'"):
        tables.columns(rows, ['meta.lable'], path)[0]


def test_folders_of_save_to_disk_are_read(tmp_path, recwarn):
    """Also with files of `map`, which are no data."""
    datasets = pytest.importorskip('datasets')
    label = datasets.ClassLabel(names=['no', 'yes'])
    features = datasets.Features(text=datasets.Value('string'), label=label)
    columns = {'text': ['a', 'b', 'c'], 'label': [1, 0, 1]}
    one = datasets.Dataset.from_dict(columns, features=features)
    made = datasets.DatasetDict(train=one, validation=one.select([2, 0]))
    made.save_to_disk(tmp_path / 'dict', num_shards={'train': 2, 'validation': 1})
    one.save_to_disk(tmp_path / 'one')
    for folder in ('dict/train', 'one'):
        (tmp_path / folder / 'cache-12ab.arrow').write_text('of `map`, not data')
    read = tables.splits(tmp_path / 'dict')
    assert (read.train, read.validation) == (list(made['train']), None)
    assert read.test == list(made['validation'])
    read = tables.splits(tmp_path / 'one')
    assert (read.train, read.test) == (list(one), None)
    (shard, _) = tables.files(tmp_path / 'dict')[0]['train']
    assert tables.class_names(shard, 'label') == ('no', 'yes')
    assert not recwarn.list
    (tmp_path / 'dict/train/state.json').unlink()
    with pytest.raises(FileNotFoundError, match='state.json is missing.*whole folder'):
        tables.splits(tmp_path / 'dict')
    for name in ('one/state.json', 'dict/dataset_dict.json'):
        path = write(tmp_path / name, '{')
        with pytest.raises(ValueError, match=f'{name} is damaged'):
            tables.splits(path.parent)


def test_compressed_data_without_its_suffix_is_named(tmp_path):
    path = write(tmp_path / 'set.jsonl.gz', '{"a": 1}\n')
    with pytest.raises(ValueError, match='if it is compressed, its name must end in .gz'):
        tables.read(path.rename(tmp_path / 'set.jsonl'))


@pytest.mark.parametrize(
    'name, text, words',
    [
        ('a.csv', 'x,y\n1,2\n1\n', 'line 3 has 1 cells, but there are 2 columns: x, y'),
        ('a.csv', 'x;y\n1;2, 3\n', "separated by ';', not by commas. Write others"),
        ('a.csv', 'x,x\n1,2\n', 'line 1 repeats a column name: x, x'),
        ('a.json', '{"a": 1}', 'must be a JSON list of objects'),
        ('a.json', '[{"a": 1]', 'is not JSON'),
        ('a.json', '[{"a": ' + '1' * 5000 + '}]', 'is not JSON: Exceeds the limit'),
        ('a.json', '{"a": 1}\n[2]\n', 'line 2 is a JSON list'),
        ('a.jsonl', '{"a": 1, "a": 2}\n', "the key 'a' more than once"),
        ('a.json', '[{"a": 1, "a": 2}]\n', "the key 'a' more than once"),
    ],
)
def test_invalid_tables_raise(name, text, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        tables.read(write(tmp_path / name, text))


def test_validation_is_the_test_set_if_there_is_no_other(tmp_path):
    for split in ('training', 'eval'):
        write(tmp_path / f'{split}-00000.csv', 'x\n' + split + '\n')
    found = tables.splits(tmp_path)
    assert found.validation is None and found.test == [{'x': 'eval'}]
    write(tmp_path / 'test.csv', 'x\ntest\n')
    write(tmp_path / 'test2.csv', 'x\nanother\n')
    found = tables.splits(tmp_path)
    assert (found.validation, found.test) == ([{'x': 'eval'}], [{'x': 'test'}])
    assert found.revision == '' and found.train == [{'x': 'training'}]


JOINED = [
    (['train.csv', 'train.csv.gz'], 'of train.csv, train.csv.gz two look like the same'),
    (['train.csv', 'data/train.csv'], 'look like the same'),
    (['train.csv', 'train.jsonl'], 'look like the same'),
    (['train.csv', 'train-old.csv'], None),
    (['train-00000-of-00002-0a9b.csv', 'train-00001-of-00002-ffe1.csv'], ''),
    (['train00.csv', 'train01.csv'], ''),
]


@pytest.mark.parametrize('names, words', JOINED)
def test_files_are_not_joined_silently(names, words, tmp_path, recwarn):
    (tmp_path / 'data').mkdir()
    for name in names:
        write(tmp_path / name, '{"x": 1}\n' if 'json' in name else 'x\n1\n')
    if words:
        with pytest.raises(ValueError, match=words):
            tables.splits(tmp_path)
        return
    assert len(tables.splits(tmp_path).train) == 2
    said = [str(one.message) for one in recwarn]
    assert len(said) == (words is None), said
    assert words == '' or 'train is joined from train-old.csv, train.csv' in said[0]


def test_a_file_that_is_not_read_as_a_split_is_named(tmp_path):
    for name in ('train', 'testimonials', 'test_final'):
        write(tmp_path / f'{name}.csv', f'x\n{name}\n')
    for name in ('README.txt', 'about.json'):
        (tmp_path / name).write_text('about')
    (tmp_path / '._train.csv').write_text('of a file system')
    words = ": test_final.csv, testimonials.csv are not read, .*'test'.* followed by"
    with pytest.warns(UserWarning, match=words):
        assert tables.splits(tmp_path).test is None
    # Beside texts, a .txt file may be one of them.
    (tmp_path / 'train.csv').rename(tmp_path / 'train.txt')
    with pytest.warns(UserWarning, match='README.txt, test_final.csv, testimonials.csv'):
        tables.splits(tmp_path, str)
    (tmp_path / 'train.txt').rename(tmp_path / 'train_final.csv')
    with pytest.raises(ValueError, match="with 'train' followed by '.', '-' or two dig"):
        tables.splits(tmp_path)


def test_prepared_tensorflow_datasets_are_read(tmp_path, monkeypatch):
    tfds = pytest.importorskip('tensorflow_datasets')
    from words_set.builder import WordsSet

    WordsSet(data_dir=tmp_path, file_format='array_record').download_and_prepare()
    builder = functools.partial(tfds.builder, data_dir=tmp_path)
    monkeypatch.setattr(tfds, 'builder', builder)
    found = tables.splits('tfds:words_set')
    assert (len(found.train), found.validation, len(found.test)) == (40, None, 10)
    assert {'n': 39, 'text': 'Sentence number 39, é.'} in found.train
