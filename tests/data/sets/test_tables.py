"""Tests for tables in all file formats, and for errors with the line."""

import functools
import gzip
import json

import pytest

from jepa_text.data.sets import tables

ROWS = [{'text': f'He said "{n}",\nand left.', 'label': str(n)} for n in range(3)]


def quoted(cell):
    return '"' + cell.replace('"', '""') + '"'


def write(path, text):
    opener = gzip.open if path.name.endswith('.gz') else open
    with opener(path, 'wt', encoding='utf-8') as file:
        file.write(text)
    return path


CSV = 'text,label\n' + ''.join(f'{quoted(r["text"])},{r["label"]}\n' for r in ROWS)
KINDS = {
    'set.csv': CSV,
    'windows.csv': '\ufeff'
    + CSV.replace('\nand', '\0').replace('\n', '\r\n').replace('\0', '\nand'),
    'set.csv.gz': CSV,
    'set.json': json.dumps(ROWS),
    'set.json.gz': json.dumps({'version': 1, 'data': ROWS}),
    'set.jsonl': ''.join(json.dumps(row) + '\n' for row in ROWS),
    'set.ndjson.gz': ''.join(json.dumps(row) + '\n' for row in ROWS),
}


@pytest.mark.parametrize('name', KINDS)
def test_all_file_formats_give_the_same_rows(name, tmp_path):
    assert tables.read(write(tmp_path / name, KINDS[name])) == ROWS


def test_columns_without_a_name_are_allowed(tmp_path):
    path = write(tmp_path / 'set.csv', 'text,label,,\nhello,1,,\n')
    assert tables.read(path)[0] | {'': ''} == {'text': 'hello', 'label': '1', '': ''}


def test_cells_may_be_long(tmp_path):
    text = 'a long text, ' * 20_000
    path = write(tmp_path / 'set.csv', f'text,label\n{quoted(text)},1\n')
    assert tables.read(path) == [{'text': text, 'label': '1'}]


def test_cells_of_a_tsv_are_never_quoted(tmp_path):
    path = write(tmp_path / 'set.tsv.gz', 'text\tlabel\n"open\t1\n')
    assert tables.read(path) == [{'text': '"open', 'label': '1'}]


@pytest.mark.parametrize(
    ('name', 'text', 'words'),
    [
        ('a.csv', 'x,y\n1,2\n1\n', 'line 3 has 1 cells, but there are 2 columns: x, y'),
        ('a.csv', 'x,y\n1,2,3\n', 'line 2 has 3 cells'),
        ('a.csv', 'x,x\n1,2\n', 'line 1 repeats a column name: x, x'),
        ('a.csv', 'x,y\n"a"b,2\n', 'line 2 is not CSV'),
        ('a.csv', 'x,y\n"a,2\n', 'is not CSV: unexpected end'),
        ('a.json', '{"a": 1}', 'must be a JSON list of objects'),
        ('a.json', '[1, 2]', 'must be a JSON list of objects'),
        ('a.json', '[{"a": 1]', 'is not JSON'),
        ('a.json', '[{"a": ' + '1' * 5000 + '}]', 'is not JSON: Exceeds the limit'),
        ('a.json', '{"a": 1}\n[2]\n', 'line 2 is a JSON list'),
        ('a.json', '{"a": 1}\n{"a"', 'line 2 is not valid JSON'),
        ('a.jsonl', '{"a": 1}\n[2]\n', 'line 2 is a JSON list'),
    ],
)
def test_invalid_tables_raise(name, text, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        tables.read(write(tmp_path / name, text))


def test_validation_is_the_test_set_if_there_is_no_other(tmp_path):
    for split in ('train', 'dev'):
        write(tmp_path / f'{split}-00000.csv', 'x\n' + split + '\n')
    found = tables.splits(tmp_path)
    assert found.validation is None and found.test == [{'x': 'dev'}]
    write(tmp_path / 'test.csv', 'x\ntest\n')
    write(tmp_path / 'test2.csv', 'x\nanother\n')
    found = tables.splits(tmp_path)
    assert (found.validation, found.test) == ([{'x': 'dev'}], [{'x': 'test'}])
    assert found.revision == '' and found.train == [{'x': 'train'}]


def test_a_file_that_is_not_read_as_a_split_is_named(tmp_path):
    for name in ('train', 'testimonials', 'test_final'):
        write(tmp_path / f'{name}.csv', f'x\n{name}\n')
    with pytest.warns(UserWarning, match="test_final is not read, .* with 'test' follo"):
        assert tables.splits(tmp_path).test is None
    (tmp_path / 'train.csv').rename(tmp_path / 'train_final.csv')
    with pytest.raises(ValueError, match="with 'train' followed by '.', '-' or two dig"):
        tables.splits(tmp_path)


def test_numbers_are_replaced_by_the_names_of_classes(tmp_path):
    path = write(tmp_path / 'train.jsonl', '{"tag": 1}\n{"tag": 7}\n{"text": "a"}\n')
    write(tmp_path / 'label.json', '{"no": 0, "yes": 1}')
    rows, names = [{'tag': 'yes'}, {'tag': 7}, {'text': 'a'}], ('no', 'yes')
    assert tables.read_named(path, 'tag') == (rows, names)
    cells = write(tmp_path / 'train.csv', 'tag\n1\n7\nno\n')
    rows = [{'tag': 'yes'}, {'tag': 7}, {'tag': 'no'}]
    assert tables.read_named(cells, 'tag') == (rows, names)
    with pytest.raises(ValueError, match="row 1, has no field 'label'"):
        tables.column(tables.read_named(path, 'label')[0], 'label', path)


def test_prepared_tensorflow_datasets_are_read(tmp_path, monkeypatch):
    tfds = pytest.importorskip('tensorflow_datasets')
    from words_set.builder import WordsSet

    WordsSet(data_dir=tmp_path, file_format='array_record').download_and_prepare()
    builder = functools.partial(tfds.builder, data_dir=tmp_path)
    monkeypatch.setattr(tfds, 'builder', builder)
    found = tables.splits('tfds:words_set')
    assert (len(found.train), found.validation, len(found.test)) == (40, None, 10)
    assert {'n': 39, 'text': 'Sentence number 39, é.'} in found.train
