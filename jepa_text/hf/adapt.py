"""Adapts a decoder into an encoder. Options:

    head      'keep' unchanged; 'new', untied and randomly initialized
    window    for sliding-window attention: 'two_sided' or 'none'

The mask token is the tokenizer's own, else a reserved one, which is renamed, else a new
one. The row of a new token is the mean of all tokens' rows (Hewitt 2021).
"""

import dataclasses
import json
import re

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import declared, roles
from jepa_text.settings.schema import field

RESERVED = re.compile('reserved|unused', re.IGNORECASE)
MASK = '<mask>'
# {a parameter with a row or column per token: its axis}
BY_TOKEN = {'encoder/embedding': 0, 'lm_head/output/kernel': 1, 'lm_head/bias': 0}


@dataclasses.dataclass(frozen=True)
class Choices:
    """The options of an adaptation; see the module docstring."""

    head: str = field('keep', choices=('keep', 'new'))
    window: str | None = field(None, choices=('two_sided', 'none'))


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


def with_mask(tokenizer, where):
    """(a Tokenizer with a mask token, that token's name in the file, its origin).

    The origin is 'found', 'reserved' or 'new'.
    """
    name_of = tokenizer.backend.id_to_token
    if tokenizer.mask_id is not None:
        return tokenizer, name_of(tokenizer.mask_id), 'found'
    content = declared.unmarked(json.loads(tokenizer.content), 'mask')
    taken = tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id
    special_ids = (i for i in tokenizer.special_ids if i not in taken)
    free = [i for i in special_ids if RESERVED.search(name_of(i))]
    if not free:
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


def with_token_rows(leaves, rows_V, known):
    """Returns parameters {path: array} with the rows `rows_V` of tokens.

    A row of -1 is the mean of the first `known` rows.
    """

    def picked(leaf, axis):
        first = jax.lax.slice_in_dim(leaf, 0, known, axis=axis)
        mean = jnp.mean(first, axis, keepdims=True)
        taken = jnp.take(leaf, np.maximum(rows_V, 0), axis)
        shape = [-1 if each == axis else 1 for each in range(leaf.ndim)]
        return jnp.where((rows_V < 0).reshape(shape), mean, taken)

    own = {path: BY_TOKEN[path] for path in leaves if path in BY_TOKEN}
    return leaves | {path: picked(leaves[path], axis) for path, axis in own.items()}
