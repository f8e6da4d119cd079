"""The corpus inside the package: US presidents, Melville and Austen, 4.9 MB.

State of the Union addresses 1790 to 2021 (a selection), Moby Dick, Pride and Prejudice,
Sense and Sensibility, Persuasion; all in the public domain. A document is one address
or one chapter, with its author, title and year; paragraphs are separated by a blank
line where the source has them (an address is one block).

    train      291 documents   4.42 MB
    heldout     27 documents   0.48 MB   the addresses from 2014 on, the last tenth of the
                                         chapters of Moby Dick and of Pride and Prejudice

`jepa_text/data/corpora/bundling.py` made the two files, and says from what.
"""

import gzip
import json
import pathlib

FOLDER = pathlib.Path(__file__).parents[1] / 'bundled'
SPLITS = ('train', 'heldout')


def make(split):
    """The documents of a split: dicts of author, title, year and text.

    Raises ValueError for another split than 'train' and 'heldout', FileNotFoundError
    when the package was installed without its data.
    """
    if split not in SPLITS:
        raise ValueError(
            f'The bundled corpus has no split {split!r}; take one of {SPLITS}.'
        )
    path = FOLDER / f'{split}.jsonl.gz'
    if not path.exists():
        raise FileNotFoundError(
            f'{path} is missing: this copy of jepa_text was installed without its '
            'package data. Install it again from a whole clone or wheel.'
        )
    with gzip.open(path, 'rt', encoding='utf-8') as file:
        return [json.loads(line) for line in file]
