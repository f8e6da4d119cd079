"""Tokenizer training: byte-level BPE, which merges the most frequent pairs of tokens and
is lossless for any text.

The bundled tokenizer, `jepa_text/data/bundled/tokenizer.json`, was made by

    texts = [document['text'] for document in bundled.make('train')]
    training.train(texts, vocab_size=2048).save(tokenizers.BUNDLED)

It has 3.18 bytes of held-out text per token (4096 entries: 3.64, with twice the
embedding). The same texts give the same tokenizer, in any order.
"""

import json
import re

import tokenizers as backend_library
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from jepa_text.data import tokenizers

ROLES = ('<pad>', '<bos>', '<eos>', '<mask>')
SPECIAL = (*ROLES, *(f'<reserved_{number}>' for number in range(4)))  # by their ids
SMALLEST = 256 + len(SPECIAL)  # entries
PIECE = 65_536  # characters
CUT = re.compile(r'(?<=\S)(?=\s)')


def train(texts, vocab_size):
    """Returns a Tokenizer of `vocab_size` entries, SPECIAL included, of any iterable.

    It has fewer entries if the texts have no more pairs that occur twice. Raises
    ValueError for a too small vocab_size, and if there is no text.
    """
    if vocab_size < SMALLEST:
        raise ValueError(
            f'vocab_size {vocab_size} is too small: 256 bytes and {len(SPECIAL)} special '
            f'tokens need {SMALLEST}. Use 2048 or more.'
        )
    backend = backend_library.Tokenizer(models.BPE())
    # Digits form groups of up to three; a space belongs to the word after it.
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(backend_library.Regex(r'\p{N}{1,3}'), 'isolated'),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        min_frequency=2,
    )
    backend.train_from_iterator(_not_blank(texts), trainer)
    return tokenizers.parse(json.loads(backend.to_str()), 'The trained tokenizer')


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
