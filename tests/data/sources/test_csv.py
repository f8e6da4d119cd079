"""Tests for CSV and TSV corpora."""

import csv as library
import gzip
import io

import pytest

from jepa_text.data.corpora import reading
from jepa_text.data.sets import tables
from jepa_text.data.sources import csv

ROWS = [
    {'id': '1', 'text': 'a plain one', 'more': ''},
    {'id': '2', 'text': 'with, a comma and "quotes"', 'more': 'x'},
    {'id': '3', 'text': 'over\ntwo lines, é', 'more': 'NA'},
    {'id': '4', 'text': '12.50', 'more': 'null'},
]


def written(rows, **dialect):
    file = io.StringIO()
    writer = library.DictWriter(file, ['id', 'text', 'more'], **dialect)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


def read(path, **section):
    return list(csv.make('train', path, heldout_every=10**9, **section))


@pytest.mark.parametrize('name', ['a.csv', 'a.csv.gz', 'a.CSV'])
@pytest.mark.parametrize('end', ['\n', '\r\n'])
def test_cells_are_read_as_written(tmp_path, name, end):
    data = b'\xef\xbb\xbf' + written(ROWS, lineterminator=end)
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith('.gz') else data)
    assert read(path, columns=('id', 'more')) == ROWS
    assert read(path, field='more', columns=['text'])[1] == {
        'more': 'x',
        'text': 'x',
    }
    if name != 'a.CSV':
        assert tables.read(path) == ROWS


def test_tsv_cells_are_literal(tmp_path):
    path = tmp_path / 'a.tsv'
    path.write_text('id\ttext\n1\ta "quoted" one\n2\t"open\n3\tit\'s, here\n')
    expected = ['a "quoted" one', '"open', "it's, here"]
    assert [row['text'] for row in read(path)] == expected
    assert [row['text'] for row in tables.read(path)] == expected


def test_cells_with_other_delimiters_and_files_without_lines(tmp_path):
    data = written(ROWS, delimiter=';')
    (tmp_path / 'a.csv').write_bytes(data)
    (tmp_path / 'b.csv').write_bytes(b'')
    assert read(tmp_path, columns=('id', 'more'), delimiter=';') == ROWS
    with pytest.raises(ValueError, match="delimiter=';;' must be one character"):
        read(tmp_path, delimiter=';;')


def test_a_file_is_never_cut(tmp_path, units_of):
    texts = [f'number {n},\nof "all"' for n in range(900)]
    rows = [{'id': '', 'text': text, 'more': ''} for text in texts]
    path = tmp_path / 'a.csv'
    path.write_bytes(written(rows))
    units_of(400)
    one = csv.make('train', path, heldout_every=10**9)
    assert [row['text'] for row in one] == texts
    assert len(one.units()) == 1


@pytest.mark.parametrize(
    'data, message',
    [
        (b'id;text\n1;a\n', "no column 'text'; it has: id;text. If ';' .*delimiter=';'"),
        (b'id,body\n1,a\n', "has no column 'text'; it has: id, body"),
        (b'id,text\n1,a\n2,b,c\n', 'line 3: row 2 has 3 cells, but there are 2 columns'),
        (b'id,text\n1,a\n2\n', 'line 3: row 2 has 1 cells.*must be quoted'),
        # A quote that is not closed, and one that is not doubled.
        (b'text\nfoo\n"bar\nbaz\n', 'line 4 is not CSV: unexpected end of data'),
        (b'text,id\nfoo,"1\nbar,2\n', 'line 3 is not CSV: unexpected end of data'),
        (b'text,id\n"foo" bar,1\n', "line 2 is not CSV: ',' expected"),
        (b'"id,text\n1,a\n', 'line 2 is not CSV: unexpected end of data'),
        (b'text,text\na,b\n', 'repeats a column name: text, text'),
        (b'id,text\n1,"' + b'x' * 2000 + b'"\n', 'line 2 is not CSV: field larger'),
    ],
)
def test_invalid_tables_raise(tmp_path, monkeypatch, data, message):
    monkeypatch.setattr(reading, 'CELL', 300)
    usual = library.field_size_limit(300)
    (tmp_path / 'a.csv').write_bytes(data)
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path / 'a.csv')
    library.field_size_limit(usual)
    assert str(tmp_path / 'a.csv') in str(caught.value)
