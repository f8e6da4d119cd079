"""Tests that converted tiktoken encodings give the same ids, by hand and compared with
the package."""

import base64
import random
import sys

import pytest

from jepa_text.data import tokenizers
from jepa_text.data.sources import bundled
from jepa_text.data.tokenizers import roles, training
from jepa_text.data.tokenizers import tiktoken_ranks as ranks

BYTES = [bytes([byte]) for byte in range(256)]
ODD = ["'s", "'S", "'ſ", "don't", ' ', '  ', '\n', '\r\n', '\t', '1', '12345', 'é', 'Σ']
ODD += ['e\u0301', 'ß', '<|endoftext|>', '<mask>', '城海', '😀', '👩\u200d👦', '\u3000']
ODD += ['\u00a0', '\u2028', '\x85', '\x00', "'ll", '.', '!!!\n', "Hello'Ll", 'ǅ', 'ʰ']


def write(path, tokens):
    lines = [f'{base64.b64encode(t).decode()} {i}' for i, t in enumerate(tokens)]
    path.write_text('\n'.join(lines) + '\n')
    return path


def read(path, pattern=''):
    content, _ = ranks.read(path, pattern)
    return tokenizers.parse(content, path.name, roles.ROLES)


def test_ids_by_hand(tmp_path):
    tokens = [*BYTES, b'ab', b'bc', b'abc', b' a', 'é'.encode(), b'zzz']
    tokenizer = read(write(tmp_path / 'cl100k_base.tiktoken', tokens))
    # Lower ranks are merged first; a word that is a token becomes that token.
    assert tokenizer.encode('abc').tolist() == [258]
    assert tokenizer.encode('abbc').tolist() == [256, 257]
    assert tokenizer.encode('xabc abc az').tolist() == [120, 258, 32, 258, 259, 122]
    assert tokenizer.encode('zzz').tolist() == [261]
    assert tokenizer.encode('zzzz').tolist() == [122] * 4
    assert tokenizer.encode('é').tolist() == [260]
    assert tokenizer.encode('\x00\xff').tolist() == [0, 195, 191]


def test_every_byte_is_encodable(tmp_path):
    tokenizer = read(write(tmp_path / 'gpt2.tiktoken', BYTES))
    text = ''.join(map(chr, range(512))) + '海😀'
    assert tokenizer.encode(text).tolist() == list(text.encode())
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_special_tokens_and_the_gaps_between_them():
    table = {token: i for i, token in enumerate([*BYTES, b'ab'])}
    table[b'ab'] = 258
    special = {'<|endoftext|>': 257, '<|far|>': 262}
    content, _ = ranks._content(table, special, ranks.CL100K, 'made')
    content, lines = roles.completed(content, 'made')
    tokenizer = tokenizers.parse(content, 'made')
    assert tokenizer.vocab_size == 263 and len(tokenizer.backend.get_vocab()) == 263
    assert tokenizer.bos_id == tokenizer.eos_id == 257
    assert (tokenizer.pad_id, tokenizer.mask_id) == (256, 259)
    assert 'the reserved token <|reserved_special_token_0|>, id 256' in lines[0]
    ids = tokenizer.encode('ab<|endoftext|><|far|>')
    assert ids[0] == 258 and not {257, 262} & set(ids.tolist())


@pytest.mark.parametrize(
    'pattern, expected',
    [
        (r'\p{N}{1,3}+|\s++$', r'(?>\p{N}{1,3})|\s++\z'),
        (r'[^\r\n]{2,}+x', r'(?>[^\r\n]{2,})x'),
        (r'\$a[$]{1,2}', r'\$a[$]{1,2}'),
        (r'\p{N}{1,3}|a+?', r'\p{N}{1,3}|a+?'),
    ],
)
def test_patterns_are_converted(pattern, expected):
    assert ranks._in_oniguruma(pattern) == expected


@pytest.mark.parametrize(
    'text, words',
    [
        ('YQ== 0\nb', 'line 2 is not a rank'),
        ('YQ== zero', 'line 1 is not a rank'),
        (
            'YQ== 0\n\nYg== 99999999999',
            'line 3 is not a rank: 99,999,999,999 is not from',
        ),
        ('YQ== -1', 'line 1 is not a rank: -1 is not from 0 to 3,999,999'),
        ('{"model": {}}', 'line 1 is not a rank'),
        ('YQ== 0\n', 'has no rank for 255 of the 256 bytes'),
        ('', 'has no rank for 256 of the 256 bytes'),
    ],
)
def test_invalid_files_of_ranks_raise(text, words, tmp_path):
    path = tmp_path / 'gpt2.tiktoken'
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        ranks.read(path)
    with pytest.raises(ValueError, match='0 of the 256 bytes, and 1 duplicate ranks'):
        write(path, [*BYTES, b'ab'])
        path.write_text(path.read_text().replace(' 256\n', ' 255\n'))
        ranks.read(path)


def test_a_missing_package_raises(monkeypatch):
    monkeypatch.setitem(sys.modules, 'tiktoken', None)
    with pytest.raises(ModuleNotFoundError, match='pip install tiktoken'):
        ranks.named('cl100k_base')


@pytest.mark.peer
@pytest.mark.parametrize('name', ['gpt2', 'cl100k_base', 'o200k_base'])
def test_ids_match_tiktoken(name, tmp_path):
    tiktoken = pytest.importorskip('tiktoken')
    corpus = [document['text'] for document in bundled.make('heldout')]
    trained = training.train(corpus[:10], 1500, reserved=0).backend
    spelled = {letter: byte for byte, letter in ranks._letters().items()}
    names = [trained.id_to_token(i) for i in range(4, trained.get_vocab_size())]
    tokens = [bytes(spelled[letter] for letter in name) for name in names]
    table = {token: i for i, token in enumerate(tokens)}
    theirs = tiktoken.Encoding(
        name='small',
        pat_str=ranks.PATTERNS[name],
        mergeable_ranks=table,
        special_tokens={'<|endoftext|>': len(table)},
    )
    ours = read(write(tmp_path / f'{name}.tiktoken', tokens))
    rng = random.Random(0)
    for text in texts_of(rng, 3000, corpus):
        ids = ours.encode(text).tolist()
        assert ids == theirs.encode_ordinary(text), text
        assert ours.decode(ids) == text


def texts_of(rng, count, corpus):
    planes = ((0, 0x250), (0x300, 0x3000), (0x3000, 0xD7FF), (0xE000, 0x10FFFF))
    for _ in range(count):
        kind = rng.random()
        if kind < 0.5:
            yield ''.join(rng.choice(ODD) for _ in range(rng.randrange(12)))
        elif kind < 0.7:
            yield ''.join(
                chr(rng.randrange(*rng.choice(planes))) for _ in range(rng.randrange(10))
            )
        else:
            text = rng.choice(corpus)
            start = rng.randrange(len(text))
            yield text[start : start + rng.randrange(200)]


@pytest.mark.peer
def test_an_encoding_by_name(monkeypatch):
    tiktoken = pytest.importorskip('tiktoken')
    table = {token: i for i, token in enumerate([*BYTES, b'ab'])}
    small = tiktoken.Encoding(
        name='cl100k_base',
        pat_str=ranks.CL100K,
        mergeable_ranks=table,
        special_tokens={'<|endoftext|>': 260},
    )
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, 'cl100k_base', small)
    content, lines = ranks.named('cl100k_base')
    tokenizer = tokenizers.parse(content, 'named', roles.ROLES)
    assert tokenizer.encode('abab').tolist() == small.encode('abab')
    assert tokenizer.eos_id == 260 and 'cl100k_base, 257 ranks' in lines[0]
    with pytest.raises(
        ValueError, match="no encoding 'cl100k'; there are: .*cl100k_base"
    ):
        ranks.named('cl100k')


@pytest.mark.peer
def test_an_unavailable_encoding_raises(monkeypatch, tmp_path):
    tiktoken = pytest.importorskip('tiktoken')

    def refused(*_, **__):
        raise ConnectionError('no network')

    monkeypatch.setenv('TIKTOKEN_CACHE_DIR', str(tmp_path))
    monkeypatch.setattr(tiktoken.load, 'read_file', refused)
    with pytest.raises(OSError, match="'r50k_base' is not in tiktoken's cache"):
        ranks.named('r50k_base')


@pytest.mark.peer
def test_patterns_match_the_package(monkeypatch):
    pytest.importorskip('tiktoken')
    from tiktoken_ext import openai_public

    for load in ('load_tiktoken_bpe', 'data_gym_to_mergeable_bpe_ranks'):
        monkeypatch.setattr(openai_public, load, lambda *_, **__: {})
    for name, pattern in ranks.PATTERNS.items():
        monkeypatch.setattr(openai_public, 'len', lambda _: 50281, raising=False)
        made = openai_public.ENCODING_CONSTRUCTORS[name]()
        assert made['pat_str'] == pattern, name
