"""The corpus inside the package: US presidents, Melville and Austen, 4.9 MB.

State of the Union addresses 1790 to 2021 (a selection), Moby Dick, Pride and Prejudice,
Sense and Sensibility, Persuasion; all in the public domain. A document is one address
or one chapter, with its author, title and year; paragraphs are separated by a blank
line where the source has them (an address is one block).

    train      291 documents   4.42 MB
    heldout     27 documents   0.48 MB   the addresses from 2014 on, the last tenth of the
                                         chapters of Moby Dick and of Pride and Prejudice

With `test`, every third of these documents is 'heldout', to be tuned on, and the others
are a split 'test', to be scored once.

`jepa_text/data/corpora/bundling.py` made the two files, and says from what.
"""

import gzip
import json
import pathlib

FOLDER = pathlib.Path(__file__).parents[1] / 'bundled'
SPLITS = ('train', 'heldout')
TEST = 'test'
TUNED_ON = 3  # of so many held-out documents one, where there is a test split


def make(split, test=False):
    """The documents of a split: dicts of author, title, year and text.

    Raises ValueError for another split than 'train', 'heldout' and, with `test`, 'test';
    FileNotFoundError when the package was installed without its data.
    """
    splits = (*SPLITS, TEST) if test else SPLITS
    if split not in splits:
        more = '' if test else f' With test=True there is {TEST!r}, too.'
        raise ValueError(
            f'The bundled corpus has no split {split!r}; take one of {splits}.{more}'
        )
    found = _read('heldout' if split == TEST else split)
    if split == 'train' or not test:
        return found
    return [one for n, one in enumerate(found) if (n % TUNED_ON == 0) == (split != TEST)]


def _read(split):
    path = FOLDER / f'{split}.jsonl.gz'
    if not path.exists():
        raise FileNotFoundError(
            f'{path} is missing: this copy of jepa_text was installed without its '
            'package data. Install it again from a whole clone or wheel.'
        )
    with gzip.open(path, 'rt', encoding='utf-8') as file:
        return [json.loads(line) for line in file]
