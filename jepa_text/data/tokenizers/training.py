"""Tokenizer training: byte-level BPE, byte-level Unigram, or WordPiece.

    bpe         merges the most frequent pairs; lossless for any text
    unigram     uses the pieces that make the text likeliest; lossless for any text
    wordpiece   BERT's: splits words into pieces; loses whitespace, unknown characters

The bundled tokenizer, `jepa_text/data/bundled/tokenizer.json`, was made by

    texts = [document['text'] for document in bundled.make('train')]
    training.train(texts, vocab_size=2048).save(tokenizers.BUNDLED)

It has 3.18 bytes of held-out text per token (4096 entries: 3.64, with twice the
embedding). The same texts give the same tokenizer, in any order. The `tokenizers` library
guarantees this only for BPE. For WordPiece it numbers the pieces inside words in hash
order, so here they are numbered in advance. For Unigram its scores differ in the last
digits, as threads add them up in any order, and so do those of bytes that do not occur,
so they are rounded and sorted here; if this changes how a score is rounded, or which of
two pieces is kept, two runs can still differ.
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
    """Returns a Tokenizer of `vocab_size` entries, specials included.

    texts           any iterable that can be iterated twice; a generator suffices for
                    'bpe' and 'unigram'
    min_frequency   minimum frequency of a pair to be merged ('bpe', 'wordpiece')
    lowercase       'wordpiece': BERT's lowercasing, which also strips accents
    alphabet        'wordpiece': how many of the most frequent characters are kept; words
                    with others are <unk>
    reserved        number of special tokens for later use

    It has fewer entries if the texts have no more pairs. Raises ValueError for an unknown
    kind, a too small vocab_size, and if there is no text.
    """
    if kind not in KINDS:
        raise ValueError(f'kind={kind!r} is unknown; choose from: {", ".join(KINDS)}.')
    specials = specials_of(kind, reserved)
    _check_size(vocab_size, kind, specials)
    options = dict(vocab_size=vocab_size, show_progress=False)
    if kind != 'unigram':
        options['min_frequency'] = min_frequency
    if kind == 'wordpiece':
        options |= dict(lowercase=lowercase, alphabet=alphabet)
    content = KINDS[kind](_Texts(texts), specials, **options)
    return tokenizers.parse(content, 'The trained tokenizer')


def specials_of(kind, reserved=RESERVED):
    """Returns the special tokens of a kind, in the order of their ids."""

    unknown = (UNKNOWN,) if kind == 'wordpiece' else ()
    return (*ROLES, *unknown, *(f'<reserved_{number}>' for number in range(reserved)))


def _check_size(vocab_size, kind, specials):
    has_bytes = kind != 'wordpiece'
    minimum = len(specials) + (256 if has_bytes else 2)
    if vocab_size < minimum:
        of_text = '256 bytes' if has_bytes else 'some characters'
        raise ValueError(
            f'vocab_size {vocab_size} is too small: {of_text} and {len(specials)} '
            f'special tokens need {minimum}. Use 2048 or more.'
        )


class _Texts:
    """Pieces of the texts that are not blank; raises ValueError at the end if all are."""

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
    """Yields parts of a text that end with a word, as the library needs about 170 bytes
    per character of each part."""
    start = 0
    while len(text) - start > 2 * PIECE:
        match = CUT.search(text, start + PIECE, start + 2 * PIECE)
        end = match.start() if match else start + 2 * PIECE
        yield text[start:end]
        start = end
    yield text[start:]


def _trained(backend, trainer, texts):
    """Trains a backend, and returns the content of its tokenizer.json."""
    backend.train_from_iterator(texts, trainer)
    return json.loads(backend.to_str())


def _trained_on_bytes(model, make_trainer, texts, specials, **options):
    """Trains a model whose alphabet is the 256 bytes; returns its tokenizer.json content.

    Digits form groups of up to three; a space belongs to the word after it.
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
    trainer = make_trainer(
        special_tokens=list(specials),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        **options,
    )
    return _trained(backend, trainer, texts)


def _bpe(texts, specials, **options):
    return _trained_on_bytes(
        models.BPE(), trainers.BpeTrainer, texts, specials, **options
    )


def _unigram(texts, specials, **options):
    content = _trained_on_bytes(
        models.Unigram(), trainers.UnigramTrainer, texts, specials, **options
    )
    pieces = _deterministic(dict(content['model']['vocab'][len(specials) :]))
    # So unlikely that a text with the name of a special token is split in another way.
    content['model']['vocab'] = [
        *((name, roles.NEVER) for name in specials),
        *sorted(pieces.items(), key=lambda one: (-one[1], one[0])),
    ]
    return content


def _deterministic(pieces):
    """{piece: score} without the differences between runs.

    Bytes that do not occur have the lowest score, + 1e-4, + 2e-4, ... in hash order; here
    they are sorted.
    """
    pieces = {piece: round(score, DIGITS) for piece, score in pieces.items()}
    highest = min(pieces.values()) + 256 * 1e-4
    last = sorted(p for p in pieces if len(p) == 1 and pieces[p] < highest)
    return pieces | dict(zip(last, sorted((pieces[p] for p in last), reverse=True)))


def _wordpiece(texts, specials, lowercase, alphabet, **options):
    backend = backend_library.Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    counts = collections.Counter()
    for text in texts:
        counts.update(backend.normalizer.normalize_str(text))
    counts = {c: n for c, n in counts.items() if not c.isspace()}
    kept = sorted(counts, key=lambda c: (-counts[c], c))[:alphabet]
    room = options['vocab_size'] - len(specials)
    if 2 * len(kept) > room:
        raise ValueError(
            f'vocab_size {options["vocab_size"]} is too small: {len(kept)} characters, '
            f'each at the beginning of a word and inside, and {len(specials)} special '
            f'tokens need {2 * len(kept) + len(specials)}. Use more, or keep fewer '
            'characters (train.alphabet).'
        )
    trainer = trainers.WordPieceTrainer(
        special_tokens=[*specials, *(f'##{c}' for c in sorted(kept))],
        initial_alphabet=kept,
        limit_alphabet=len(kept),
        **options,
    )
    content = _trained(backend, trainer, texts)
    content['added_tokens'] = content['added_tokens'][: len(specials)]
    return content


KINDS = {'bpe': _bpe, 'unigram': _unigram, 'wordpiece': _wordpiece}
