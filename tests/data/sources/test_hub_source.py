"""Tests for hub corpora, streamed from a local server at one commit."""

import gzip
import json
import socket
import textwrap

import hub_server
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

pytest.importorskip('huggingface_hub')
CARD = """---
configs:
- config_name: sample-10
  data_files:
  - {split: train, path: sample/10/*}
- config_name: lines
  data_files:
  - {split: train, path: lines/train.*}
  - {split: validation, path: lines/dev.*}
- config_name: tables
  data_files: [{split: train, path: 'tables/*'}]
---
"""
BEGIN = """
    import json
    from jepa_text.data.corpora import corpus
    from jepa_text.data.sources import hub
    from jepa_text.files import addresses

    addresses.PAUSES = (0,) * 5

    def texts(name, size=1500, **given):
        corpus.SMALLEST = corpus.LARGEST = size
        try:
            found = hub.make('train', 'hub:' + name, heldout_every=10**9, **given)
            rows = list(found)
        except Exception as error:
            return [type(error).__name__, str(error)]
        units = [text['text'] for unit in found.units() for p in unit
                 for text in found.read(p)]
        return [str(found.listed), rows, units, len(found.units())]

    def show(made):
        print(json.dumps(made))
"""


def ask(address, cache, program, **environment):
    """Returns the output of a program in a new process."""
    program = textwrap.dedent(BEGIN) + textwrap.dedent(program)
    return hub_server.run_program(program, address, cache, **environment)


def sentences(seed, count=70):
    rng = np.random.default_rng(seed)
    words = ['the', 'whale', 'sea', 'é']
    return [f'{seed} ' + ' '.join(chosen) for chosen in rng.choice(words, (count, 20))]


def packed(texts):
    sink = pyarrow.BufferOutputStream()
    table = pyarrow.table({'text': texts, 'id': range(len(texts))})
    parquet.write_table(table, sink, row_group_size=20)
    return sink.getvalue().to_pybytes()


def lines(texts):
    return ''.join(json.dumps({'text': t, 'n': 1}) + '\n' for t in texts).encode()


def cells(texts):
    return '\n'.join(['text\tn', *(f'{text}\t1' for text in texts)]).encode()


@pytest.fixture(scope='module')
def sets(tmp_path_factory):
    top = tmp_path_factory.mktemp('hub')
    files = {f'sample/10/{n}.parquet': packed(sentences(n)) for n in (0, 1)}
    zst = pyarrow.compress(lines(sentences(6)), codec='zstd', asbytes=True)
    web = files | {
        'README.md': CARD,
        'lines/train.0.json.gz': gzip.compress(lines(sentences(3))),
        'lines/train.1.jsonl': lines(sentences(4, 3600)),
        'lines/train.2.jsonl.zst': zst,
        'lines/train.md': b'about the lines',
        'lines/dev.jsonl': lines(sentences(5)),
        'tables/b.tsv': cells(sentences(11, 15_000)),
    }
    newer = {'README.md': CARD, 'sample/10/0.parquet': packed(sentences(7))}
    plain = {'train.jsonl': lines(sentences(9)), 'train.csv': b'text\nx\n'}
    made = {'web/main': web, 'web/v2': newer, 'plain/main': plain}
    for place, held in made.items():
        hub_server.write(top / 'lab' / place, held)
    return top


READ = """
    show({
        'sample': texts('lab/web/sample-10'),
        'lines': texts('lab/web/lines', 200_000),
        'dev': texts('lab/web/lines', 200_000, splits=['validation', 'train']),
        'plain': texts('lab/plain'),
        'split': texts('lab/web/sample-10', splits=['test']),
        'column': texts('lab/web/sample-10', field='body'),
        'field': texts('lab/plain', field='body'),
        'tables': texts('lab/web/tables', 200_000),
    })
"""


@pytest.fixture(scope='module')
def results(sets, tmp_path_factory):
    """The rows of every dataset below, the requests to the server, and the cache."""
    cache = tmp_path_factory.mktemp('cache')
    with hub_server.serving(sets, faults=['train.1.jsonl', 'b.tsv']) as (address, asked):
        return ask(address, cache, READ), asked, cache


@pytest.mark.slow
@pytest.mark.parametrize(
    'what, name, expected', [('sample', 'lab/web', [0, 1]), ('plain', 'lab/plain', [9])]
)
def test_rows_of_a_config_are_read_in_order_at_a_commit(results, what, name, expected):
    summary, rows, units, count = results[0][what]
    assert [row['text'] for row in rows] == units
    assert units == [text for seed in expected for text in sentences(seed)]
    assert count > len(expected)
    commit = hub_server.commit(name, 'main')
    files = f'{len(expected)} file{"s" * (len(expected) > 1)} read of commit {commit}'
    assert summary.startswith(files)
    assert set(rows[0]) == ({'text', 'n'} if what == 'plain' else {'text'})


@pytest.mark.slow
def test_compressed_lines_are_read(results):
    _, _, units, _ = results[0]['lines']
    wanted = sentences(3) + sentences(4, 3600) + sentences(6)
    assert units == wanted
    assert results[0]['dev'][2] == sentences(5) + wanted


@pytest.mark.slow
def test_tables_are_streamed(results):
    _, rows, units, count = results[0]['tables']
    assert units == sentences(11, 15_000) and count == 1
    assert rows[0] == {'text': units[0]}


@pytest.mark.slow
@pytest.mark.parametrize('name', ['train.1.jsonl', 'b.tsv'])
def test_interrupted_connections_resume(results, name):
    _, asked, _ = results
    cut = asked.index(f'{name} cut')
    before = int(asked[cut - 1].rpartition(' ')[2])
    after = next(one for one in asked[cut:] if one.startswith(f'{name} from'))
    assert before > 0 and int(after.rpartition(' ')[2]) >= before


@pytest.mark.slow
def test_only_cards_are_downloaded(results):
    kept = [
        path for path in results[2].rglob('*') if path.is_file() and not path.is_symlink()
    ]
    held = {path.read_bytes() for path in kept if 'blobs' in path.parts}
    assert held == {CARD.encode()}
    assert sum(path.stat().st_size for path in kept) < 10_000


@pytest.mark.slow
@pytest.mark.parametrize(
    'what, kind, words',
    [
        ('split', 'ValueError', "split='test'. Available: train."),
        ('column', 'ValueError', "0.parquet has no column 'body'; it has: text, id"),
        ('field', 'ValueError', "train.jsonl, line 1 has no field 'body'"),
    ],
)
def test_errors_are_clear(results, what, kind, words):
    assert results[0][what][0] == kind and words in results[0][what][1]


@pytest.mark.slow
def test_a_plan_keeps_its_commit(sets, tmp_path):
    heads = {}
    with hub_server.serving(sets, heads=heads) as (address, asked):
        made = 'corpus.SMALLEST = corpus.LARGEST = 1500\n'
        made += "found = hub.make('train', 'hub:lab/web/sample-10')\n"
        plan = ask(address, tmp_path, made + 'show(found.units())')
        # Sizes come from the listing: no footer is requested.
        assert len(plan) > 4 and not any('.parquet' in one for one in asked)
        listing = len(asked)
        heads['main'] = 'v2'
        # Like a worker, or a process that resumes later.
        read = f"""
        show([[d['text'] for unit in {plan!r} for p in unit
               for d in found.read(corpus.Piece(*p))],
              [d['text'] for unit in found.units() for p in unit for d in found.read(p)]])
        """
        old, new = ask(address, tmp_path, made + textwrap.dedent(read))
    assert old == sentences(0) + sentences(1) and new == sentences(7)
    # A commit cannot change: the hub is not asked again for every piece.
    assert len([path for path in asked[listing:] if '/api/' in path]) <= listing


@pytest.mark.slow
def test_tasks_read_the_commit_of_the_plan(sets, tmp_path):
    plan = f"""
        from jepa_text.data import prepare, tokenizers, units
        units.load, ours = None, tokenizers.load(tokenizers.BUNDLED)  # as if killed there
        source = dict(name='hub', path='hub:lab/web/sample-10')
        try:
            prepare.prepare(source, ours, '{tmp_path}/rows', row_length=32)
        except TypeError:
            show('planned')
    """
    read = f"""
        from jepa_text.data import units
        opened = units.load('{tmp_path}/.rows.partial').corpora
        show([str(one.listed) for one in opened.values()])
    """
    heads, commit = {}, hub_server.commit('lab/web', 'main')
    with hub_server.serving(sets, heads=heads) as (address, _):
        assert ask(address, tmp_path, plan) == 'planned'
        heads['main'] = 'v2'
        found = ask(address, tmp_path, read)
    assert found == [f'2 files read of commit {commit}'] * 2


@pytest.mark.slow
@pytest.mark.parametrize('environment', [{'HF_HUB_OFFLINE': '1'}, {}])
@pytest.mark.parametrize('waits', [False, True])
def test_a_missing_network_raises(tmp_path, environment, waits):
    asked = 'from jepa_text.data.sets import hub as names\nnames.TIMEOUT = 1.0\n'
    with socket.create_server(('127.0.0.1', 0)) as door:
        port = door.getsockname()[1]
        if not waits:
            door.close()
        address = f'http://127.0.0.1:{port}'
        answer = ask(address, tmp_path, f"{asked}show(texts('lab/web'))", **environment)
    assert answer[0] == 'AddressError', answer
    assert 'the hub cannot be reached, or HF_HUB_OFFLINE is set' in answer[1]
