"""Hugging Face Hub datasets as corpora, streamed from the hub without a download.

    config.prepare.source = dict(
        name='hub', path='hub:HuggingFaceFW/fineweb-edu/sample-100BT')

The path has the form of all hub datasets in this package (data/sets/hub.py), with config
and revision.

The revision is resolved to a commit once, which is part of the address of every file:
hf://datasets/NAME@COMMIT/FILE. A plan of `prepare` stores these addresses, so all
workers, and those that resume later, read the same bytes even if the dataset has changed.
A new plan made from a newer commit is a different plan, and their rows are never mixed.
The manifest records the commit.
"""

from jepa_text.data.corpora import corpus, reading
from jepa_text.data.sets import hub
from jepa_text.data.sources import csv, jsonl, parquet
from jepa_text.files import addresses, listing
from jepa_text.settings import resolve

SUFFIXES = (*parquet.SUFFIXES, *jsonl.SUFFIXES, *jsonl.JSON, *csv.SUFFIXES)


def make(split, path, field='text', splits=('train',), heldout_every=100):
    """Returns the documents of a split: rows of the dataset's `splits`, with `text` from
    `field`.

    About one row in `heldout_every` is held out, by its text (corpora/reading.py). Raises
    ValueError for an unknown split, and what hub.listed raises; and when read, what the
    sources csv, jsonl and parquet raise.
    """
    reading.check_split(split, heldout_every)
    listed = hub.listed(str(path), SUFFIXES)
    for name in splits:
        resolve.check_choice(f'{path}: split', name, listed.splits)
    top = f'hf://datasets/{listed.name}@{listed.commit}'
    names = (n for name in dict.fromkeys(splits) for n in listed.splits[name])
    files = tuple(addresses.stat(f'{top}/{name}') for name in names)
    files = listing.Listing(files, commit=listed.commit)

    def read(piece):
        return _source_of(piece).documents(piece, field)

    def cut(file, size):
        return _source_of(file).cut(file, size)

    return corpus.Corpus(files, read, split, heldout_every, cut)


def _source_of(file):
    kinds = (module for module in (parquet, csv) if file.path.endswith(module.SUFFIXES))
    return next(kinds, jsonl)
