import hashlib
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from jepa_text.data.cleaning import words

TEXTS = st.text('\0aB éÉßς٣-_.\n中本ก\U0001f600\ud800', max_size=60)


def folded(text):
    return np.concatenate([np.zeros(0, np.uint64), *words.folded(text)])


def equal(*texts):
    return len({folded(text).tobytes() for text in texts}) == 1


def test_case_punctuation_and_whitespace_are_ignored():
    assert equal("The cat's hat.", '  the CAT s\nhat', 'the_cat_s_hat!!')
    assert equal('Straße ΟΔΟΣ', 'straße οδος')
    assert not equal('the cat', 'thecat')
    assert not equal('a bc', 'ab c')
    assert not equal('the cat', 'cat the')


def test_words_match_a_regex():
    text = "It's 3.5 in naïve_Übung  (x) — no"
    found = re.findall(r'[^\W_]+', text)
    assert len(folded(text)) == len(found) == 9
    assert len(folded('')) == len(folded(' .,- ')) == 0


def test_marks_belong_to_their_word():
    assert len(folded('हिन्दी भाषा')) == 2
    assert len(folded('e\u0301te\u0301')) == 1


def test_each_character_is_a_word_in_scripts_without_spaces():
    assert len(folded('日本語のabc本')) == 6
    assert len(folded('ภาษาไทย')) == 7
    assert equal('日本語', '日 本 語', '「日本」語')


@hypothesis_settings(max_examples=80, deadline=None)
@given(TEXTS)
def test_spaced_words_match_str_split(text):
    found = words.spaced(text)
    expected = text.split()
    assert found.lengths.tolist() == list(map(len, expected))
    assert found.lettered.tolist() == [any(map(str.isalpha, one)) for one in expected]
    # Equal hashes for equal words, and for no others.
    pairs = set(zip(found.hashes.tolist(), expected))
    assert len(pairs) == len(set(expected))
    assert len(set(found.hashes.tolist())) == len(set(expected))
    again = words.spaced('x '.join(expected) + 'x').hashes
    assert not set(again.tolist()) & set(found.hashes.tolist())


@hypothesis_settings(max_examples=50, deadline=None)
@given(text=TEXTS, block=st.integers(8, 20), n=st.integers(1, 5))
def test_results_do_not_depend_on_blocks(text, block, n):
    text = re.sub(r'(\S{4})', r'\1 ', text)
    whole, together = folded(text), words.spaced(text)
    grams = words.ngrams(whole, n) if len(whole) >= n else whole[:0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, 'BLOCK', block)
        np.testing.assert_array_equal(folded(text), whole)
        apart = words.spaced(text)
        np.testing.assert_array_equal(apart.hashes, together.hashes)
        np.testing.assert_array_equal(apart.lengths, together.lengths)
        np.testing.assert_array_equal(apart.lettered, together.lettered)
        pieces = [
            words.ngrams(hashes, n)
            for hashes, new in words.overlapping(words.folded(text), n)
            if new and len(hashes) >= n
        ]
    np.testing.assert_array_equal(np.concatenate([whole[:0], *pieces]), grams)


def test_every_character_affects_the_hash():
    hashes = words.spaced('a a\0 \0 \0\0 \0a').hashes
    assert len(set(hashes.tolist())) == 5


def test_a_word_longer_than_a_block_is_cut():
    assert len(folded('x' * (words.BLOCK + 1) + ' y')) == 3


def test_ngrams_are_equal_if_their_words_are():
    rng = np.random.default_rng(0)
    hashes = folded(' '.join(rng.choice(list('abc'), 300)))
    for n in (1, 2, 7):
        grams = words.ngrams(hashes, n)
        runs = [tuple(hashes[at : at + n].tolist()) for at in range(300 - n + 1)]
        assert len(grams) == len(runs)
        pairs = set(zip(grams.tolist(), runs))
        assert len(pairs) == len(set(runs)) == len(set(grams.tolist()))


def test_hashes_of_different_words_differ_in_half_of_the_bits():
    hashes = folded(' '.join(f'w{n}' for n in range(20_000)))
    assert len(set(hashes.tolist())) == 20_000
    ones = np.unpackbits((hashes[1:] ^ hashes[:-1]).view(np.uint8)).mean()
    assert abs(ones - 0.5) < 0.002


def test_hashes_are_the_same_in_every_process():
    program = """
import hashlib
from jepa_text.data.cleaning import words
(found,) = words.folded('The cat sat, där 中.')
print(hashlib.sha256(found.tobytes()).hexdigest())
"""
    done = subprocess.run(
        [sys.executable, '-c', program], capture_output=True, text=True, check=True
    )
    mine = hashlib.sha256(folded('the cat sat där 中').tobytes()).hexdigest()
    assert done.stdout.strip() == mine
