"""Tokenizer training: byte-level BPE or byte-level Unigram.

    bpe         merges the most frequent pairs; lossless for any text
    unigram     uses the pieces that make the text likeliest; lossless for any text

The bundled tokenizer, `jepa_text/data/bundled/tokenizer.json`, was made by

    texts = [document['text'] for document in bundled.make('train')]
    training.train(texts, vocab_size=2048).save(tokenizers.BUNDLED)

It has 3.18 bytes of held-out text per token (4096 entries: 3.64, with twice the
embedding). The same texts give the same tokenizer, in any order. The `tokenizers` library
guarantees this only for BPE. For Unigram its scores differ in the last
digits, as threads add them up in any order, and so do those of bytes that do not occur,
so they are rounded and sorted here; if this changes how a score is rounded, or which of
two pieces is kept, two runs can still differ.
"""

import json
import re

import tokenizers as backend_library
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import roles
from jepa_text.settings import resolve

ROLES = ('<pad>', '<bos>', '<eos>', '<mask>')
RESERVED = 4
DIGITS = 6
PIECE = 65_536  # characters
KINDS = {
    'bpe': (models.BPE, trainers.BpeTrainer),
    'unigram': (models.Unigram, trainers.UnigramTrainer),
}
CUT = re.compile(r'(?<=\S)(?=\s)')


def train(
    texts,
    vocab_size,
    kind='bpe',
    *,
    min_frequency=2,
    reserved=RESERVED,
):
    """Returns a Tokenizer of `vocab_size` entries, specials included.

    texts           any iterable
    min_frequency   minimum frequency of a pair to be merged ('bpe')
    reserved        number of special tokens for later use

    It has fewer entries if the texts have no more pairs. Raises ValueError for an unknown
    kind, a too small vocab_size, and if there is no text.
    """
    resolve.check_choice('kind', kind, KINDS)
    specials = specials_of(reserved)
    if vocab_size < 256 + len(specials):
        raise ValueError(
            f'vocab_size {vocab_size} is too small: 256 bytes and {len(specials)} '
            f'special tokens need {256 + len(specials)}. Use 2048 or more.'
        )
    model, make_trainer = KINDS[kind]
    backend = backend_library.Tokenizer(model())
    # Digits form groups of up to three; a space belongs to the word after it.
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(backend_library.Regex(r'\p{N}{1,3}'), 'isolated'),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = make_trainer(
        vocab_size=vocab_size,
        special_tokens=list(specials),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        **({'min_frequency': min_frequency} if kind == 'bpe' else {}),
    )
    backend.train_from_iterator(_not_blank(texts), trainer)
    content = json.loads(backend.to_str())
    if kind == 'unigram':
        content['model']['vocab'] = _deterministic(content['model']['vocab'], specials)
    return tokenizers.parse(content, 'The trained tokenizer')


def specials_of(reserved=RESERVED):
    """Returns the special tokens in the order of their ids."""
    return (*ROLES, *(f'<reserved_{number}>' for number in range(reserved)))


def _not_blank(texts):
    """Yields pieces of the texts that are not blank; raises ValueError if all are."""
    has_text = False
    for text in texts:
        if text and not text.isspace():
            has_text = True
            yield from pieces(text)
    if not has_text:
        raise ValueError('No text to train a tokenizer on: every document was blank.')


def pieces(text):
    """Yields parts of a text that end with a word, as the library needs about 170 bytes
    per character of each part."""
    start = 0
    while len(text) - start > 2 * PIECE:
        match = CUT.search(text, start + PIECE, start + 2 * PIECE)
        end = match.start() if match else start + 2 * PIECE
        yield text[start:end]
        start = end
    yield text[start:]


def _deterministic(entries, specials):
    """Unigram's [(piece, score)] without the differences between runs.

    Bytes that do not occur have the lowest score, + 1e-4, + 2e-4, ... in hash order; here
    they are sorted.
    """
    pieces = {piece: round(score, DIGITS) for piece, score in entries[len(specials) :]}
    highest = min(pieces.values()) + 256 * 1e-4
    last = sorted(p for p in pieces if len(p) == 1 and pieces[p] < highest)
    pieces |= zip(last, sorted((pieces[p] for p in last), reverse=True))
    # Special tokens are so unlikely that a text with the name of one is split in another
    # way.
    return [
        *((name, roles.NEVER) for name in specials),
        *sorted(pieces.items(), key=lambda one: (-one[1], one[0])),
    ]
