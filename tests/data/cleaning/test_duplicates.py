"""Exact duplicates: the first in the corpus is kept, in bounded memory."""

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from jepa_text.data.cleaning import duplicates


def decide(folder, parts, **more):
    """Returns [(number, text)] kept of each part, for parts of texts."""
    for number, texts in enumerate(parts):
        duplicates.write(folder, number, enumerate(texts))
    duplicates.decide(folder, len(parts), **more)
    out = [duplicates.copies(folder, number) for number in range(len(parts))]
    return [
        [(at, text) for at, text in enumerate(texts) if at not in copies]
        for texts, copies in zip(parts, out, strict=True)
    ]


@hypothesis_settings(max_examples=30, deadline=None)
@given(
    parts=st.lists(
        st.lists(st.sampled_from([*map(str, range(20))])), min_size=1, max_size=5
    ),
    memory=st.sampled_from([0, 500, 2**28]),
)
def test_groups_match_a_plain_search(tmp_path_factory, parts, memory):
    seen, expected = set(), []
    for texts in parts:
        new = [(at, x) for at, x in enumerate(texts) if x not in {*seen, *texts[:at]}]
        seen |= {*texts}
        expected.append(new)
    assert decide(tmp_path_factory.mktemp('hashes'), parts, memory=memory) == expected


def test_running_again_writes_the_same_files(tmp_path):
    decide(tmp_path, [['a', 'b'], ['b', 'a']])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    duplicates.decide(tmp_path, 2)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_memory_is_bounded(tmp_path, rng):
    memory, count = 200_000, 20_000
    for part in range(4):
        documents = np.zeros(count, duplicates.DOCUMENT)
        documents['number'] = np.arange(count)
        documents['high'] = rng.integers(0, 2**64, count, dtype=np.uint64)
        documents['high'][:10] = 7
        documents.tofile(tmp_path / f'{part:06d}.documents')
    tracemalloc.start()
    duplicates.decide(tmp_path, 4, memory=memory)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The documents alone have 24 bytes each.
    assert peak < 4 * memory < 24 * 4 * count, peak
    copies = [len(duplicates.copies(tmp_path, part)) for part in range(4)]
    assert copies == [9, 10, 10, 10]
