"""Tests that tokenizing long documents in pieces gives the same ids."""

import functools
import json
import re

import children
import numpy as np
import pytest
import tokenizers as library
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from tokenizers import models, normalizers, pre_tokenizers, trainers

from jepa_text.data import tokenizers, tokenizing

LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r'| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+'
)
SPECIALS = ['<pad>', '<s>', '</s>', '<mask>']
TEXTS = [
    "The whale, the sea; 1851's end. don't! 城市在海边。",
    'a b c the  sea\n\n\twhales é',
] * 9


BYTES, WORDS = pre_tokenizers.ByteLevel, pre_tokenizers.WhitespaceSplit()
NOT_SPLIT = pre_tokenizers.Metaspace(split=False)
REGEX = pre_tokenizers.Split(library.Regex(LLAMA), 'isolated')
BPE = models.BPE, trainers.BpeTrainer
WORDPIECE = models.WordPiece, trainers.WordPieceTrainer
UNIGRAM = models.Unigram, trainers.UnigramTrainer
XLM = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(' {2,}', ' ')])
BERT = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
LLAMA3 = pre_tokenizers.Sequence([REGEX, BYTES(add_prefix_space=False, use_regex=False)])
# The stages of known families: (normalizer, pre-tokenizer, (model, trainer)).
FAMILIES = {
    'gpt2': (None, BYTES(add_prefix_space=False), BPE),
    'roberta': (None, BYTES(add_prefix_space=True), BPE),
    'modernbert': (normalizers.NFC(), BYTES(add_prefix_space=False), BPE),
    'llama3': (None, LLAMA3, BPE),
    'bert': (*BERT, WORDPIECE),
    'xlm_roberta': (XLM, pre_tokenizers.Metaspace(), UNIGRAM),
    'first_metaspace': (None, pre_tokenizers.Metaspace(prepend_scheme='first'), BPE),
    'words': (normalizers.Lowercase(), WORDS, WORDPIECE),
    # These complicate cuts: each piece would begin, or end, like a text.
    'prepended': (normalizers.Prepend('▁'), WORDS, BPE),
    'unsplit': (normalizers.Replace(' ', '▁'), NOT_SPLIT, UNIGRAM),
}


def made(family):
    """Returns a tiny tokenizer of a family; for modernbert with runs of spaces as
    tokens."""
    normalizer, pre_tokenizer, (model, trainer) = FAMILIES[family]
    backend = library.Tokenizer(
        model() if model is models.Unigram else model(unk_token='<unk>')
    )
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizer
    given = dict(vocab_size=350, special_tokens=['<unk>', *SPECIALS], show_progress=False)
    if model is not models.WordPiece:
        is_bytes = 'Byte' in str(pre_tokenizer)
        given['initial_alphabet'] = BYTES.alphabet() if is_bytes else []
    if model is models.Unigram:
        given['unk_token'] = '<unk>'
    backend.train_from_iterator(TEXTS, trainer(**given))
    if family == 'modernbert':
        backend.add_tokens([library.AddedToken(' ' * n) for n in (2, 3, 4)])
    return tokenizers.parse(json.loads(backend.to_str()), family)


@functools.cache
def tokenizer_of(family):
    bundled = family == 'bundled'
    return tokenizers.load(tokenizers.BUNDLED) if bundled else made(family)


@pytest.fixture
def small(monkeypatch):
    for name, value in (('PIECE', 12), ('AROUND', 24), ('LONGEST', 400)):
        monkeypatch.setattr(tokenizing, name, value)


PARTS = "the|whale|don't|1851|3.14|é|e\u0301|城市|海。|😀|'|\"|a.b| |  |\n|\n\n|\t|\r\n"
PARTS = [*PARTS.split('|'), '\u3000', ',', '!?', '—', '  the', 'Σ']
TEXT = st.lists(st.sampled_from(PARTS) | st.text(max_size=3), min_size=20, max_size=90)


@settings(max_examples=60, deadline=None)
@given(family=st.sampled_from(['bundled', *FAMILIES]), words=TEXT, joined=st.booleans())
def check_pieces(family, words, joined):
    text = (' ' if joined else '').join(words)
    tokenizer = tokenizer_of(family)
    pieces = list(tokenizing.pieces(text, tokenizer))
    assert ''.join(pieces) == text
    whole = tokenizer.encode(text)
    of_pieces = np.concatenate([*tokenizer.encode_many(pieces), np.zeros(0, int)])
    assert_array_equal(of_pieces, whole)


@pytest.mark.slow
def test_ids_of_pieces_are_the_ids_of_the_text(small):
    check_pieces()


@pytest.mark.parametrize('family', ['bundled', *FAMILIES])
def test_where_text_is_cut(family, small):
    text = 'the whale and the sea ' * 40
    if family in ('prepended', 'unsplit'):
        with pytest.raises(ValueError, match='cannot be cut'):
            list(tokenizing.pieces(text, tokenizer_of(family)))
        return
    pieces = list(tokenizing.pieces(text, tokenizer_of(family)))
    assert max(map(len, pieces)) <= 12 + 24 + 6 and len(pieces) > 40


def test_no_cut_is_before_spaces_that_are_stripped(small, monkeypatch):
    """At the beginning of a text, but not in the middle."""
    family = normalizers.Strip(), BYTES(add_prefix_space=False), BPE
    monkeypatch.setitem(FAMILIES, 'stripped', family)
    tokenizer, text = made('stripped'), f'the whale and{" " * 40}the sea. ' * 9
    pieces = list(tokenizing.pieces(text, tokenizer))
    assert len(pieces) > 1
    of_pieces = np.concatenate(tokenizer.encode_many(pieces))
    assert_array_equal(of_pieces, tokenizer.encode(text))


def test_long_text_that_cannot_be_cut_raises(small):
    tokenizer = tokenizer_of('bundled')
    for text in ('x' * 1000, 'a b ' * 5 + 'x' * 1000):
        with pytest.raises(ValueError, match='begins with.*Split the document'):
            list(tokenizing.pieces(text, tokenizer))
    assert list(tokenizing.pieces('x' * 400, tokenizer)) == ['x' * 400]


def test_long_documents_have_the_same_ids(small, monkeypatch):
    tokenizer = tokenizer_of('bundled')
    texts = ['the sea. ' * 50, 'a whale', 'of 1851, ' * 80, 'x']
    documents = [{'text': text} for text in texts]
    monkeypatch.setattr(tokenizing, 'BATCH', 100)
    found = list(tokenizing.encoded(iter(documents), tokenizer))
    assert [document for document, _ in found] == documents
    for text, (_, ids) in zip(texts, found):
        assert_array_equal(ids, tokenizer.encode(text))


PEAK = """
import resource, sys
from jepa_text.data import tokenizers
from jepa_text.data import prepare
tokenizer = tokenizers.load(tokenizers.BUNDLED)
prepare.prepare(
    dict(name='text', path=sys.argv[1], heldout_every=2), tokenizer, sys.argv[2],
    row_length=512,
)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.slow
def test_one_long_line_takes_little_more_memory_than_its_text(tmp_path):
    peaks = []
    for megabytes in (2, 12):
        line = 'The whale and the sea, 1851; ' * (megabytes * 10**6 // 29)
        short = '\n\n'.join(f'a short document {n}' for n in range(50))
        path = tmp_path / f'{megabytes}.txt'
        path.write_text(f'{short}\n\n{line}')
        done = children.run('-c', PEAK, path, tmp_path / f'r{megabytes}')
        peaks.append(float(re.findall(r'[\d.]+', done.stdout)[-1]))
    # Encoded at once, it took 170 bytes per character.
    assert peaks[1] - peaks[0] < 20 * 10
