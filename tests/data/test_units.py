"""Tests for preparation in units by processes that may be killed."""

import gzip
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import children
import numpy as np
import pyarrow
import pytest
import read_back
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from jepa_text.data import partial, prepare, units
from jepa_text.data.corpora import corpus, reading
from jepa_text.data.rows import packing, row_folder
from jepa_text.data.sources import jsonl, text
from jepa_text.data.sources import parquet as parquet_source
from jepa_text.files import locks


@pytest.fixture
def small(units_of):
    """Units of 2,000 bytes."""
    units_of(2000)


@pytest.fixture
def folder(tmp_path):
    """Five files of 60 short documents each."""
    place = tmp_path / 'texts'
    place.mkdir()
    rng = np.random.default_rng(0)
    for number in range(5):
        lines = [
            ' '.join(rng.choice(['the', 'whale', 'sea', 'é'], rng.integers(3, 30)))
            for _ in range(60)
        ]
        (place / f'{number}.txt').write_text('\n\n'.join(lines), encoding='utf-8')
    return place


def made(folder, name, tokenizer, **changed):
    """Returns (checksums of the shards, manifest) of small rows."""
    source = {'name': 'text', 'path': str(folder), 'heldout_every': 5}
    given = dict(row_length=32) | changed
    manifest = prepare.prepare(source, tokenizer, folder.parent / name, **given)
    sums = [entry['sha256'] for _, entry in row_folder.files(manifest)]
    return sums, manifest


LINES = st.lists(
    st.sampled_from(['', ' ', 'a', 'the whale', 'é\u2028x', '\u3000', '\r', '\x1c']),
    max_size=40,
)


@given(lines=LINES, size=st.integers(1, 40), bom=st.booleans(), end=st.booleans())
@settings(max_examples=60, deadline=None)
def test_pieces_of_a_file_have_its_documents_in_order(
    tmp_path_factory, lines, size, bom, end
):
    place = tmp_path_factory.mktemp('blocks') / 'a.txt'
    data = ('\ufeff' if bom else '') + '\n'.join(lines) + '\n' * end
    place.write_bytes(data.encode())
    one = text.make('train', place)
    pieces = [piece for piece, _ in one.cut(one.listed.files[0], size)]
    together = [document for piece in pieces for document in one.read(piece)]
    assert together == list(one.read(corpus.Piece(str(place))))


def test_large_files_are_cut_and_small_ones_grouped(folder, small):
    (folder / 'x.txt').write_text('\n\n'.join('a short one' for _ in range(2000)))
    (folder / 'y.txt').write_text('alone')
    one = text.make('train', folder)
    units = one.units()
    files = [{Path(piece.path).name for piece in pieces} for pieces in units]
    assert {'x.txt'} in files and files[-1] == {'x.txt', 'y.txt'}
    assert max(map(len, files)) <= 2
    read = [d['text'] for u in units for piece in u for d in one.read(piece)]
    whole = [d['text'] for f in one.listed.files for d in one.read(corpus.piece_of(f))]
    assert read == whole and len(read) == 2301


@pytest.mark.parametrize('documents', text.DOCUMENTS)
def test_files_as_documents_are_never_cut(folder, small, documents):
    one = text.make('train', folder, documents=documents)
    pieces = [piece for pieces in one.units() for piece in pieces]
    assert (len(pieces) > 5) == (documents == 'blank_line')


def test_json_lines_are_cut_and_located(tmp_path):
    path = tmp_path / 'a.jsonl'
    path.write_text(''.join(f'{{"text": "number {n}"}}\n' for n in range(50)) + '[]\n')
    one = jsonl.make('train', path)
    *pieces, (last, _) = one.cut(one.listed.files[0], 200)
    assert len(pieces) > 4
    found = [document['text'] for piece, _ in pieces for document in one.read(piece)]
    assert found == [f'number {n}' for n in range(len(found))]
    message = rf'line \d+ after byte {last.start:,} is a JSON list'
    with pytest.raises(ValueError, match=message):
        list(one.read(last))


def test_row_groups_are_divided_by_file_size(tmp_path, monkeypatch):
    path = tmp_path / 'a.parquet'
    texts = [f'number {n}' for n in range(95)]
    columns = {'label': range(95), 'body': texts}
    parquet.write_table(pyarrow.table(columns), path, row_group_size=10)
    one = parquet_source.make('train', path, field='body', heldout_every=10**9)
    with monkeypatch.context() as patched:
        # Planning reads no footer.
        patched.setattr(parquet, 'ParquetFile', None)
        patched.setattr(parquet, 'read_metadata', None)
        cuts = [one.cut(one.listed.files[0], size) for size in (1, 99, 999, 4000, 10**9)]
        assert len(one.units()) == 1
    assert len(cuts[0]) == path.stat().st_size > len(cuts[1]) > 20 > len(cuts[3]) > 1
    assert len(cuts[4]) == 1
    for cut in cuts[1:]:
        read = [[d['text'] for d in one.read(piece)] for piece, _ in cut]
        assert sum(read, []) == texts
        # Groups have ten rows, the last one five.
        assert all(len(some) % 10 in (0, 5 * (some[-1:] == texts[-1:])) for some in read)


@pytest.mark.parametrize('name', ['a.txt', 'a.txt.gz'])
def test_too_long_lines_raise(tmp_path, monkeypatch, name):
    monkeypatch.setattr(reading, 'LONGEST', 100)
    data = b'a short one\n\n' + b'x' * 101 + b'\n'
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith('.gz') else data)
    with pytest.raises(ValueError, match="more than 100 bytes, which begins with b'xxx"):
        list(text.make('train', tmp_path / name))


@pytest.mark.parametrize('documents', ['blank_line', 'file'])
def test_too_long_documents_raise(tmp_path, monkeypatch, documents):
    monkeypatch.setattr(reading, 'LONGEST', 100)
    (tmp_path / 'a.txt').write_text('a line of the sea\n' * 6 + '\n' + 'b' * 100)
    message = "a.txt has a document of more than 100 chara.* with 'a line of the sea'"
    with pytest.raises(ValueError, match=message):
        list(text.make('train', tmp_path / 'a.txt', documents=documents))
    (tmp_path / 'a.txt').write_text('a line of the sea\n' * 5 + '\n')
    for split in ('train', 'heldout'):
        list(text.make(split, tmp_path / 'a.txt', documents=documents))


@pytest.mark.parametrize('name', packing.PACKINGS)
def test_records_match_a_plain_implementation(name, monkeypatch, rng):
    monkeypatch.setattr(row_folder, 'CHUNK', 50)
    lengths = rng.integers(0, 40, 60)
    ids = rng.integers(1, 2000, lengths.sum()).astype('<u2')
    starts = np.cumsum(lengths) - lengths
    packed = packing.PACKINGS[name](lengths, 32, rng)
    order = rng.permutation(len(packed))
    found = list(row_folder.records(ids, starts, packed, order, 0, 32))
    for row, record in zip(order, found, strict=True):
        pieces = [
            ids[starts[d] + s :][:n] for d, s, n in read_back.pieces_of(packed, row)
        ]
        values = [*np.concatenate(pieces)]
        values += [0] * (32 - len(values)) + [len(piece) for piece in pieces]
        assert record == np.array(values, '<u2').tobytes()


@pytest.mark.ray
def test_a_ray_cluster_makes_the_same_rows(folder, ours, small, monkeypatch):
    """Two nodes, one of which is lost in between; a fault is that of a local unit."""
    from ray import cluster_utils

    cluster = cluster_utils.Cluster(True, head_node_args=dict(num_cpus=1))
    monkeypatch.setenv('RAY_ADDRESS', cluster.address)
    asked = dict(engine=dict(name='ray'), clean=dict(exact_duplicates=True))
    (folder / '4.txt').rename(folder / '4.txt.gz')
    node = cluster.add_node(num_cpus=1)
    try:
        with pytest.raises(ValueError, match='4.txt.gz is damaged or truncated'):
            made(folder, 'rows', ours, **asked)
        (folder / '4.txt.gz').rename(folder / '4.txt')
        threading.Timer(5, cluster.remove_node, (node, False)).start()
        found = made(folder, 'rows', ours, **asked)
    finally:
        cluster.shutdown()
    assert found == made(folder, 'straight', ours, clean=asked['clean'])


KILLED = """
import os, random, signal, sys, threading, time
from jepa_text.data import prepare, tokenizers
from jepa_text.data.corpora import corpus
corpus.SMALLEST = corpus.LARGEST = 2000
threading.Timer(float(sys.argv[3]), os.kill, (os.getpid(), signal.SIGKILL)).start()
source = {'name': 'text', 'path': sys.argv[1], 'heldout_every': 5}
prepare.prepare(source, tokenizers.load(tokenizers.BUNDLED), sys.argv[2], row_length=32,
                engine=dict(jobs=2))
os._exit(0)
"""


@pytest.mark.slow
def test_resuming_after_a_kill_gives_the_same_output(folder, ours, small):
    straight, manifest = made(folder, 'straight', ours)
    target, wait, codes = folder.parent / 'killed', 0.3, []
    while not target.exists():
        done = children.run('-c', KILLED, folder, target, wait, code=None)
        codes.append(done.returncode)
        wait += 0.25
    assert codes[0] == -signal.SIGKILL
    assert made(folder, 'killed', ours) == (straight, manifest)


def test_finished_units_are_not_repeated(folder, ours, small, monkeypatch):
    straight, manifest = made(folder, 'straight', ours)
    real, numbers = units._make_shards, []

    def make(work, number):
        numbers.append(number)
        if len(numbers) == 4:
            raise KeyboardInterrupt
        real(work, number)

    monkeypatch.setattr(units, '_make_shards', make)
    with pytest.raises(KeyboardInterrupt):
        made(folder, 'rows', ours)
    assert len(partial.done_parts(folder.parent / '.rows.partial')) == 3
    assert made(folder, 'rows', ours) == (straight, manifest)
    assert numbers[3:] == [3, *range(3, max(numbers) + 1)]


@pytest.mark.parametrize('changed', ['plan', 'version'])
def test_another_plan_or_version_starts_over(changed, folder, ours, small, monkeypatch):
    real = units._make_shards

    def make(*given):
        real(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(units, '_make_shards', make)
    with pytest.raises(KeyboardInterrupt):
        made(folder, 'rows', ours)
    monkeypatch.undo()
    partial_folder = folder.parent / '.rows.partial'
    assert list(partial_folder.glob('train*'))
    if changed == 'version':
        monkeypatch.setattr(units, 'MARKS', units.MARKS + 1)
        # Like the marks of another version, which have fewer entries.
        for path in partial_folder.glob('part-*.json'):
            path.write_text('{}')
    seed = 1 if changed == 'plan' else 0
    found, manifest = made(folder, 'rows', ours, seed=seed)
    assert (found, manifest) == made(folder, 'straight', ours, seed=seed)


@pytest.mark.parametrize('jobs', [1, pytest.param(2, marks=pytest.mark.slow)])
def test_invalid_files_raise_and_finished_units_are_kept(folder, ours, small, jobs):
    (folder / '2.txt').rename(folder / '2.txt.gz')
    with pytest.raises(ValueError, match='2.txt.gz is damaged or truncated'):
        made(folder, 'rows', ours, engine=dict(jobs=jobs))
    kept = partial.done_parts(folder.parent / '.rows.partial')
    assert kept and max(kept) < len(text.make('train', folder).units()) - 1
    (folder / '2.txt.gz').rename(folder / '2.txt')
    straight = made(folder, 'straight', ours)
    assert made(folder, 'rows', ours) == straight


def test_concurrent_calls_create_one_folder(folder, ours, small):
    with ThreadPoolExecutor() as pool:
        one, two = pool.map(lambda _: made(folder, 'rows', ours), range(2))
    assert one == two
    assert not list(folder.parent.glob('.*'))


def test_a_kill_before_all_is_on_disk_repeats_no_part(tmp_path, monkeypatch):
    def killed(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(partial.atomic, 'flush_tree', killed)
        with partial.open_folder(tmp_path / 'a', {'x': 1}) as here:
            partial.mark_done(here, 0, 'done')
    with partial.open_folder(tmp_path / 'a', {'x': 1}) as here:
        assert partial.done_parts(here) == {0: 'done'}
    assert os.listdir(tmp_path) == ['a'] and not os.listdir(tmp_path / 'a')


def test_a_complete_folder_is_locked_until_it_is_renamed(tmp_path, monkeypatch):
    real = partial.atomic.flush_tree

    def flush(folder):
        with open(folder / partial.LOCK) as other, pytest.raises(BlockingIOError):
            locks.take(other, wait=False)
        real(folder)

    monkeypatch.setattr(partial.atomic, 'flush_tree', flush)
    with partial.open_folder(tmp_path / 'a', {}) as here:
        (here / 'x').write_text('x')
    assert os.listdir(tmp_path / 'a') == ['x']
