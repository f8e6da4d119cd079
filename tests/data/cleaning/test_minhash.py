import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from jepa_text.data.cleaning import minhash, words

COUNT = 128


def signature(hashes, count=COUNT):
    return minhash.signature(np.asarray(hashes, np.uint32), *minhash.permutations(count))


def pair(similarity, rng, size=400):
    """Returns two sets of hashes with this Jaccard similarity."""
    shared = round(similarity * size)
    hashes = rng.integers(0, 2**32, size, dtype=np.uint32)
    half = shared + (size - shared) // 2
    return hashes[:half], np.concatenate([hashes[:shared], hashes[half:]])


def test_factors_are_odd_and_distinct():
    factors, summands = minhash.permutations(COUNT)
    assert (factors % 2 == 1).all()
    assert len(set(factors.tolist())) == len(set(summands.tolist())) == COUNT


@pytest.mark.parametrize('similarity', [0.0, 0.3, 0.5, 0.8, 0.9, 1.0])
def test_the_estimate_is_the_jaccard_similarity(similarity):
    rng = np.random.default_rng(0)
    tries = 100
    found = [
        minhash.estimate(*map(signature, pair(similarity, rng))) for _ in range(tries)
    ]
    # Each estimate is a mean of COUNT Bernoulli variables.
    deviation = math.sqrt(similarity * (1 - similarity) / COUNT)
    assert abs(np.mean(found) - similarity) <= 4 * deviation / math.sqrt(tries)
    if deviation:
        assert np.std(found) == pytest.approx(deviation, rel=0.35)


@hypothesis_settings(max_examples=50, deadline=None)
@given(
    hashes=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=30),
    together=st.integers(1, 8),
)
def test_a_signature_depends_only_on_the_set(hashes, together):
    expected = signature(hashes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minhash, 'TOGETHER', together)
        np.testing.assert_array_equal(signature([*hashes[::-1], *hashes]), expected)
    lone = [signature([one]) for one in hashes]
    np.testing.assert_array_equal(np.min(lone, axis=0), expected)


def test_texts_are_compared_by_their_shingles():
    rng = np.random.default_rng(0)
    found = rng.choice([f'w{n}' for n in range(100)], 300)
    text, other = ' '.join(found), ' '.join([*found[:240], *found[::-1][:60]])
    sets = [
        {tuple(one[at : at + 5]) for at in range(len(one) - 4)}
        for one in (text.split(), other.split())
    ]
    jaccard = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
    first, second = (minhash.of_text(one, 5, 1024) for one in (text, other))
    assert minhash.estimate(first, second) == pytest.approx(jaccard, abs=0.05)


def test_short_texts():
    of = lambda text: minhash.of_text(text, 5, 16).tolist()  # noqa: E731
    assert of('') == of(' ... ') == [minhash.EMPTY] * 16
    assert of('Two words.') == of('two WORDS') != of('words two')
    assert of('a b c d') != of('a b c d e') != [minhash.EMPTY] * 16


@pytest.mark.parametrize('text', ['a b c', 'a b c d e f g h i j', ''])
def test_signatures_do_not_depend_on_blocks(text, monkeypatch):
    text = text.replace(' ', ' . . . ')
    expected = minhash.of_text(text, 5, 16)
    monkeypatch.setattr(words, 'BLOCK', 8)
    np.testing.assert_array_equal(minhash.of_text(text, 5, 16), expected)


WORDS = ['a', 'b', 'c', 'dd', '日', '. ', '-', '\n', 'é']


@hypothesis_settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(
        st.lists(st.sampled_from(WORDS), max_size=14).map(' '.join), max_size=12
    ),
    ngram=st.integers(1, 6),
    short=st.integers(0, 30),
    together=st.integers(1, 12),
)
def test_batched_signatures_match_single_ones(texts, ngram, short, together):
    alone = [minhash.of_text(text, ngram, 8) for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minhash, 'SHORT', short)
        patch.setattr(minhash, 'TOGETHER', together)
        found = minhash.of_texts(texts, ngram, 8)
    assert found.shape == (len(texts), 8)
    np.testing.assert_array_equal(found, np.array(alone, np.uint32).reshape(-1, 8))


def meet(similarity, bands, rows):
    return 1 - (1 - similarity**rows) ** bands


@pytest.mark.parametrize('threshold', [0.5, 0.7, 0.8, 0.9])
def test_bands_minimize_the_error(threshold):
    at = np.linspace(0, 1, 4001)

    def error(bands, rows):
        found = meet(at, bands, rows)
        return np.mean(np.where(at < threshold, 0.1 * found, 0.9 * (1 - found)))

    bands, rows = minhash.bands(threshold, 64)
    chosen = error(bands, rows)
    others = ((b, r) for b in range(1, 65) for r in range(1, 64 // b + 1))
    assert chosen <= min(error(*one) for one in others) + 1e-4


@pytest.mark.parametrize('similarity', [0.5, 0.7, 0.8, 0.9])
def test_candidates_have_the_expected_probability(similarity):
    rng = np.random.default_rng(1)
    bands, rows = minhash.bands(0.8, COUNT)
    tries = 300
    pairs = [list(map(signature, pair(similarity, rng, 200))) for _ in range(tries)]
    first, second = (
        minhash.band_keys(np.stack(side), bands, rows) for side in zip(*pairs)
    )
    found = np.mean((first == second).any(axis=0))
    expected = meet(similarity, bands, rows)
    # Similarities are exact and sets small: the Bernoulli deviation, plus a margin.
    deviation = math.sqrt(expected * (1 - expected) / tries)
    assert abs(found - expected) <= 4 * deviation + 0.01


def test_band_keys_are_equal_if_their_rows_are():
    rng = np.random.default_rng(0)
    signatures = rng.integers(0, 2, (200, 12), dtype=np.uint32)
    keys = minhash.band_keys(signatures, 3, 4)
    for band in range(3):
        rows = [tuple(one[4 * band : 4 * band + 4]) for one in signatures.tolist()]
        assert len(set(zip(keys[band].tolist(), rows))) == len(set(rows)) == 16
        assert len(set(keys[band].tolist())) == 16


@pytest.mark.peer
def test_signatures_match_datasketch():
    datasketch = pytest.importorskip('datasketch')
    hashfunc = pytest.importorskip('datasketch.hashfunc')
    rng = np.random.default_rng(0)
    sizes = (1, 40, 5000)
    items = [[b'%d' % n for n in rng.integers(0, 10**6, size)] for size in sizes]
    theirs = [datasketch.MinHash(COUNT, hashfunc=hashfunc.sha1_hash32) for _ in items]
    ours = []
    for sketch, some in zip(theirs, items):
        sketch.update_batch(some)
        hashes = np.array([hashfunc.sha1_hash32(one) for one in some], np.uint32)
        ours.append(minhash.signature(hashes, *sketch.permutations))
        np.testing.assert_array_equal(ours[-1], sketch.hashvalues)
        # Also with our factors and summands.
        mine = datasketch.MinHash(
            COUNT, permutations=minhash.permutations(COUNT), scheme='affine32'
        )
        mine.update_batch(some)
        np.testing.assert_array_equal(signature(hashes), mine.hashvalues)
    assert minhash.estimate(ours[1], ours[2]) == theirs[1].jaccard(theirs[2])


@pytest.mark.peer
@pytest.mark.parametrize('count', [64, 128])
@pytest.mark.parametrize('threshold', [0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95])
def test_bands_match_datasketch(threshold, count):
    datasketch = pytest.importorskip('datasketch')
    theirs = datasketch.MinHashLSH(
        threshold, count, weights=(minhash.FALSE_POSITIVE, minhash.FALSE_NEGATIVE)
    )
    assert minhash.bands(threshold, count) == (theirs.b, theirs.r)
