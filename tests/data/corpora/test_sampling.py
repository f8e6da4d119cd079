"""Tests for samples on disk, chosen by the hashes of texts."""

import errno
import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jepa_text.data.corpora import sampling


def numbered(count, size=40):
    return [f'{n:06} {"é" * (size // 2)}' for n in range(count)]


def drawn(texts, folder, *args):
    """Returns (the Sample, its texts) and deletes the files."""
    sample = sampling.draw(texts, folder, *args)
    found = list(sample)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    return sample, found


def test_a_corpus_that_fits_is_complete(tmp_path):
    texts = ['a', '', ' \n', 'é😀', 'a', '\n\nb\x00']
    sample, found = drawn(texts, tmp_path / 's', 1000)
    assert sorted(found) == sorted(['a', 'a', 'é😀', '\n\nb\x00'])
    assert (sample.documents, sample.cut, sample.share, sample.is_all) == (4, 0, 1, True)
    assert sample.bytes == sum(len(t.encode()) for t in found) == sample.read['bytes']


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=['Cs']), max_size=30), max_size=60),
    st.integers(1, 600),
    st.randoms(use_true_random=False),
)
def test_samples_do_not_depend_on_order_and_fit(tmp_path_factory, texts, size, shuffler):
    folder = tmp_path_factory.mktemp('order')
    one, found = drawn(texts, folder / 's', size)
    assert one.bytes == sum(len(t.encode()) for t in found) <= size
    assert one.documents == len(found)
    other = texts.copy()
    shuffler.shuffle(other)
    two, again = drawn(other, folder / 's', size)
    assert sorted(found) == sorted(again)
    assert one == two


def test_samples_nearly_fill_the_size(tmp_path):
    texts = numbered(8000)
    for size in (20_000, 77_000, 200_000):
        sample, found = drawn(texts, tmp_path / 's', size)
        assert 0.8 * size < sample.bytes <= size
        assert abs(sample.documents / 8000 - sample.share) < 0.03
        assert set(found) <= set(texts)


def test_larger_samples_contain_smaller_ones(tmp_path):
    texts = numbered(2000)
    small, large = (set(drawn(texts, tmp_path / 's', n)[1]) for n in (9_000, 60_000))
    assert small < large


def test_long_documents_are_truncated(tmp_path):
    long = 'é' * 5000
    sample, found = drawn([long, *numbered(100)], tmp_path / 's', 1600)
    assert all(len(text.encode()) <= 100 for text in found)
    sample, found = drawn([long], tmp_path / 's', 1600)
    assert found == ['é' * 50] and sample.cut == 1
    # A partial character is dropped.
    assert drawn([long], tmp_path / 's', 16 * 7)[1] == ['é' * 3]


def test_reading_stops_at_the_limit(tmp_path):
    read = []
    texts = (read.append(text) or text for text in numbered(1000, 40))
    sample, found = drawn(texts, tmp_path / 's', 10_000, 500)
    assert not sample.is_all and len(read) < 20
    assert 500 <= sample.read['bytes'] < 600 and sample.documents == len(found)
    assert drawn(numbered(3), tmp_path / 's', 10_000, 500)[0].is_all


def test_memory_does_not_grow_with_the_corpus(tmp_path):
    def peak(count):
        texts = (f'{n} ' + 'x' * 2000 for n in range(count))
        tracemalloc.start()
        drawn_now = sampling.draw(texts, tmp_path / str(count), 10**6)
        _, top = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert drawn_now.documents > 300
        return top

    assert peak(8000) < peak(1000) + 3e5  # 16 MB and 2 MB of text


class Full:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def write(self, data):
        raise OSError(errno.ENOSPC, 'No space left on device')


def test_a_full_disk_raises_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling.pathlib.Path, 'open', lambda *_: Full())
    with pytest.raises(OSError, match=r'The disk of .* is full: .* could not be written'):
        sampling.draw(['a'], tmp_path / 's', 100)


def test_hashes_are_uniform():
    steps = [sampling._step(text.encode()) for text in numbered(4000)]
    rng = random.Random(0)
    for share in (0.5, 0.25, 0.1):
        expected = sum(rng.random() < share for _ in range(4000))
        first = sampling.math.ceil(-sampling.STEPS * sampling.math.log2(share))
        assert abs(sum(step >= first for step in steps) - expected) < 250
