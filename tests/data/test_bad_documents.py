"""Tests that invalid text raises, or is skipped, counted and named, for all sources."""

import gzip
import sys
import types

import pyarrow
import pytest
import read_back
from pyarrow import parquet

from jepa_text.data import prepare, units
from jepa_text.data.corpora import corpus, invalid_text
from jepa_text.data.sources import tfds
from jepa_text.report.rows_page import lines
from jepa_text.training import prepare as command

GOOD = [f'number {n} of the sea, é' for n in range(40)]
LATIN, NUL = b'caf\xe9 of the sea', b'a \0 in the sea'


def among(good, *bad):
    """Returns good documents, encoded, and bad ones as documents 11, 22 and 31."""
    made = [text.encode() for text in good]
    for place, one in zip((10, 21, 30), bad):
        made.insert(place, one)
    return made


def blocks(folder):
    (folder / 'a.txt').write_bytes(b'\n\n'.join(among(GOOD, LATIN, NUL)))
    return {'name': 'text'}, named('a.txt, document {}')


def whole_files(folder):
    for number, one in enumerate(among(GOOD, LATIN, NUL), 1):
        (folder / f'{number:02}.txt').write_bytes(one)
    return {'name': 'text', 'documents': 'file'}, named('{}.txt, document 1')


def json_lines(folder):
    quoted = [b'{"text": "%b"}' % one for one in among(GOOD, LATIN, b'a \\u0000', b'')]
    quoted[30] = b'{"text": null}'
    quoted.append(b'{"text": " \\n"}')
    (folder / 'a.jsonl.gz').write_bytes(gzip.compress(b'\n'.join(quoted)))
    where = 'a.jsonl.gz, document {}'
    return {'name': 'jsonl'}, named(where, null=True) | {'blank': where.format(44)}


def row_groups(folder):
    data = pyarrow.array(among(GOOD, LATIN, NUL, None), pyarrow.binary())
    text = pyarrow.table({'text': data.view(pyarrow.string())})
    parquet.write_table(text, folder / 'a.parquet', row_group_size=4)
    return {'name': 'parquet'}, named('a.parquet, row {}', null=True)


def table(folder):
    cells = [b'"%b",1' % one for one in among(GOOD, LATIN, NUL)]
    (folder / 'a.csv').write_bytes(b'\n'.join([b'text,n', *cells]))
    return {'name': 'csv'}, named('a.csv, document {}')


def named(where, null=False):
    """Returns {reason: name} of the bad documents."""
    reasons = [invalid_text.NOT_UTF8, invalid_text.NUL] + [invalid_text.NO_TEXT] * null
    return {f'bad: {one}': where.format(n) for one, n in zip(reasons, (11, 22, 31))}


FORMATS = [blocks, whole_files, json_lines, row_groups, table]


@pytest.fixture
def made(tmp_path, ours, units_of):
    """`prepare` for a format, in units of about 200 bytes."""
    units_of(200)

    def call(write, name='rows', **changed):
        place = tmp_path / 'texts'
        place.mkdir(exist_ok=True)
        source, named = write(place)
        source |= {'path': str(place), 'heldout_every': 5}
        given = dict(row_length=64) | changed
        return prepare.prepare(source, ours, tmp_path / name, **given), named

    return call


@pytest.mark.parametrize('write', FORMATS)
def test_skipped_documents_are_counted_and_named(made, write, tmp_path, ours):
    manifest, named = made(write)
    assert manifest['left_out'] == dict.fromkeys(named, 1)
    for reason, name in named.items():
        (example,) = manifest['examples'][reason]
        # A piece of a file states where it begins, and numbers its own documents.
        file, _, _ = name.partition(', ')
        assert f'/{file}, ' in example
        if ' after byte ' not in example:
            assert example.endswith(name)
    rows = tmp_path / 'rows'
    texts = read_back.texts(rows, 'train', ours) + read_back.texts(rows, 'heldout', ours)
    assert sorted(texts) == sorted(GOOD)


@pytest.mark.parametrize('encoding', ['utf-16', 'utf-16-le'])
@pytest.mark.parametrize('write', FORMATS)
def test_files_in_utf16_are_skipped(made, write, encoding):
    """Also without its byte order mark, and cut into pieces."""

    def with_utf16(folder):
        source, _ = write(folder)
        kind = {'jsonl': 'jsonl', 'csv': 'csv'}.get(source['name'], 'txt')
        content = {'jsonl': '{"text": "a sea"}\n', 'csv': 'text,n\nthe sea,1\n'}
        content = content.get(kind, 'the sea\n\n') * 40
        (folder / f'utf16.{kind}').write_bytes(content.encode(encoding))
        return source, {}

    manifest, _ = made(with_utf16)
    assert sum(split['documents'] for split in manifest['splits'].values()) == len(GOOD)


def test_the_report_names_skipped_documents(tmp_path, capsys):
    place = tmp_path / 'texts'
    place.mkdir()
    source, named = json_lines(place)
    source |= {'path': str(place), 'heldout_every': 5}
    section = {'source': source, 'row_length': 64, 'tokenizer': 'bundled'}
    command.make(section, tmp_path / 'rows')
    output = capsys.readouterr().out
    page = (tmp_path / 'rows' / 'report.html').read_text()
    assert '1 bad: not UTF-8' in output and 'Most documents' not in output
    for reason, name in named.items():
        assert f'{reason}, such as {place}/{name}' in output
        assert name in page


def test_ten_documents_are_named(made):
    def write(place):
        data = [text.encode() for text in GOOD] + [LATIN + b'%d' % n for n in range(150)]
        (place / 'a.txt').write_bytes(b'\n\n'.join(data))
        return {'name': 'text'}, {}

    manifest, _ = made(write)
    named = manifest['examples']['bad: not UTF-8']
    assert len(named) == len(set(named)) == 10
    assert manifest['left_out'] == {'bad: not UTF-8': 150}
    assert 'Most documents are invalid' in ' '.join(lines(manifest))


def test_names_of_documents_are_whole():
    tally, where = units.Tally(), f'{"deep/" * 99}a.txt, document 7'
    tally.drop_bad(invalid_text.Bad(invalid_text.NUL, where))
    assert tally.examples == {'bad: a NUL in it': [where]}


def test_a_corpus_without_valid_documents_raises_with_reasons(made):
    def write(place):
        (place / 'a.txt').write_bytes(LATIN + b'\n\n' + NUL)
        return {'name': 'text'}, {}

    with pytest.raises(ValueError, match=r'out: 1 bad: a NUL.*a\.txt, d.*`iconv`'):
        made(write)


def test_invalid_array_record_documents_are_named():
    data = among(GOOD, LATIN, NUL)
    builder = types.SimpleNamespace(name='set')
    builder.as_data_source = lambda _: [{'text': one} for one in data]
    found = list(tfds._documents(builder, 'text', corpus.Piece('train')))
    assert [one['text'] for one in found if isinstance(one, dict)] == GOOD
    assert [one for one in found if not isinstance(one, dict)] == [
        (invalid_text.NOT_UTF8, 'set, train, example 10'),
        (invalid_text.NUL, 'set, train, example 21'),
    ]


def test_custom_sources_are_checked(made, monkeypatch):
    mine = types.ModuleType('lab.mine')
    texts = ['a half \ud83d pair', 'a \0', *GOOD]
    mine.make = lambda split, path, heldout_every: [{'text': text} for text in texts]
    monkeypatch.setitem(sys.modules, 'lab', types.ModuleType('lab'))
    monkeypatch.setitem(sys.modules, 'lab.mine', mine)
    manifest, _ = made(lambda _: ({'name': 'lab.mine'}, {}), splits=('train',))
    assert manifest['left_out'] == {
        f'bad: {r}': 1 for r in (invalid_text.NUL, invalid_text.NOT_UTF8)
    }
    assert manifest['examples']['bad: a NUL in it'] == ['lab.mine, train, document 2']
