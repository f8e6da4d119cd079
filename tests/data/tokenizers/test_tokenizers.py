import dataclasses
import json

import numpy as np
import pytest
import tokenizers as library
from numpy.testing import assert_array_equal

from jepa_text.data import tokenizers
from jepa_text.data.sources import bundled
from jepa_text.data.tokenizers import formats, roles, training
from jepa_text.objectives import clm


def test_names_of_special_tokens_in_text_stay_text(ours):
    text = 'a <mask> and <eos>[MASK]<pad>'
    (ids,) = ours.encode_many([text])
    assert not set(ids.tolist()) & set(ours.special_ids)
    assert ours.decode(ids) == text


def test_decode_skips_specials(ours):
    ids = [ours.bos_id, *ours.encode('the sea'), ours.mask_id, ours.eos_id, ours.pad_id]
    assert ours.decode(ids) == 'the sea'


@pytest.mark.slow
def test_the_bundled_tokenizer_matches_its_docstring(ours):
    texts = [document['text'] for document in bundled.make('train')]
    assert training.train(texts, vocab_size=2048).fingerprint == ours.fingerprint
    heldout = [document['text'] for document in bundled.make('heldout')]
    size = sum(len(text.encode()) for text in heldout)
    tokens = sum(len(ids) for ids in ours.encode_many(heldout))
    assert f'{size / tokens:.2f}' == '3.18'


def test_saved_and_loaded_is_the_same(tmp_path, ours):
    ours.save(tmp_path / 'a.json')
    again = tokenizers.load(tmp_path / 'a.json')
    assert again.fingerprint == ours.fingerprint
    # The order of keys does not matter; merges do.
    content = json.loads((tmp_path / 'a.json').read_text())
    turned = dict(reversed(content.items()))
    (tmp_path / 'b.json').write_text(json.dumps(turned, indent=7))
    assert tokenizers.load(tmp_path / 'b.json').fingerprint == ours.fingerprint
    content['model']['merges'].pop()
    (tmp_path / 'c.json').write_text(json.dumps(content))
    assert tokenizers.load(tmp_path / 'c.json').fingerprint != ours.fingerprint


def test_digits_are_grouped_and_spaces_precede_words():
    trained = training.train(['in 1851 123 123 185 185 the sea the sea'] * 5, 300)
    ids = trained.encode('the 18511851')
    pieces = [trained.backend.id_to_token(int(i)) for i in ids]
    assert max(len(piece) for piece in pieces if piece.isdigit()) <= 3
    assert 'Ġsea' in trained.backend.get_vocab()


def test_starts_word(ours):
    text = 'Call me "Ishmael", don\'t unfathomably\n\n1851'
    ids = ours.encode(text)
    words, starts_V = [], ours.starts_word
    for i in ids:
        piece = ours.decode([i])
        if starts_V[i] or not words:
            words.append(piece)
        else:
            words[-1] += piece
    assert ''.join(words) == text
    assert " don't" in words
    assert ' unfathomably' in words
    assert starts_V.shape == (2048,) and starts_V.dtype == bool
    assert starts_V[list(ours.special_ids)].all()
    # As a stand-in for a smaller one that is not yet trained.
    fewer = dataclasses.replace(ours, vocab_size=1024)
    assert_array_equal(fewer.starts_word, starts_V[:1024])
    assert not starts_V.all()


def _foreign(folder, specials, model=None, cut=''):
    backend = library.Tokenizer(model or library.models.WordLevel({'[UNK]': 0}, '[UNK]'))
    backend.pre_tokenizer = getattr(library.pre_tokenizers, cut or 'Whitespace')()
    backend.add_special_tokens(list(specials))
    backend.enable_padding(length=128)
    backend.enable_truncation(4)
    backend.save(str(folder / 'tokenizer.json'))
    return folder


def test_padding_and_truncation_are_disabled(tmp_path):
    vocabulary = {'[UNK]': 0, 'sea': 1, '##s': 2, 'the': 3}
    model = library.models.WordPiece(vocabulary, unk_token='[UNK]')
    path = _foreign(tmp_path, ['[PAD]', '[CLS]', '[SEP]', '[MASK]'], model)
    theirs = tokenizers.load(path)
    assert theirs.encode('the seas the seas the').tolist() == [3, 1, 2, 3, 1, 2, 3]
    assert [len(ids) for ids in theirs.encode_many(['the', 'the sea'])] == [1, 2]
    assert (theirs.pad_id, theirs.bos_id, theirs.eos_id, theirs.mask_id) == (4, 5, 6, 7)
    assert theirs.starts_word[[1, 2, 3]].tolist() == [True, False, True]
    content = json.loads(path.joinpath('tokenizer.json').read_text())
    del content['model']['type']  # as before version 0.9 of the library
    untyped = tokenizers.parse(content, 'untyped')
    assert_array_equal(untyped.starts_word, theirs.starts_word)


PIECES = {'[UNK]': 0, 'a': 1, 'Ġa': 2, ',': 3, "'s": 4}
BPE, WORDS = library.models.BPE, library.models.WordLevel


@pytest.mark.parametrize(
    'model, cut, expected',
    [
        (BPE(PIECES, [], end_of_word_suffix='</w>'), '', "the ends of words, by '</w>'"),
        (BPE(PIECES, [], unk_token='[UNK]'), '', 'neither beginnings of words nor'),
        (BPE(PIECES, [], unk_token='[UNK]'), 'ByteLevel', [0, 1, 1, 0]),
        (WORDS(PIECES, '[UNK]'), '', [1, 1, 1, 1]),
        (WORDS({**PIECES, ' ': 5}, '[UNK]'), '', [0, 0, 1, 1, 1]),  # of characters
    ],
)
def test_beginnings_of_words_without_a_decoder(model, cut, expected, tmp_path):
    path = _foreign(tmp_path, ['<pad>', '<s>', '</s>', '<mask>'], model, cut)
    theirs = tokenizers.load(path)  # which needs no beginnings
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=f"marks {expected}.*sampler='fixed'"):
            _ = theirs.starts_word
    else:
        assert theirs.starts_word[1 : len(expected) + 1].tolist() == expected


# Whether each begins a word: marks, joiners and the length of a vowel do not, all else of
# scripts without spaces does. A byte is the beginning (0xE4 of an ideograph, 0xC3) or the
# rest (0x80 to 0xBF) of a character without a token.
BEGINS = dict.fromkeys(('▁sea', '▁', ',', '北', '京都', 'か', 'ก'), True)
BEGINS |= dict.fromkeys(('<0x0A>', '<0xE4>', '<'), True)
BEGINS |= dict.fromkeys(('s', '한', 'и', '\u093f', '\u0e48', '\u200c', 'ー', '々'), False)
BEGINS |= dict.fromkeys(('<0x61>', '<0x80>', '<0xBF>', '<0xC3>'), False)


def test_words_of_a_metaspace_vocabulary(tmp_path):
    vocabulary = {'[UNK]': 0} | {piece: n for n, piece in enumerate(BEGINS, 1)}
    model = library.models.WordLevel(vocabulary, '[UNK]')
    theirs = tokenizers.load(
        _foreign(tmp_path, ['<pad>', '<s>', '</s>', '<mask>'], model)
    )
    begins = theirs.starts_word[1 : len(vocabulary)].tolist()
    assert dict(zip(BEGINS, begins)) == BEGINS


@pytest.mark.parametrize(
    'text, words',
    [
        ('北京、かな', '北 京 、 か な'),
        ('नदी', 'नदी'),
        ('e\u0301te\u0301', 'e\u0301te\u0301'),
    ],
)
def test_words_of_bytes_in_other_scripts(ours, text, words):
    ids = ours.encode(text)
    starts = [0, *(n for n in range(1, len(ids)) if ours.starts_word[ids[n]]), len(ids)]
    assert [ours.decode(ids[a:b]) for a, b in zip(starts, starts[1:])] == words.split(' ')


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(ValueError, match='--text=texts/.*--tokenizer='):
        formats.read('')
    with pytest.raises(FileNotFoundError, match='No tokenizer at'):
        tokenizers.load(tmp_path / 'none.json')
    path = _foreign(tmp_path, ['[PAD]', '[CLS]', '[SEP]'])
    with pytest.raises(ValueError, match=r'no mask token.*jepa-text tokenizer'):
        tokenizers.load(path)


@pytest.mark.parametrize(
    'file, content, words',
    [
        ('tokenizer.json', b'\xff\xfe{', 'not JSON in UTF-8'),
        ('tokenizer.json', b'{"a": 1}', 'has no "model"'),
        ('tokenizer.json', b'{"model": {"type": "Unheard"}}', 'cannot be read by tok'),
        (
            'tokenizer.json',
            b'{"model": {"type": "BPE", "vocab": {}, "merges": []}}',
            'gives no tokens',
        ),
        ('tokenizer_config.json', b'{', 'config.json is damaged: it is not valid JSON'),
        ('tokenizer_config.json', b'[]', 'contains no JSON object'),
        ('tokenizer_config.json', b'{}', 'no bos token'),
    ],
)
def test_damaged_files_raise(file, content, words, tmp_path):
    _odd(tmp_path, {})
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ValueError, match=words):
        tokenizers.load(tmp_path, tokenizers.NAMES if 'BPE' in str(content) else ())


def _renumber(content, token, i):
    content['model']['vocab'][token] = i
    for entry in content['added_tokens']:
        if entry['content'] == token:
            entry['id'] = i


def _vanish(content):
    pattern = {'Regex': '[\\s\\S]*'}
    content['normalizer'] = {'type': 'Replace', 'pattern': pattern, 'content': ''}


def _without_unknown(content):
    content['model'] = {'type': 'WordLevel', 'vocab': content['model']['vocab']}
    content['model']['unk_token'] = '[UNK]'


@pytest.mark.parametrize(
    'break_it, words',
    [
        (lambda c: _renumber(c, '<mask>', 0), 'same id 0'),
        (lambda c: _renumber(c, 'Ġthe', 300), 'same id 300'),
        (
            lambda c: c['added_tokens'][3].update(id=7),
            "'<mask>' has id 7 .*, but 3 in the",
        ),
        (lambda c: c['added_tokens'][3].update(id=10**8), "'<mask>' has id 100000000"),
        (lambda c: _renumber(c, 'Ġthe', 50_000_000), "'Ġthe' has id 50,000,000"),
        (_vanish, 'gives no tokens for'),
        (_without_unknown, 'fails on text outside its vocabulary'),
    ],
)
def test_broken_tokenizers_raise(break_it, words, tmp_path):
    content = json.loads(tokenizers.BUNDLED.read_text(encoding='utf-8'))
    tokenizers.parse(content, 'whole')
    break_it(content)
    path = tmp_path / 'tokenizer.json'
    path.write_text(json.dumps(content), encoding='utf-8')
    for optional in ((), ('mask',)):
        with pytest.raises(ValueError, match=f'(?s)tokenizer.json.*({words})'):
            tokenizers.load(path, optional)


@pytest.mark.parametrize('role', ['[PAD]', '[CLS]', '[SEP]'])
def test_a_mask_that_is_another_special_token_raises(role, tmp_path, monkeypatch):
    path = _foreign(tmp_path, ['[PAD]', '[CLS]', '[SEP]'])
    monkeypatch.setitem(tokenizers.NAMES, 'mask', (role,))
    with pytest.raises(ValueError, match='json: mask and ... are one token'):
        tokenizers.load(path)


def _odd(folder, declared):
    """A folder with special tokens of unknown names, and files that declare roles."""
    special = ('<START>', '<END>', '<GAP>', '</s>')
    names = ['[UNK]', *special, '<VOID>', *'ab']
    model = library.models.WordLevel({n: i for i, n in enumerate(names)}, '[UNK]')
    for file, content in declared.items():
        (folder / f'{file}.json').write_text(json.dumps(content))
    return _foreign(folder, special, model)


_BASIC = dict(bos_token='<START>', eos_token='<END>', pad_token='<VOID>')


@pytest.mark.parametrize(
    'declared, expected',
    [
        ({'tokenizer_config': _BASIC}, (5, 1, 2, None)),
        ({'special_tokens_map': _BASIC}, (5, 1, 2, None)),
        (
            {
                'tokenizer_config': _BASIC | dict(eos_token={'content': '</s>'}),
                'special_tokens_map': _BASIC | dict(mask_token='<GAP>'),
            },
            (5, 1, 4, 3),
        ),
        ({'tokenizer_config': _BASIC | dict(pad_token='<END>')}, (2, 1, 2, None)),
        ({'tokenizer_config': _BASIC | dict(pad_token='unknown')}, (4, 1, 2, None)),
        ({'tokenizer_config': _BASIC | dict(cls_token='<GAP>')}, (5, 3, 2, None)),
    ],
)
def test_special_tokens_are_those_that_the_files_declare(tmp_path, declared, expected):
    """(pad, bos, eos, mask); a saved tokenizer.json keeps them without the files."""
    (tmp_path / 'saved').mkdir()
    found = tokenizers.load(_odd(tmp_path, declared), optional=('mask',))
    found.save(tmp_path / 'saved' / 'tokenizer.json')
    for one in (found, tokenizers.load(tmp_path / 'saved', optional=('mask',))):
        assert (one.pad_id, one.bos_id, one.eos_id, one.mask_id) == expected
        assert set(expected) - {None} <= set(one.special_ids)
        assert one.fingerprint == found.fingerprint
    # Of a run, no role has another's token: those of text have ids of their own.
    content, _ = roles.completed(json.loads(found.content), 'here')
    whole = tokenizers.parse(content, 'here')
    assert (whole.bos_id, whole.eos_id) == expected[1:3]
    assert len({whole.pad_id, whole.bos_id, whole.eos_id, whole.mask_id}) == 4


def test_an_end_in_the_text_keeps_its_loss_if_it_is_the_padding_too(tmp_path):
    folder = _odd(tmp_path, {'tokenizer_config': _BASIC | dict(pad_token='<END>')})
    ours = tokenizers.load(folder, optional=('mask',))
    tokens_L = np.array([1, 6, ours.eos_id, 7, ours.eos_id, ours.pad_id], np.int32)
    segments_L = np.array([1, 1, 1, 1, 1, 0], np.int32)
    row = dict(tokens=tokens_L, segment_ids=segments_L, positions=np.arange(6))
    found = clm.make(ours, 6, 1).corrupt(row, np.random.default_rng(0))
    assert found['loss_mask'].tolist() == [True, True, True, True, False, False]
    assert found['labels'][1] == ours.eos_id
