"""Options for adapting a decoder into an encoder: mask token, head, window, vocabulary.

    mask            'auto': the tokenizer's own mask token, else a reserved one, which is
                    renamed, else a new one; or 'new'
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

import jax.numpy as jnp
import numpy as np

from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import declared, roles
from jepa_text.settings import ranges, resolve

MASKS = ('auto', 'new')
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
        resolve.check_choice('adapt: mask', self.mask, MASKS)


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

    The origin is 'found', 'reserved' or 'new'. Raises ValueError for a new one that is
    there.
    """
    name_of = tokenizer.backend.id_to_token
    if mask == 'auto' and tokenizer.mask_id is not None:
        return tokenizer, name_of(tokenizer.mask_id), 'found'
    if mask == 'new' and tokenizer.backend.token_to_id(MASK) is not None:
        raise ValueError(
            f"adapt: mask='new', but {where} has {MASK} already: take mask='auto'."
        )
    content = declared.unmarked(json.loads(tokenizer.content), 'mask')
    free = [i for i in tokenizer.special_ids if RESERVED.search(name_of(i))]
    if mask == 'new' or not free:
        content, _ = roles.with_new(content, MASK)
        return tokenizers.parse(content, where), MASK, 'new'
    content = roles.renamed(content, name_of(free[0]), MASK)
    return tokenizers.parse(content, where), name_of(free[0]), 'reserved'


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


def mean_row(read, shape, count, block=8192):
    """The mean of the first `count` rows of a tensor, summed in float64 one block of rows
    at a time.

    `read(*slices)` returns a part of the tensor as float32.
    """
    total, rest = 0.0, [slice(0, n) for n in shape[1:]]
    for start in range(0, count, block):
        part = read(slice(start, min(start + block, count)), *rest)
        total = total + part.sum(axis=0, dtype=np.float64)
    return np.asarray(total / count, np.float32)


def extended(leaf, mean, rows, replaced, axis):
    """`leaf` with `rows` rows; new ones, and those `replaced`, are the `mean`."""
    rows_ND = jnp.moveaxis(leaf, axis, 0)
    missing = [(0, rows - len(rows_ND)), *[(0, 0)] * mean.ndim]
    number = jnp.arange(rows).reshape(-1, *[1] * mean.ndim)
    is_new = number >= len(rows_ND)
    for row in replaced:
        is_new |= number == row
    return jnp.moveaxis(jnp.where(is_new, mean, jnp.pad(rows_ND, missing)), 0, axis)
