"""Tokenizers: text to ids and back, for byte-level BPE and any other tokenizer.json.

    'Call me Ishmael.'  -> C all Ġme ĠIsh ma el .     (Ġ is a space)
                        -> int32 ids, specials not added: packing adds <bos> and <eos>

Text is never parsed as special tokens, even if it contains `<mask>`: the content of a
document cannot mask or end anything. Where a model would parse it so, the name is cut.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import pathlib
import re
import unicodedata

import numpy as np
import tokenizers as backend_library
from tokenizers import decoders

from jepa_text.data.cleaning import words
from jepa_text.data.corpora import invalid_text
from jepa_text.data.tokenizers import declared
from jepa_text.files import atomic, copies

BUNDLED = pathlib.Path(__file__).parents[1] / 'bundled' / 'tokenizer.json'

# Names of the special tokens in other tokenizers, the commonest first, for roles that no
# file declares (declared.py). They are found by name, never by position.
NAMES = {
    'pad': (
        *('<pad>', '[PAD]', '<|pad|>', '<|padding|>', '<|finetune_right_pad_id|>'),
        # Decoders often have none. Any token will do: padding has segment id 0.
        *('<|end_of_text|>', '<|endoftext|>', '</s>'),
    ),
    'bos': ('<bos>', '[CLS]', '<s>', '<|begin_of_text|>', '<|bos|>', '<|endoftext|>'),
    'eos': ('<eos>', '[SEP]', '</s>', '<|end_of_text|>', '<|eos|>', '<|endoftext|>'),
    'mask': ('<mask>', '[MASK]', '<|mask|>', '<|mask_token|>'),
}

MAX_ID = 4_000_000
# Every vocabulary has a word, character, bytes or an unknown token for some of it.
PROBE = 'The whale and the sea, 1851. Ünïcode é 海 море 😀 \u2603'

# Of a character that has no token, with byte_fallback.
BYTE = re.compile('<0x([0-9A-F]{2})>')
CONTRACTIONS = ("'s", "'t", "'d", "'m", "'re", "'ve", "'ll")


@contextlib.contextmanager
def valid_unicode(texts):
    """Raises ValueError, not the TypeError of the library, for half of a surrogate pair
    in one of the texts."""
    try:
        yield
    except TypeError:
        for number, text in enumerate(texts, 1):
            invalid_text.check_unicode(text, f'text {number} of {len(texts)}')
        raise


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
    """A tokenizer of the `tokenizers` library, and the ids that models need.

    `vocab_size` is the largest id + 1, so embeddings with that many rows always fit.
    `fingerprint` is the sha256 of the tokenizer.json, independent of the order of keys.
    """

    backend: backend_library.Tokenizer
    content: str
    vocab_size: int
    pad_id: int
    bos_id: int
    eos_id: int
    mask_id: int
    special_ids: tuple
    fingerprint: str

    def encode(self, text):
        """Returns the ids of a text, int32 [n], without specials."""
        return self.encode_many([text])[0]

    def encode_masked(self, text):
        """Returns the ids of a text in which '<mask>' is the mask token, int32 [n].

        As in an exported model, the mask absorbs the space before it, and the text after
        it is not treated as the beginning of a text. Other special tokens stay text.
        """
        text = text.replace('<mask>', self.backend.id_to_token(self.mask_id))
        with valid_unicode([text]):
            ids = self._with_mask.encode(text, add_special_tokens=False).ids
        return np.array(ids, np.int32)

    @functools.cached_property
    def _with_mask(self):
        content = json.loads(self.content)
        added = {token['id']: token for token in content.get('added_tokens', ())}
        plain = dict(single_word=False, rstrip=False, normalized=False)
        name = self.backend.id_to_token(self.mask_id)
        mask = plain | added.get(self.mask_id, {'id': self.mask_id, 'content': name})
        # With encode_special_tokens, the library only matches tokens that are not
        # special.
        added[self.mask_id] = mask | {'lstrip': True, 'special': False}
        content['added_tokens'] = [added[i] for i in sorted(added)]
        backend = backend_library.Tokenizer.from_str(json.dumps(content))
        backend.encode_special_tokens = True
        return backend

    def encode_many(self, texts):
        """Returns a list of int32 [n_i], using all cores (RAYON_NUM_THREADS limits
        them)."""
        texts = list(texts)
        with valid_unicode(texts):
            encodings = self.backend.encode_batch_fast(texts, add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    def decode(self, ids):
        """Returns the text of ids; skips specials, replaces invalid UTF-8 with U+FFFD."""
        return self.backend.decode([int(i) for i in ids], skip_special_tokens=True)

    def save(self, path):
        """Writes the tokenizer.json; loading it gives the same fingerprint."""
        text = json.dumps(json.loads(self.content), ensure_ascii=False, indent=1)
        atomic.write(path, text + '\n')

    @functools.cached_property
    def starts_word(self):
        """bool [V]: whether a token begins a word, for whole-word masking.

        True for tokens that begin with a space, for punctuation, for specials, and for
        each token of scripts without spaces, such as Chinese; False for continuations of
        words, for combining marks and joiners, and for the 's and 't of contractions. A
        word after punctuation without a space, as in `"Aye`, is a continuation of the
        punctuation (except in WordPiece, where only ## continues a word). In WordLevel
        without ▁ or spaces, all begin one. Raises ValueError for a tokenizer that marks
        the ends of words, or nothing.
        """
        vocabulary = self.backend.get_vocab(with_added_tokens=True)
        starts = _starts_word_by_kind(json.loads(self.content), vocabulary)
        starts_V = np.ones(self.vocab_size, bool)
        for token, i in vocabulary.items():
            if i < self.vocab_size:  # a stand-in may have fewer
                starts_V[i] = i in self.special_ids or starts(token)
        starts_V.setflags(write=False)
        return starts_V


def load(path, optional=()):
    """Returns the Tokenizer of a tokenizer.json, or of a folder with one, of any origin.

    Padding and truncation configured in the file are disabled. Raises FileNotFoundError,
    and ValueError if the file is not a tokenizer, is broken (`_check`), or lacks one of
    the four special tokens. Those in `optional` (such as 'mask') may be missing; their id
    is then None.
    """
    content, path = read(path)
    return parse(content, str(path), optional)


def read(path):
    """Returns (content of a tokenizer.json, its path).

    Special tokens are those that transformers' files beside it declare. Raises what
    `load` raises, apart from the errors of `parse`.
    """
    path = copies.local_file('The tokenizer', path, BUNDLED.name, declared.FILES)
    if not path.is_file():
        raise FileNotFoundError(
            f"No tokenizer at {path}. Give the path of a tokenizer.json, 'bundled' or "
            'hf:NAME, or train one: jepa-text tokenizer tokenizer:text=texts/ '
            '--workdir=tokenizer. Other formats: '
            'AutoTokenizer.from_pretrained(X).save_pretrained(X) of transformers writes '
            'a tokenizer.json.'
        )
    try:
        content = json.loads(path.read_text(encoding='utf-8'))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f'{path} is not a tokenizer.json: it is not JSON in UTF-8 ({error}). '
            'Give the complete file that the `tokenizers` library writes; a '
            'SentencePiece model is converted by `jepa-text tokenizer`.'
        ) from error
    if path.name == BUNDLED.name and isinstance(content, dict):
        content = _declared(content, path.parent)
    return content, path


def _declared(content, folder):
    """Returns the content with the roles that the files of a folder declare.

    A declared token that is not in the vocabulary has no role: transformers would add it,
    but the model has no embedding of it.
    """
    names = declared.names(folder)
    try:
        vocabulary = declared.vocabulary(content)
    except (LookupError, TypeError):
        return content  # `parse` says what is wrong
    for role, name in names.items():
        usual = next((one for one in NAMES[role] if one in vocabulary), None)
        if name in vocabulary and name != usual:
            content = declared.marked(content, role, vocabulary[name], name)
    return content


def model_type(content):
    """Returns the type of the model in a tokenizer.json's content, such as 'Unigram'.

    Files from before tokenizers 0.9 do not say it, so the library tells what it reads.
    """
    if stated := content['model'].get('type'):
        return stated
    backend = backend_library.Tokenizer.from_str(json.dumps(content))
    return type(backend.model).__name__


def parse(content, where, optional=()):
    """Returns the Tokenizer of a tokenizer.json's content; `where` names it in errors."""
    if not isinstance(content, dict) or 'model' not in content:
        raise ValueError(
            f'{where} is not a tokenizer.json: it has no "model". Give the file that the '
            '`tokenizers` library writes, not tokenizer_config.json or vocab.json.'
        )
    content = content | {'padding': None, 'truncation': None}
    # Without indentation, which would take longer than all else for a large vocabulary.
    text = json.dumps(content, ensure_ascii=False)
    try:
        return _parsed(text, tuple(optional))
    except ValueError as error:
        raise ValueError(f'{where}: {error}') from error.__cause__


@functools.lru_cache(maxsize=2)
def _parsed(text, optional):
    """Returns the Tokenizer of a text, the same for the same text: it never changes, and
    a command opens one several times. Errors do not name the file."""
    try:
        backend = backend_library.Tokenizer.from_str(text)
    except Exception as error:  # The library raises bare Exception for any bad content.
        raise ValueError(
            f'cannot be read by tokenizers {backend_library.__version__}: '
            f'{error}. Write it again with this version, or install the one that wrote '
            'it.'
        ) from error
    # Text that contains the name of a special token stays text.
    backend.encode_special_tokens = True
    vocabulary = backend.get_vocab(with_added_tokens=True)
    content = json.loads(text)
    added = content.get('added_tokens') or []
    by_role = {role: t['id'] for t in added for role in t.get(declared.MARK, ())}
    for role in NAMES:
        if role not in by_role:
            by_role[role] = _find(role, vocabulary, role in optional)
    ids = {f'{role}_id': by_role[role] for role in NAMES}
    if plain := _plain_roles(content, ids):
        return _parsed(json.dumps(plain, ensure_ascii=False), optional)
    added = backend.get_added_tokens_decoder().items()
    _check(backend, vocabulary, content, ids)
    special_ids = {i for i, token in added if token.special} | {*ids.values()}
    special_ids -= {None}
    if guarded := _guarded(backend, content, sorted(special_ids)):
        return _parsed(json.dumps(guarded, ensure_ascii=False), optional)
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return Tokenizer(
        backend=backend,
        content=text,
        vocab_size=max(vocabulary.values()) + 1,
        special_ids=tuple(sorted(special_ids)),
        fingerprint=hashlib.sha256(canonical.encode()).hexdigest(),
        **ids,
    )


def _check(backend, vocabulary, content, ids):
    """Raises ValueError for a vocabulary with ambiguous ids, far too many entries, or
    that encodes nothing. `ids` are {'mask_id': 3, ...}, None for missing tokens."""
    by_id = {}
    for token, i in vocabulary.items():
        if by_id.setdefault(i, token) != token:
            raise ValueError(
                f'{by_id[i]!r} and {token!r} have the same id {i}, so they '
                'cannot be distinguished. Give one of them a different id.'
            )
    for entry in content.get('added_tokens', ()):
        if vocabulary.get(entry['content']) != entry['id']:
            raise ValueError(
                f'{entry["content"]!r} has id {entry["id"]} in added_tokens, '
                f'but {vocabulary.get(entry["content"])} in the vocabulary. Correct the '
                'wrong one; the model was trained with one of them.'
            )
    for role in ('pad_id', 'bos_id', 'eos_id'):
        if ids['mask_id'] is not None and ids['mask_id'] == ids[role]:
            raise ValueError(
                f'mask and {role[:3]} are one token, of id {ids[role]}, so '
                'masked positions could not be recognized. Add a mask token.'
            )
    if (highest := max(by_id, default=0)) >= MAX_ID:
        raise ValueError(
            f'{by_id[highest]!r} has id {highest:,}, so an embedding '
            f'would have as many rows; the maximum is {MAX_ID:,}. Number the '
            'vocabulary without gaps, or train a smaller one.'
        )
    remedy = 'Check its normalizer, pre-tokenizer and unknown token.'
    try:
        encoded = backend.encode(PROBE, add_special_tokens=False).ids
    except Exception as error:  # The library raises bare Exception.
        raise ValueError(
            f'fails on text outside its vocabulary ({error}). {remedy}'
        ) from error
    if not encoded:
        raise ValueError(f'gives no tokens for {PROBE!r}. {remedy}')


def _plain_roles(content, ids):
    """Returns the content with all tokens of roles made special, None if they are.

    Text with the name of an added token that is not special becomes that token.
    """
    added = content.get('added_tokens', [])
    made = [t | {'special': t['special'] or t['id'] in ids.values()} for t in added]
    return None if made == added else content | {'added_tokens': made}


def _guarded(backend, content, special_ids):
    """Returns the content with a cut after the first character of each special name that
    text is encoded to, so that no text is; None if there is no such name, or the cut is
    there.

    The literal name of the unknown token remains that token.
    """
    model = content['model']
    names = [backend.id_to_token(i) for i in special_ids if i != model.get('unk_id')]
    if model.get('byte_fallback'):
        names += [f'<0x{byte:02X}>' for byte in range(256)]
    # A pre-tokenizer may treat the beginning, spaces and other text differently.
    texts = [f'{name} a{name} {name}' for name in names]
    encoded = backend.encode_batch_fast(texts, add_special_tokens=False)
    pattern = '|'.join(
        f'{re.escape(name[0])}(?={re.escape(name[1:])})'
        for name, found in zip(names, encoded)
        if backend.token_to_id(name) in found.ids
        and name != model.get('unk_token')
        and name[1:]
    )
    cut = {'type': 'Split', 'pattern': {'Regex': pattern}, 'invert': False}
    cut['behavior'] = 'MergedWithPrevious'
    before = content.get('pre_tokenizer')
    if not pattern or before and before.get('pretokenizers', [])[-1:] == [cut]:
        return None
    # Last, as Metaspace may put a space before each part.
    parts = [*([before] if before else ()), cut]
    return content | {'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': parts}}


def _find(role, vocabulary, optional):
    for name in NAMES[role]:
        if name in vocabulary:
            return vocabulary[name]
    if optional:
        return None
    raise ValueError(
        f'no {role} token (looked for {", ".join(NAMES[role])}). Add one: '
        'jepa-text tokenizer --config=tokenizer --config.tokenizer=PATH '
        '--workdir=NEW'
    )


def _starts_word_by_kind(content, vocabulary):
    """Returns a function that says of a token whether it begins a word."""
    parts = [content.get(key) for key in ('normalizer', 'pre_tokenizer', 'decoder')]
    kind, marked = model_type(content), 'neither beginnings of words nor spaces'
    if suffix := content['model'].get('end_of_word_suffix'):
        marked = f'the ends of words, by {suffix!r} (end_of_word_suffix)'
    elif 'ByteLevel' in json.dumps(parts):
        return _starts_word_in_bytes
    elif kind == 'WordPiece':
        return lambda token: not token.startswith('##')
    elif any(token[:1] in ('▁', ' ') for token in vocabulary):
        return _starts_word_in_metaspace
    elif kind == 'WordLevel':
        return lambda token: True
    raise ValueError(
        f'The tokenizer marks {marked}, so no token of it says that it begins a word: '
        "mask other than by whole words, for example with sampler='fixed', or use a "
        'tokenizer that marks beginnings.'
    )


def _starts_word_in_bytes(token):
    text = decoders.ByteLevel().decode([token])
    if text in CONTRACTIONS:
        return False
    if text[:1] == '\ufffd':
        return _starts_word_in_part(ord(token[0]))
    return _starts_word(text[:1])


def _starts_word_in_part(byte):
    """Whether an incomplete character, by its first byte, begins a word.

    It may be the middle of a word, but these bytes are those of kana and ideographs.
    """
    return 0xE3 <= byte <= 0xE9


def _starts_word(letter):
    """Whether a character begins a word, whatever is before it."""
    category = unicodedata.category(letter) if letter else ''
    if category[:1] in ('M', '') or category == 'Cf':
        return False
    has_no_spaces = any(a <= ord(letter) <= b for a, b in words.WITHOUT_SPACES)
    return not letter.isalnum() or (has_no_spaces and category != 'Lm')


def _starts_word_in_metaspace(token):
    if byte := BYTE.fullmatch(token):
        value = int(byte[1], 16)
        return _starts_word(chr(value)) if value < 0x80 else _starts_word_in_part(value)
    return token[:1] == '▁' or _starts_word(token[:1])
