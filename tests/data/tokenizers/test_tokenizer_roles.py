"""Tests that special tokens are added without changing the ids of any text."""

import copy
import functools
import json

import pytest
import tokenizers as library
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import declared, roles, training

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
CHARACTERS = list('abdeikmnopsux0123_')


def gpt2():
    """One token for all boundaries, nothing reserved."""
    vocabulary = {c: i for i, c in enumerate([*BYTES, 'ab', 'Ġa'])}
    backend = library.Tokenizer(models.BPE(vocabulary, [('a', 'b'), ('Ġ', 'a')]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(['<|endoftext|>'])
    return backend


def llama3():
    """Reserved special tokens after the vocabulary."""
    backend = gpt2()
    backend = library.Tokenizer.from_str(
        json.dumps(json.loads(backend.to_str()) | {'added_tokens': []})
    )
    reserved = [f'<|reserved_special_token_{n}|>' for n in range(3)]
    backend.add_special_tokens(['<|begin_of_text|>', '<|end_of_text|>', *reserved])
    return backend


def bert():
    """Unused entries of the vocabulary that are not added tokens; without mask and
    pad."""
    names = ['[UNK]', '[unused0]', '[unused1]', '[unused2]', '[CLS]', '[SEP]']
    names += [*CHARACTERS, *(f'##{c}' for c in CHARACTERS), *'[]<>|', 'mask', 'pad']
    model = models.WordPiece({n: i for i, n in enumerate(names)}, unk_token='[UNK]')
    backend = library.Tokenizer(model)
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.add_special_tokens(['[UNK]', '[CLS]', '[SEP]'])
    return backend


def t5(characters='<>/'):
    """Unigram, whose special tokens are ordinary entries; without bos and mask."""
    names = ['<pad>', '</s>', '<unk>', '▁', *CHARACTERS, *characters, 'ab', '▁mask']
    entries = [(n, 0.0 if n[0] == '<' and n[1:] else -2.0) for n in names]
    entries += [(f'<extra_id_{n}>', 0.0) for n in range(3)]
    backend = library.Tokenizer(models.Unigram(entries, 2))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.add_special_tokens(
        ['<pad>', '</s>', '<unk>', *(f'<extra_id_{n}>' for n in range(3))]
    )
    return backend


def gemma():
    """A reserved name and a mask that are plain tokens, which text can encode to."""
    backend = gpt2()
    names = ('<unused0>', '<mask>')
    backend.add_tokens([AddedToken(name, normalized=False) for name in names])
    return backend


def whitespace():
    """Words of which the names of special tokens are some."""
    names = [*training.ROLES, '<unk>', *CHARACTERS, 'ab']
    model = models.WordLevel({n: i for i, n in enumerate(names)}, unk_token='<unk>')
    backend = library.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(names[:5])
    return backend


FAMILIES = {f.__name__: f for f in (gpt2, llama3, bert, t5, gemma, whitespace)}
FAMILIES['t5_without_brackets'] = functools.partial(t5, '')
SPELT = ['<mask>', '<pad>', '<bos>', '</s>', '[unused1]', '<extra_id_0>', '<unused0>']
SPELT += ['<|endoftext|>', '<|reserved_special_token_1|>', '[CLS]', '<unk>', ' ', 'ab']
TEXT = st.lists(st.sampled_from(SPELT) | st.text(max_size=4), max_size=6).map(''.join)


@functools.cache
def before_and_after(family):
    content = json.loads(FAMILIES[family]().to_str())
    whole, lines = roles.completed(copy.deepcopy(content), family)
    before = tokenizers.parse(content, family, roles.ROLES)
    return before, tokenizers.parse(whole, family), lines


@pytest.mark.parametrize('family', FAMILIES)
@settings(max_examples=80, deadline=None)
@given(text=TEXT)
def test_ids_of_texts_are_unchanged(family, text):
    _, after, _ = before_and_after(family)
    plain = FAMILIES[family]()
    plain.encode_special_tokens = True
    ids = plain.encode(text, add_special_tokens=False).ids
    now = after.encode(text).tolist()
    special = {*after.special_ids} - {plain.token_to_id(n) for n in ('<unk>', '[UNK]')}
    assert not special & {*now}
    # Of a word with a name, each part becomes a token.
    if not (special & {*ids} or family == 'whitespace' and '<' in text):
        assert ids == now


@pytest.mark.parametrize('family', FAMILIES)
def test_every_role_has_a_token_that_no_text_encodes_to(family):
    before, after, lines = before_and_after(family)
    ids = [after.pad_id, after.bos_id, after.eos_id, after.mask_id]
    assert after.pad_id not in ids[1:] and after.mask_id not in ids[:3]
    unknown = {after.backend.token_to_id(name) for name in ('<unk>', '[UNK]')}
    for i in set(ids):
        assert i in after.special_ids
        found = set(after.encode(f'a {after.backend.id_to_token(i)} b').tolist())
        assert not found & (set(after.special_ids) - unknown)
    # Existing roles are unchanged.
    for role in ('bos', 'eos'):
        number = getattr(before, f'{role}_id')
        assert number is None or number == getattr(after, f'{role}_id')
    assert len(lines) >= 1


@pytest.mark.parametrize(
    'family, expected',
    [
        ('gpt2', ['pad: <pad> is new, id 259', 'mask: <mask> is new, id 260']),
        (
            'llama3',
            [
                'pad: <pad> is the reserved token <|reserved_special_token_0|>, id 260',
                'mask: <mask> is the reserved token <|reserved_special_token_1|>, id 261',
            ],
        ),
        (
            'bert',
            [
                'pad: <pad> is the reserved token [unused0], id 1',
                'mask: <mask> is the reserved token [unused1], id 2',
            ],
        ),
        (
            't5',
            [
                'bos: <bos> is the reserved token <extra_id_0>',
                'mask: <mask> is the reserved token <extra_id_1>',
            ],
        ),
        ('gemma', ['pad: <pad> is new, id 261']),
    ],
)
def test_reserved_tokens_are_used_first_and_reported(family, expected):
    before, after, lines = before_and_after(family)
    assert len(lines) == len(expected)
    for line, begins in zip(lines, expected):
        assert line.startswith(begins)
    if family in ('llama3', 'bert', 't5'):
        assert after.vocab_size == before.vocab_size


@pytest.mark.parametrize('is_special', [True, False])
@pytest.mark.parametrize(
    'family, eos, pad', [('llama3', '<|end_of_text|>', 263), ('t5', '</s>', 0)]
)
def test_an_entry_pad_is_used_if_another_is_declared(family, eos, pad, is_special):
    """Not a reserved token, whose new name would be there twice."""
    backend = FAMILIES[family]()
    backend.add_special_tokens(['<pad>'])
    content = json.loads(backend.to_str())
    content['added_tokens'][-1 if pad else 0]['special'] = is_special
    content = declared.marked(content, 'pad', backend.token_to_id(eos), eos)
    content, lines = roles.completed(content, 'here')
    found = tokenizers.parse(content, 'here')
    assert (found.pad_id, lines[0]) == (pad, f'pad: <pad> is in the vocabulary, id {pad}')
    assert pad not in found.encode('a <pad> b')


@pytest.mark.parametrize('role', roles.ROLES)
def test_a_reserved_token_with_a_declared_role_gets_no_other(role):
    backend = llama3()
    i = backend.token_to_id(name := '<|reserved_special_token_0|>')
    content = declared.marked(json.loads(backend.to_str()), role, i, name)
    found = tokenizers.parse(roles.completed(content, 'here')[0], 'here')
    assert [one for one in roles.ROLES if getattr(found, f'{one}_id') == i] == [role]


def test_complete_tokenizers_are_unchanged():
    trained = training.train(['the sea'] * 9, 400)
    completed = (before_and_after(family)[1] for family in FAMILIES)
    for whole in (trained, *completed):
        content, lines = roles.completed(json.loads(whole.content), 'whole')
        assert lines == ['nothing added: pad, bos, eos and mask are present']
        assert tokenizers.parse(content, 'whole').fingerprint == whole.fingerprint


def test_more_roles_than_reserved_tokens():
    backend = gpt2()
    content = json.loads(backend.to_str()) | {'added_tokens': []}
    backend = library.Tokenizer.from_str(json.dumps(content))
    backend.add_special_tokens(['<reserved_0>'])
    content, lines = roles.completed(json.loads(backend.to_str()), 'few')
    found = tokenizers.parse(content, 'few')
    assert found.pad_id == 258 and 'reserved token' in lines[0]
    assert [found.bos_id, found.eos_id, found.mask_id] == [259, 260, 261]
