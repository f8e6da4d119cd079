"""A tokenizer of some text: byte-level BPE, byte-level Unigram, or WordPiece.

    bpe         pairs that are merged, the commonest first; any text survives
    unigram     the pieces under which the text is likeliest; any text survives
    wordpiece   BERT's: words in pieces, white space and unknown characters are lost

The bundled one, `jepa_text/data/bundled/tokenizer.json`, was made by

    texts = [document['text'] for document in bundled.make('train')]
    training.train(texts, vocab_size=2048).save(tokenizers.BUNDLED)

and takes 3.18 bytes of the held-out text a token (4096 entries: 3.64, at twice the
embedding). The same texts give the same tokenizer, in whatever order they come: of
`tokenizers` alone this holds for BPE. WordPiece numbers the pieces inside words as a hash
table yields them, so here they have their numbers before. Unigram's scores differ in the
last digits, as threads add them up in any order, and so do those of bytes that do not
occur, so they are rounded and sorted here; where that tips a rounding, or which of two
pieces stays, two runs can still differ.
"""

import collections
import json
import re

import tokenizers as backend_library
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import roles

ROLES = ('<pad>', '<bos>', '<eos>', '<mask>')
UNKNOWN = '<unk>'
RESERVED = 4
DIGITS = 6
PIECE = 65_536  # characters
CUT = re.compile(r'(?<=\S)(?=\s)')


def train(
    texts,
    vocab_size,
    kind='bpe',
    *,
    min_frequency=2,
    lowercase=False,
    alphabet=1000,
    reserved=RESERVED,
):
    """The Tokenizer of `vocab_size` entries, specials included.

    texts           any iterable that can be iterated twice; a generator for 'bpe' and
                    'unigram'
    min_frequency   a pair is merged that occurs so often ('bpe', 'wordpiece')
    lowercase       'wordpiece': BERT's lower case, which takes accents off, too
    alphabet        'wordpiece': so many characters are kept, the commonest; words with
                    others are <unk>
    reserved        special tokens for later use

    Gives fewer entries when the texts have no more pairs. Raises ValueError for an
    unknown kind, fewer entries than are needed, and for no text at all.
    """
    if kind not in KINDS:
        raise ValueError(f'kind={kind!r} is none; there are: {", ".join(KINDS)}.')
    specials = specials_of(kind, reserved)
    _check_size(vocab_size, kind, specials)
    given = dict(vocab_size=vocab_size, show_progress=False)
    if kind != 'unigram':
        given['min_frequency'] = min_frequency
    if kind == 'wordpiece':
        given |= dict(lowercase=lowercase, alphabet=alphabet)
    return KINDS[kind](_Texts(texts), specials, **given)


def specials_of(kind, reserved=RESERVED):
    """The special tokens of a kind, in the order of their ids."""
    unknown = (UNKNOWN,) if kind == 'wordpiece' else ()
    return (*ROLES, *unknown, *(f'<reserved_{number}>' for number in range(reserved)))


def _check_size(vocab_size, kind, specials):
    has_bytes = kind != 'wordpiece'
    minimum = len(specials) + (256 if has_bytes else 2)
    if vocab_size < minimum:
        of_text = '256 bytes' if has_bytes else 'some characters'
        raise ValueError(
            f'vocab_size {vocab_size} is too small: {of_text} and {len(specials)} '
            f'special tokens need {minimum}. Take 2048 or more.'
        )


class _Texts:
    """Pieces of the texts that are not blank; ValueError at the end if none was."""

    def __init__(self, texts):
        self._texts = texts

    def __iter__(self):
        found = False
        for text in self._texts:
            if text and not text.isspace():
                found = True
                yield from _pieces(text)
        if not found:
            raise ValueError('No text to train a tokenizer on: every document was blank.')


def _pieces(text):
    """The text in parts that end with a word: the library holds some 170 bytes for each
    character of what it is given at once."""
    start = 0
    while len(text) - start > 2 * PIECE:
        match = CUT.search(text, start + PIECE, start + 2 * PIECE)
        end = match.start() if match else start + 2 * PIECE
        yield text[start:end]
        start = end
    yield text[start:]


def _fed(backend, texts, trainer):
    """The content of the backend's tokenizer.json, trained."""
    backend.train_from_iterator(texts, trainer)
    return json.loads(backend.to_str())


def _bytewise(model):
    """An untrained backend whose alphabet is the 256 bytes.

    Digits go in groups of up to three, a space belongs to the word after it.
    """
    backend = backend_library.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(backend_library.Regex(r'\p{N}{1,3}'), 'isolated'),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    return backend


def _bpe(texts, specials, **given):
    trainer = trainers.BpeTrainer(
        special_tokens=list(specials),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        **given,
    )
    content = _fed(_bytewise(models.BPE()), texts, trainer)
    return tokenizers.parse(content, 'The trained tokenizer')


def _unigram(texts, specials, **given):
    trainer = trainers.UnigramTrainer(
        special_tokens=list(specials),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        **given,
    )
    content = _fed(_bytewise(models.Unigram()), texts, trainer)
    pieces = _settled(dict(content['model']['vocab'][len(specials) :]))
    # A text that spells a special token is likelier as anything else.
    content['model']['vocab'] = [
        *((name, roles.NEVER) for name in specials),
        *sorted(pieces.items(), key=lambda one: (-one[1], one[0])),
    ]
    return tokenizers.parse(content, 'The trained tokenizer')


def _settled(pieces):
    """{piece: score} with what differs from run to run taken out.

    Bytes that do not occur get the lowest score, + 1e-4, + 2e-4, ... as a hash table
    yields them: here in their order.
    """
    pieces = {piece: round(score, DIGITS) for piece, score in pieces.items()}
    highest = min(pieces.values()) + 256 * 1e-4
    last = sorted(p for p in pieces if len(p) == 1 and pieces[p] < highest)
    return pieces | dict(zip(last, sorted((pieces[p] for p in last), reverse=True)))


def _wordpiece(texts, specials, lowercase, alphabet, **given):
    backend = backend_library.Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    counts = collections.Counter()
    for text in texts:
        counts.update(backend.normalizer.normalize_str(text))
    counts = {c: n for c, n in counts.items() if not c.isspace()}
    kept = sorted(counts, key=lambda c: (-counts[c], c))[:alphabet]
    room = given['vocab_size'] - len(specials)
    if 2 * len(kept) > room:
        raise ValueError(
            f'vocab_size {given["vocab_size"]} is too small: {len(kept)} characters, '
            f'each at the beginning of a word and within, and {len(specials)} special '
            f'tokens need {2 * len(kept) + len(specials)}. Take more, or keep fewer '
            'characters (train.alphabet).'
        )
    trainer = trainers.WordPieceTrainer(
        special_tokens=[*specials, *(f'##{c}' for c in sorted(kept))],
        initial_alphabet=kept,
        limit_alphabet=len(kept),
        **given,
    )
    content = _fed(backend, texts, trainer)
    content['added_tokens'] = content['added_tokens'][: len(specials)]
    return tokenizers.parse(content, 'The trained tokenizer')


KINDS = {'bpe': _bpe, 'unigram': _unigram, 'wordpiece': _wordpiece}
