"""Tests for samples on disk, chosen by the hashes of texts."""

import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from jepa_text.data.corpora import sampling


def numbered(count, size=40):
    return [f'{n:06} {"é" * (size // 2)}' for n in range(count)]


def drawn(*given):
    """Returns (the Sample, its texts)."""
    sample = sampling.draw(*given)
    return sample, list(sample)


def test_a_corpus_that_fits_is_complete():
    texts = ['a', '', ' \n', 'é😀', 'a', '\n\nb\x00']
    sample, found = drawn(texts, 1000)
    assert sorted(found) == sorted(['a', 'a', 'é😀', '\n\nb\x00'])
    assert (sample.documents, sample.share, sample.is_all) == (4, 1, True)
    assert sample.bytes == sum(len(t.encode()) for t in found) == sample.read


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=['Cs']), max_size=30), max_size=60),
    st.integers(1, 600),
    st.randoms(use_true_random=False),
)
def test_samples_do_not_depend_on_order_and_fit(texts, size, shuffler):
    one, found = drawn(texts, size)
    assert one.bytes == sum(len(t.encode()) for t in found) <= size
    assert one.documents == len(found)
    other = texts.copy()
    shuffler.shuffle(other)
    two, again = drawn(other, size)
    assert sorted(found) == sorted(again)
    assert one == two


def test_samples_nearly_fill_the_size():
    texts = numbered(8000)
    for size in (20_000, 77_000, 200_000):
        sample, found = drawn(texts, size)
        assert 0.95 * size < sample.bytes <= size
        assert abs(sample.documents / 8000 - sample.share) < 0.03
        assert set(found) <= set(texts)


def test_long_documents_are_truncated():
    long = 'é' * 5000
    sample, found = drawn([long, *numbered(100)], 1600)
    assert all(len(text.encode()) <= 100 for text in found)
    sample, found = drawn([long], 1600)
    assert found == ['é' * 50]
    # A partial character is dropped.
    assert drawn([long], 16 * 7)[1] == ['é' * 3]


def test_reading_stops_at_the_limit():
    read = []
    texts = (read.append(text) or text for text in numbered(1000, 40))
    sample, found = drawn(texts, 10_000, 500)
    assert not sample.is_all and len(read) < 20
    assert 500 <= sample.read < 600 and sample.documents == len(found)
    assert drawn(numbered(3), 10_000, 500)[0].is_all


def test_memory_does_not_grow_with_the_corpus():
    def peak(count):
        texts = (f'{n} ' + 'x' * 2000 for n in range(count))
        tracemalloc.start()
        drawn_now = sampling.draw(texts, 10**6)
        _, top = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert drawn_now.documents > 300
        return top

    assert peak(8000) < peak(1000) + 3e5  # 16 MB and 2 MB of text
