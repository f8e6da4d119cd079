"""Options for adapting a decoder into an encoder: mask token, head, window, vocabulary.

    mask            'auto': the tokenizer's own mask token, else a reserved one, which is
                    renamed, else a new one; 'new'; or the name of a token to rename
    head            'keep' unchanged; 'tied' to the embedding; 'new', untied and randomly
                    initialized
    window          for sliding-window attention: 'two_sided' or 'none'
    vocab_multiple  rows are added to the embedding up to a multiple of this

New rows, of the mask token and for padding, are the mean of all tokens' rows (Hewitt
2021).
"""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np

from jepa_text.config import ranges, resolve
from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import declared, roles

HEADS = ('keep', 'tied', 'new')
WINDOWS = ('two_sided', 'none')
RESERVED = re.compile('reserved|unused', re.IGNORECASE)
MASK = '<mask>'


@dataclasses.dataclass(frozen=True)
class Choices:
    """The options of an adaptation; see the module docstring."""

    mask: str = 'auto'
    head: str = 'keep'
    window: str | None = None
    vocab_multiple: int = 1

    def __post_init__(self):
        resolve.check_choice('adapt: head', self.head, HEADS)
        if self.window is not None:
            resolve.check_choice('adapt: window', self.window, WINDOWS)
        multiple = self.vocab_multiple
        ranges.number('adapt: vocab_multiple', multiple, whole=True, minimum=1)
        if not isinstance(self.mask, str):
            raise ValueError(
                f"adapt: mask={self.mask!r}; it is 'auto', 'new' or the name of a token."
            )


def choices(section):
    """The Choices of a dict; raises ValueError for an unknown key or value."""
    return resolve.call('adapt', Choices, section)


def section_of(section, window):
    """The model section with the chosen window; raises ValueError if none was chosen."""
    has_window = any(w is not None for w in np.atleast_1d(section.get('window')))
    if section['name'] != 'transformer' or not has_window:
        return section
    if window is None:
        raise ValueError(
            f'This decoder has sliding-window attention ({section["window"]} to the '
            "left). Choose how to adapt it: window='two_sided', the same window on both "
            "sides, or window='none', which is equivalent for texts that fit the window."
        )
    return {**section, 'window': None} if window == 'none' else section


def with_mask(tokenizer, where, mask):
    """(a Tokenizer with a mask token, that token's name in the file, its origin).

    The origin is 'found', 'reserved' or 'new'. Raises ValueError for an unknown token.
    """
    name_of = tokenizer.backend.id_to_token
    if mask == 'auto' and tokenizer.mask_id is not None:
        return tokenizer, name_of(tokenizer.mask_id), 'found'
    if mask == 'auto':
        free = [i for i in tokenizer.special_ids if RESERVED.search(name_of(i))]
        mask = name_of(free[0]) if free else 'new'
    content = declared.unmarked(json.loads(tokenizer.content), 'mask')
    if mask == 'new':
        content, _ = roles.with_new(content, MASK)
        return tokenizers.parse(content, where), MASK, 'new'
    if tokenizer.backend.token_to_id(mask) is None:
        raise ValueError(
            f'adapt: mask={mask!r} is no token of {where}; use an existing token, '
            "'auto' or 'new'."
        )
    if mask != MASK and tokenizer.backend.token_to_id(MASK) is not None:
        raise ValueError(
            f'adapt: mask={mask!r}, but {where} has {MASK} already: take mask={MASK!r}.'
        )
    content = roles.renamed(content, mask, MASK)
    return tokenizers.parse(content, where), mask, 'reserved'


def tokenizer_of(folder, section):
    """The Tokenizer of a folder, with the mask token chosen in `section`."""
    tokenizer = tokenizers.load(Path(folder, 'tokenizer.json'), optional=('mask',))
    return with_mask(tokenizer, folder, choices(section).mask)[0]


def lines(record):
    """A readable summary of the record of an adaptation, one line per decision."""
    rows = record['rows']
    added = '' if rows['now'] == rows['file'] else f' ({rows["file"]} in the file)'
    mask = record['mask']
    mask = 'none' if mask is None else f'{mask["token"]} = {mask["id"]}, {mask["how"]}'
    left_out = ', '.join(record['left_out']) or 'nothing'
    return [
        f'from      {record["source"]}, commit {record["commit"]}',
        f'family    {record["family"]}',
        f'attends   {record["attends"]}, window {record["window"]}',
        f'mask      {mask}',
        f'embedding {rows["now"]} rows{added}, {rows["tokens"]} tokens',
        f'head      {record["head"]}; advice: {record["advice"]}',
        f'tokens    begin {record["begin"]}, end {record["end"]}, pad {record["pad"]}',
        f'left out  {left_out}',
    ]


class Extended:
    """Reads tensors with rows per token as if they had more rows, or replaced rows.

    Rows from `have` on, and those in `replaced`, are the mean of the first `vocab_size`.
    """

    def __init__(self, tensors, names, *, have, vocab_size, replaced):
        self._tensors, self._names = tensors, names
        self._have, self._vocab_size = have, min(vocab_size, have)
        self._replaced = replaced
        self._means = {}

    def __call__(self, name, first, *rest):
        if name not in self._names:
            return self._tensors.read(name, first, *rest)
        stop = min(first.stop, self._have)
        rows = [i for i in self._replaced if first.start <= i < first.stop]
        if stop == first.stop and not rows:
            return self._tensors.read(name, first, *rest)
        mean = self._mean(name)[tuple(rest)]
        rows_ND = np.empty((first.stop - first.start, *mean.shape), np.float32)
        rows_ND[:] = mean
        if stop > first.start:
            rows_ND[: stop - first.start] = self._tensors.read(
                name, slice(first.start, stop), *rest
            )
        for row in rows:
            rows_ND[row - first.start] = mean
        return rows_ND

    def _mean(self, name, block=8192):
        """The mean row, summed in float64 one block of rows at a time."""
        if name not in self._means:
            total = 0.0
            for start in range(0, self._vocab_size, block):
                rows = slice(start, min(start + block, self._vocab_size))
                width = [slice(0, n) for n in self._tensors.shape(name)[1:]]
                part = self._tensors.read(name, rows, *width)
                total = total + part.sum(axis=0, dtype=np.float64)
            self._means[name] = np.asarray(total / self._vocab_size, np.float32)
        return self._means[name]
