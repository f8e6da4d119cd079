import collections
import hashlib
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from jepa_text.data.cleaning import (
    components,
    duplicates,
    exact,
    fingerprints,
    minhash,
    near,
    settings,
)
from jepa_text.data.corpora import invalid_text

BOTH = settings.Config(exact_duplicates=True, near_duplicates=0.8, permutations=64)
COPIES = settings.Config(exact_duplicates=True)
EXACT, NEAR = duplicates.REASONS.values()


def decide(folder, parts, config=BOTH, **more):
    """Returns ([(number, text)] kept of each part, `counted`) for parts of texts."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for number, texts in enumerate(parts):
        with fingerprints.Writer(folder, number, config) as writer:
            for document, text in enumerate(texts):
                writer.add(document, text)
    counts = counted(folder, len(parts), config, **more)
    out = [duplicates.left_out(folder, number) for number in range(len(parts))]
    kept_parts = [
        [(at, text) for at, text in enumerate(texts) if at not in out[number]]
        for number, texts in enumerate(parts)
    ]
    return kept_parts, counts


def counted(folder, parts, config, **more):
    """Decides for so many parts; returns {reason: number of dropped documents}."""
    duplicates.decide(folder, range(parts), config, **more)
    out = (duplicates.left_out(folder, part) for part in range(parts))
    return collections.Counter(reason for one in out for reason in one.values())


def texts_of(kept_parts):
    return sorted(text for part in kept_parts for _, text in part)


def family(name, members, words=300, changed=1):
    """Returns texts that differ from the first in `changed` words."""
    found = [f'{name}{n}' for n in range(words)]
    made = []
    for member in range(members):
        mine = list(found)
        for place in range(changed if member else 0):
            mine[(7 * member + 11 * place) % words] = f'{name}new{member}x{place}'
        made.append(' '.join(mine))
    return made


def test_exact_and_near_duplicates_are_dropped(tmp_path):
    near_copies, other = family('a', 3), family('b', 1)
    copies = ['Some words that stand here twice.', 'some words that stand here twice']
    kept_parts, counts = decide(
        tmp_path, [[*near_copies, copies[0]], [copies[0], *other, copies[1]]]
    )
    assert counts == {EXACT: 1, NEAR: 3}
    kept = texts_of(kept_parts)
    assert len(kept) == 3
    assert len(set(near_copies) & set(kept)) == len(set(copies) & set(kept)) == 1
    assert other[0] in kept


def test_the_first_exact_duplicate_is_kept(tmp_path):
    parts = [['x', 'twice', 'twice'], ['twice', 'y'], [], ['y', 'Twice']]
    kept_parts, counts = decide(tmp_path, parts, COPIES)
    assert kept_parts == [[(0, 'x'), (1, 'twice')], [(1, 'y')], [], [(1, 'Twice')]]
    assert counts == {EXACT: 3}


def test_the_near_duplicate_with_the_lowest_hash_is_kept(tmp_path):
    texts = family('a', 6)
    kept_parts, _ = decide(tmp_path, [texts])
    documents = fingerprints.Part(tmp_path, 0).documents
    lowest = int(np.lexsort((documents['low'], documents['high']))[0])
    assert kept_parts == [[(lowest, texts[lowest])]]


def test_texts_that_share_only_a_part_are_kept(tmp_path):
    kept_parts, counts = decide(tmp_path, [family('a', 5, changed=25)])
    assert counts[NEAR] == 0 and len(kept_parts[0]) == 5


def test_texts_without_words_have_no_near_duplicates(tmp_path):
    kept_parts, _ = decide(tmp_path, [['', '...', '!', '', '--']])
    assert texts_of(kept_parts) == ['', '!', '--', '...']


CORPUS = [
    *family('a', 6),
    *family('b', 4),
    *family('c', 3, changed=20),
    *family('d', 3)[:1] * 4,
    *(f'single {n} of its kind' for n in range(6)),
    '',
    '...',
]


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    """What is kept of the corpus as one part, and what is dropped."""
    return decide(tmp_path_factory.mktemp('whole'), [CORPUS])


@hypothesis_settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_kept_texts_do_not_depend_on_order_or_batches(tmp_path_factory, whole, data):
    folder = tmp_path_factory.mktemp('fingerprints')
    order = data.draw(st.permutations(CORPUS))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=4)))
    parts = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)])]
    memory = data.draw(st.sampled_from([2_000, 20_000, 2**28]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprints, 'BUFFERED', data.draw(st.integers(1, 5)))
        patch.setattr(near, 'OPEN_FILES', data.draw(st.integers(1, 3)))
        kept_parts, counts = decide(folder, parts, memory=memory)
    assert texts_of(kept_parts) == texts_of(whole[0])
    assert counts == whole[1]
    assert counts[EXACT] == 3 and counts[NEAR] >= 5 + 3


def test_parts_can_be_written_in_any_order_and_decided_again(tmp_path):
    parts = [CORPUS[:8], CORPUS[8:15], CORPUS[15:]]
    first, second = tmp_path / 'first', tmp_path / 'second'
    decide(first, parts)
    second.mkdir()
    for number in (2, 0, 1):
        with fingerprints.Writer(second, number, BOTH) as writer:
            for document, text in enumerate(parts[number]):
                writer.add(document, text)
    for _ in range(2):
        duplicates.decide(second, [2, 1, 0], BOTH)
        files = sorted(path.name for path in first.iterdir())
        assert files == sorted(path.name for path in second.iterdir())
        for name in files:
            assert (first / name).read_bytes() == (second / name).read_bytes()


def of_similarity(similarity, rng, words=400):
    """Returns two texts whose sets of words have this Jaccard similarity."""
    names = [f'w{n}' for n in rng.integers(0, 2**40, words)]
    shared = round(similarity * words)
    half = shared + (words - shared) // 2
    return ' '.join(names[:half]), ' '.join([*names[:shared], *names[half:]])


@pytest.mark.parametrize('similarity', [0.5, 0.75, 0.8, 0.9])
def test_near_duplicates_are_found_with_the_expected_probability(tmp_path, similarity):
    config = settings.Config(near_duplicates=0.8, ngram=1)
    rng, tries, count = np.random.default_rng(2), 150, config.permutations
    texts = [text for _ in range(tries) for text in of_similarity(similarity, rng)]
    _, counts = decide(tmp_path, [texts], config)
    # Found if the estimate reaches the threshold, and a band is equal: with k of the
    # permutations equal at random, by inclusion and exclusion over the bands.
    bands, rows = minhash.bands(0.8, count)
    expected = sum(
        math.comb(count, k)
        * similarity**k
        * (1 - similarity) ** (count - k)
        * sum(
            (-1) ** (i + 1)
            * math.comb(bands, i)
            * math.comb(count - i * rows, k - i * rows)
            / math.comb(count, k)
            for i in range(1, bands + 1)
            if i * rows <= k
        )
        for k in range(math.ceil(0.8 * count), count + 1)
    )
    deviation = math.sqrt(expected * (1 - expected) / tries)
    assert abs(counts[NEAR] / tries - expected) <= 4 * deviation + 0.005
    if similarity == 0.5:
        assert counts[NEAR] == 0
    if similarity == 0.9:
        assert counts[NEAR] / tries > 0.85


def synthetic(folder, part, count, rng, config):
    """Writes fingerprints of fictitious documents: many copies, one large group of near
    duplicates, and pairs."""
    documents = np.zeros(count, fingerprints.DOCUMENT)
    documents['number'] = np.arange(count)
    documents['high'] = rng.integers(0, 2**64, count, dtype=np.uint64)
    documents['high'][: count // 10] = 7
    rows = rng.integers(0, 2**32, (count, config.permutations), dtype=np.uint32)
    group = slice(count // 2, count // 2 + count // 5)
    rows[group] = np.random.default_rng(5).integers(0, 2**32, config.permutations)
    rows[group, 0] = rng.integers(0, 2**32, count // 5)
    documents.tofile(folder / f'{part:06d}.documents')
    rows.tofile(folder / f'{part:06d}.signatures')


def test_memory_is_bounded(tmp_path):
    config = settings.Config(near_duplicates=0.8, exact_duplicates=True, permutations=16)
    memory, parts = 200_000, 4

    def peak(count, attempt):
        folder = tmp_path / f'{count}-{attempt}'
        folder.mkdir()
        rng = np.random.default_rng(0)
        for part in range(parts):
            synthetic(folder, part, count, rng, config)
        tracemalloc.start()
        duplicates.decide(folder, range(parts), config, memory=memory)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        counts = counted(folder, parts, config)
        assert counts[EXACT] == parts * count // 10 - 1
        assert counts[NEAR] == parts * count // 5 - 1
        return found

    # Modules that are imported, and threads that other tests left, only add.
    peaks = [min(peak(count, attempt) for attempt in range(2)) for count in (1000, 3000)]
    # Signatures alone are four times that: 3,000 * 4 * 16 * 4 bytes.
    assert max(peaks) < memory, peaks


def test_large_groups_are_not_compared_pairwise(tmp_path, monkeypatch):
    config = settings.Config(near_duplicates=0.8, permutations=16)
    compared = []
    real = minhash.estimate
    monkeypatch.setattr(
        minhash, 'estimate', lambda a, b: compared.append(len(a)) or real(a, b)
    )
    synthetic(tmp_path, 0, 5_000, np.random.default_rng(0), config)
    assert counted(tmp_path, 1, config)[NEAR] == 999
    assert sum(compared) < 2 * 1000


def test_few_members_of_a_band_are_compared(tmp_path, monkeypatch):
    # They are never united, so each is compared with the COMPARED lowest.
    config = settings.Config(near_duplicates=0.8, permutations=16)
    _, rows = minhash.bands(0.8, 16)
    signatures = np.random.default_rng(0).integers(0, 2**32, (500, 16), dtype=np.uint32)
    signatures[:, :rows] = 3
    documents = np.zeros(500, fingerprints.DOCUMENT)
    documents['number'] = documents['high'] = np.arange(500)
    documents.tofile(tmp_path / '000000.documents')
    signatures.tofile(tmp_path / '000000.signatures')
    compared = []
    monkeypatch.setattr(near, 'COMPARED', 8)
    monkeypatch.setattr(
        minhash, 'estimate', lambda a, b: compared.append(len(a)) or np.zeros(len(a))
    )
    assert counted(tmp_path, 1, config)[NEAR] == 0
    assert sum(compared) == sum(min(8, n) for n in range(500))


@hypothesis_settings(max_examples=50, deadline=None)
@given(
    edges=st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=30),
    batch=st.integers(1, 7),
)
def test_components_match_a_graph_search(edges, batch):
    parents = np.zeros(20, np.int64)
    components.reset(parents)
    for start in range(0, len(edges), batch):
        some = np.array(edges[start : start + batch])
        components.unite(parents, some[:, 0], some[:, 1])
    names = list(range(20))
    for _ in names:
        for a, b in edges:
            names[a] = names[b] = min(names[a], names[b])
    assert components.roots(parents, np.arange(20)).tolist() == names


def test_invalid_input_raises(tmp_path):
    with pytest.raises(
        ValueError, match='no fingerprints of 1 parts, the first of them 3'
    ):
        decide(tmp_path, [['a'], ['b']])
        duplicates.decide(tmp_path, [0, 1, 3], BOTH)
    with pytest.raises(ValueError, match='of 128 permutations need 128. Delete'):
        duplicates.decide(tmp_path, [0], settings.Config(near_duplicates=0.8))
    with pytest.raises(FileNotFoundError, match='decide has not run'):
        duplicates.left_out(tmp_path, 5)
    with (
        pytest.raises(ValueError, match='Document 4 follows document 4'),
        fingerprints.Writer(tmp_path, 2, BOTH) as writer,
    ):
        writer.add(4, 'a')
        writer.add(4, 'b')
    assert not fingerprints.is_complete(tmp_path, 2)
    assert not list(tmp_path.glob('.*'))
    (tmp_path / '000000.documents').write_bytes(b'cut')
    with pytest.raises(ValueError, match='no multiple of 24: it is damaged'):
        duplicates.decide(tmp_path, [0], COPIES)


def test_both_halves_of_hashes_are_compared(tmp_path):
    documents = np.zeros(40, fingerprints.DOCUMENT)
    documents['number'] = np.arange(40)
    documents['high'][20:] = documents['low'][:20] = np.arange(20)
    documents.tofile(tmp_path / '000000.documents')
    duplicates.decide(tmp_path, [0], COPIES)
    assert duplicates.left_out(tmp_path, 0) == {20: 'exact duplicate'}


def test_the_hash_covers_the_whole_text(tmp_path, monkeypatch):
    text = 'éx' * 10 + 'abc'
    monkeypatch.setattr(invalid_text, 'CHUNK', 4)
    with fingerprints.Writer(tmp_path, 0, COPIES) as writer:
        writer.add(3, text)
    (found,) = fingerprints.Part(tmp_path, 0).documents
    whole = hashlib.blake2b(text.encode(), digest_size=16).digest()
    halves = int.from_bytes(whole[:8], 'big'), int.from_bytes(whole[8:], 'big')
    assert tuple(found) == (3, *halves)


def test_ranks_are_ordered_by_hash(tmp_path):
    texts = [f'text {n % 37}' for n in range(60)]
    decide(tmp_path, [texts[:25], texts[25:]], COPIES)
    parts = [fingerprints.Part(tmp_path, part) for part in (0, 1)]
    ids, places = np.zeros(60, np.int64), np.zeros(60, np.int64)
    assert exact.rank(parts, [0, 25], ids, places, tmp_path, 1000) == 37
    hashes = np.concatenate([part.documents for part in parts])
    order = sorted(range(37), key=lambda at: tuple(hashes[at])[1:])
    assert places[:37].tolist() == order
    assert ids[order].tolist() == list(range(37))
    assert (ids[37:] == exact.COPY).all()
