import contextlib
import hashlib
import os
import resource
import shutil
import time

import numpy as np
import pytest
import read_back
from numpy.testing import assert_array_equal
from read_back import Numbered, assert_same, draw, joined

from jepa_text.data import mixture as mixtures
from jepa_text.data import pipeline, prepare, stream
from jepa_text.data.rows import packing, row_folder
from jepa_text.training import heldout


@pytest.fixture(scope='module')
def whole(tmp_path_factory, ours):
    """A prepared folder with 16 tokens per row, never modified."""
    folder = tmp_path_factory.mktemp('whole')
    words = np.array(['the', 'whale', 'and', 'a', 'white', 'sea', 'of', 'men'])
    rng = np.random.default_rng(0)
    texts = [
        f'{n} ' + ' '.join(rng.choice(words, rng.integers(1, 50))) for n in range(90)
    ]
    (folder / 'corpus.txt').write_text('\n\n'.join(texts))
    source = {'name': 'text', 'path': folder / 'corpus.txt', 'heldout_every': 4}
    prepare.prepare(source, ours, folder / 'rows', row_length=16, shards=3)
    return folder / 'rows'


@pytest.fixture
def folder(whole, tmp_path):
    """A copy that a test may modify."""
    return shutil.copytree(whole, tmp_path / 'rows')


def of(rows):
    """Returns the mixture of a single folder."""
    return mixtures.Mixture([mixtures.Part(name='', rows=rows)])


def take(count, rows, **changed):
    """Returns the first batches of a stream."""
    return read_back.take(count, of(rows), **({'batch_size': 6, 'seed': 0} | changed))


def test_record_is_little_endian_tokens_then_lengths():
    ids = np.array([17, 4, 9, 2, 17, 5, 2], '<u2')
    packed = packing.concat([4, 3], 8)
    (record,) = row_folder.records(ids, np.array([0, 4]), packed, [0], 3, 8)
    expected = [17, 4, 9, 2, 17, 5, 2, 3, 4, 3]
    assert record == b''.join(value.to_bytes(2, 'little') for value in expected)
    row = row_folder.from_record(record, 8, '<u2', 99)
    assert {values.dtype for values in row.values()} == {np.dtype(np.int32)}
    assert row['tokens'].tolist() == expected[:8]
    assert row['segment_ids'].tolist() == [1, 1, 1, 1, 2, 2, 2, 0]
    assert row['positions'].tolist() == [0, 1, 2, 3, 0, 1, 2, 0]
    for bad in (record[:16], b'', record + b'\xff\xff'):
        with pytest.raises(ValueError, match='not a row of 8 tokens'):
            row_folder.from_record(bad, 8, '<u2', 99)


def test_a_misspelt_split_raises(whole):
    with pytest.raises(ValueError, match="no split 'trian'.*Did you mean 'train'"):
        pipeline.Rows(whole, 'trian')


def changed(**values):
    """A harm that writes a manifest with other values, and its checksum."""

    def harm(folder):
        row_folder.write_manifest(folder, row_folder.read_manifest(folder) | values)

    return harm


def edited(folder):
    path = folder / 'manifest.json'
    path.write_text(path.read_text().replace('"row_length": 16', '"row_length": 8'))


def written(content):
    return lambda folder: (folder / 'manifest.json').write_bytes(content)


def more_rows(folder):
    splits = row_folder.read_manifest(folder)['splits']
    splits['train']['files'][0]['rows'] += 1
    changed(splits=splits)(folder)


def truncated(folder):
    shard = folder / 'train-00001-of-00003.array_record'
    os.truncate(shard, shard.stat().st_size - 1)
    pipeline.Rows(folder, 'heldout')


def zeros(folder):
    shard = folder / 'train-00000-of-00003.array_record'
    shard.write_bytes(b'\0' * shard.stat().st_size)


@pytest.mark.parametrize(
    'harm, message',
    [
        (edited, 'manifest.json is damaged or was edited'),
        *[
            (written(content), 'manifest.json is damaged or was edited')
            for content in (b'', b'{"format": 1', b'[]', b'\xff\xfe')
        ],
        (changed(format=99), 'has format 99, this version .* reads 1'),
        (truncated, 'train-00001.*truncated or replaced'),
        (
            lambda folder: (folder / 'train-00001-of-00003.array_record').unlink(),
            'train-00001.*is missing, but the manifest',
        ),
        (zeros, r'train-00000-of-00003\.array_record is damaged: its sha256'),
        (more_rows, r'have \d+ rows, the manifest says \d+'),
    ],
)
def test_damage_is_found_at_the_start(folder, harm, message):
    harm(folder)
    with pytest.raises(ValueError, match=message):
        pipeline.Rows(folder, 'train')


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def test_a_damaged_record_names_the_shard(folder):
    flip(folder / 'train-00001-of-00003.array_record', 150)
    data = pipeline.Rows(folder, 'train')
    errors = []
    for i in range(len(data)):
        try:
            data[i]
        except ValueError as error:
            errors.append(str(error))
    assert 0 < len(errors) < len(data) / 3
    for error in errors:
        assert 'train-00001-of-00003.array_record is damaged' in error
        assert 'jepa-text prepare' in error
    with pytest.raises(ValueError, match='train-00001.*is damaged'):
        take(len(data), data)


@contextlib.contextmanager
def two_more_files():
    """Only two more files may be open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest, taken = max(map(int, os.listdir('/proc/self/fd'))), [0]
    while taken[-1] < highest:  # the limit is one of numbers, lower ones are free
        taken.append(os.open(os.devnull, os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 3, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for number in taken[1:]:
            os.close(number)


@pytest.mark.skipif(not os.path.exists('/proc/self/fd'), reason='no /proc here')
def test_there_may_be_more_shards_than_open_files(whole):
    with two_more_files():
        data = pipeline.Rows(whole, 'train')
        assert len([data[index] for index in range(len(data))]) == len(data)
    data = pipeline.Rows(whole, 'train')
    with two_more_files(), pytest.raises(OSError, match=r'All 3 shards .*ulimit -Hn'):
        [data[index] for index in range(len(data))]


def test_verify_reads_every_byte(folder):
    manifest = pipeline.verify(folder)
    assert manifest == row_folder.read_manifest(folder)
    for name, entry in row_folder.files(manifest):
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert entry['sha256'] == digest
    for name, at in (('heldout-00000-of-00003.array_record', 40), ('tokenizer.json', 99)):
        flip(folder / name, at)
        with pytest.raises(ValueError, match=f'{name} is damaged: its sha256'):
            pipeline.verify(folder)
        flip(folder / name, at)
    pipeline.verify(folder)


def test_errors_in_corrupt_end_the_stream():
    def fails(row, rng, step):
        raise ZeroDivisionError('no such mask')

    made = stream.batches(of(Numbered(9)), fails, batch_size=3, seed=0)
    with pytest.raises(ZeroDivisionError, match='no such mask'):
        next(made)
    with pytest.raises(StopIteration):
        next(made)


def noted(**given):
    """Returns (batches of 3 rows, the steps of the rows that were read)."""
    read = []

    def corrupt(row, rng, step):
        read.append(step)
        return draw(row, rng, step)

    return stream.batches(of(Numbered(99)), corrupt, batch_size=3, seed=0, **given), read


def test_prefetching_is_bounded():
    made, read = noted(start=5)
    for _ in range(3):
        next(made)
    count = 0
    while count < len(read):  # until no more are read
        count = len(read)
        time.sleep(0.1)
    made.close()
    assert min(read) == 5
    assert max(read) < 5 + stream.GROUP * (stream.PREFETCH + 2)


def test_no_step_after_the_last_one_is_read():
    made, read = noted(start=1, stop=6)
    assert len(list(made)) == 5 and {*read} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    'index, count, message',
    [
        (0, 4, 'batch_size 6 cannot be divided evenly among 4'),
        (2, 2, 'process_index=2 must be an integer at least 0 and below 2'),
    ],
)
def test_a_batch_that_processes_cannot_share_raises(index, count, message):
    given = dict(batch_size=6, seed=0, process_index=index, process_count=count)
    # Raised by the call, not by the first batch.
    with pytest.raises(ValueError, match=message):
        stream.batches(of(Numbered(9)), draw, **given)


def one_pass(count, max_rows=99, **part):
    return list(heldout.one_pass(Numbered(count), draw, 4, max_rows, **part))


def test_one_ordered_pass_with_full_shapes():
    batches = one_pass(10)
    assert_same(batches, one_pass(10))
    assert [batch['row'].shape for batch in batches] == [(4, 2)] * 3
    order = np.concatenate([batch['row'][:, 1] for batch in batches])
    assert_array_equal(order, [*range(10), 0, 0])
    assert (batches[-1]['segment_ids'][2:] == 0).all()
    assert (batches[-1]['segment_ids'][:2] == 1).all()
    expected = np.random.default_rng([0, 9]).random(2)
    assert_array_equal(batches[-1]['draw'][1], expected)
    assert_same(one_pass(10, max_rows=4), batches[:1])


@pytest.mark.parametrize('count', [1, 5, 8, 9])
def test_processes_share_the_held_out_batches(count):
    parts = [one_pass(count, process_index=index, process_count=2) for index in range(2)]
    assert_same(joined(parts), one_pass(count))
