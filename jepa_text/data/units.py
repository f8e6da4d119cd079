"""Units of a corpus: what one process prepares at a time, from documents to shards.

    unit --read--> document --cleaned--> text --by its hash--> (number, split, text)
         --without duplicates--> tokens --> rows --> shards

The tasks of the engine, each for some units of a partial folder (data/partial.py):

    hash_documents(folder, numbers)   hashes of the documents      only if duplicates
    find_duplicates(folder, count)    of all units                 are dropped
    make_shards(folder, numbers)      shards, and the mark that a unit is done

Documents are numbered within their unit, including those that are dropped.
"""

import collections
import dataclasses
import functools
import pathlib

from jepa_text.config import schema
from jepa_text.data import partial, sources, tokenizers, tokenizing
from jepa_text.data.cleaning import cleaner, duplicates
from jepa_text.data.corpora import corpus, invalid_text, reading
from jepa_text.data.rows import shards, writing
from jepa_text.data.section import Clean
from jepa_text.parallel import exits
from jepa_text.report import console, rows_page

TOKENIZER, SCRATCH = 'tokenizer.json', 'work'  # names in the partial folder
HASHES = f'{SCRATCH}/*.documents'
# The format version of a unit's mark; a partial folder of another version starts over.
MARKS = 3
NO_TOKENS = 'no tokens'  # a reason to drop a document
# Reported per reason: examples of dropped texts, their characters, and names of
# documents.
EXAMPLES, SHOWN, NAMED = 2, 80, 100


@dataclasses.dataclass(frozen=True)
class Work:
    """Everything that does not depend on the unit.

    folder      the partial folder to write to
    settings    of `prepare`, as in the manifest
    units       [[piece, ...], ...], or [None] for a source without files
    corpora     {split: documents}
    tokenizer   a tokenizers.Tokenizer
    clean       a Clean
    cleaner     its Cleaner, or None if nothing is cleaned
    """

    folder: pathlib.Path
    settings: dict
    units: list
    corpora: dict
    tokenizer: tokenizers.Tokenizer
    clean: Clean
    cleaner: cleaner.Cleaner | None


def corpora(settings):
    """Returns {split: documents} of the source in the settings of `prepare`."""
    source = settings['source']
    return {split: sources.build(source, split) for split in settings['splits']}


def of(corpora):
    """Returns the units of `corpora`, [[piece, ...], ...]; [None] if the source has no
    files, so that its documents are one unit."""
    one = next(iter(corpora.values()))
    return one.units() if isinstance(one, corpus.Corpus) else [None]


def check_splits(corpora, settings):
    """Raises ValueError if reading a corpus of files shows that a split of `corpora` has
    no text. Reads only until each split has a document."""
    one = next(iter(corpora.values()))
    if not isinstance(one, corpus.Corpus):
        return
    seen, count = set(), 0
    for file in one.listed.files:
        for document in one.documents(corpus.piece_of(file)):
            # How many documents are left out, and why, is known at the end.
            if isinstance(document, invalid_text.Bad) or not document['text'].strip():
                return
            count += 1
            seen.add(reading.split_of(document['text'], one.heldout_every))
            if seen.issuperset(corpora):
                return
    missing = sorted(set(corpora) - seen)
    if not count or (settings.get('clean') and count >= len(corpora)):
        return
    source = settings['source']
    remedy = (
        f'About one document in {one.heldout_every} is held out, by its text: give more '
        'documents, or a smaller heldout_every'
    )
    is_text = source['name'] == 'text' and source.get('documents') != 'file'
    if is_text and count <= len(one.listed.files):
        remedy = (
            'No file has a blank line, so each is one document: insert blank lines '
            'between documents, or make each a line of a .jsonl file'
        )
    raise ValueError(
        f'The corpus has {count:,} document{"s" * (count > 1)} and no text in the split '
        f'{missing[0]!r} (source {source}). {remedy}; or prepare only one split, as '
        "splits=('train',)."
    )


def load(folder):
    """Returns the Work of a partial folder that has a tokenizer."""
    plan = partial.read_plan(folder)
    settings = plan['settings']
    clean = schema.read(Clean, settings.get('clean', {}), 'prepare.clean')
    return Work(
        folder=pathlib.Path(folder),
        settings=settings,
        units=plan['units'],
        corpora=corpora(settings),
        tokenizer=tokenizers.load(pathlib.Path(folder, TOKENIZER)),
        clean=clean,
        cleaner=None if clean == Clean() else cleaner.Cleaner(clean),
    )


def hash_documents(folder, numbers):
    """Writes the hashes of the documents of units."""
    with exits.config_errors():
        work = load(folder)
        for number in _shown('hash', numbers):
            pairs = ((count, text) for count, _, text in documents(work, number, Tally()))
            with shards.clear_disk_errors(work.folder):
                duplicates.write(work.folder / SCRATCH, number, pairs)


def find_duplicates(folder, count):
    """Finds the duplicates among the documents of all units, so many."""
    with shards.clear_disk_errors(folder):
        duplicates.decide(pathlib.Path(folder, SCRATCH), count)


def make_shards(folder, numbers):
    """Writes the shards of units into the folder, and marks each as done.

    Raises ValueError for a long document that cannot be cut, OSError if the disk is full,
    and what the source raises.
    """
    with exits.config_errors():
        work = load(folder)
        for number in _shown('prepare', numbers):
            _make_shards(work, number)


def _shown(label, numbers):
    """Yields the numbers with a progress bar."""
    with console.Progress(label, len(numbers)) as bar:
        for count, number in enumerate(numbers, 1):
            yield number
            bar.update(count)


def _make_shards(work, number):
    settings, tally, count = work.settings, Tally(), len(work.units)
    share = -(-settings['shards'] // count)
    writers = {
        split: writing.Writer(
            work.folder,
            split,
            [settings['seed'], order, number],
            share,
            work.tokenizer,
            settings,
        )
        for order, split in enumerate(settings['splits'])
    }
    try:
        originals = _originals(work, number, tally)
        for document, ids in tokenizing.encoded(originals, work.tokenizer):
            if len(ids) or settings['add_bos'] or settings['add_eos']:
                writers[document['split']].add(document['text'], ids)
            else:
                tally.drop(NO_TOKENS, document['text'])
        splits = {
            split: writer.close(number * share, count * share)
            for split, writer in writers.items()
        }
    finally:
        for writer in writers.values():
            writer.abandon()
    with shards.clear_disk_errors(work.folder):
        partial.mark_done(work.folder, number, {'splits': splits, **tally.as_dict()})


def _originals(work, number, tally):
    """Yields the documents of a unit as dicts of split and text, without duplicates."""
    copies = set()
    if work.clean.exact_duplicates:
        copies = duplicates.copies(work.folder / SCRATCH, number)
    for count, split, text in documents(work, number, tally):
        if count in copies:
            tally.drop(duplicates.REASON, text)
        else:
            yield {'split': split, 'text': text}


def max_examples(reason):
    """Returns how many examples are reported of what is dropped for a reason."""
    return NAMED if rows_page.is_named(reason) else EXAMPLES


class Tally:
    """Counts of dropped and changed documents by reason, and examples of dropped ones."""

    def __init__(self):
        self.left_out, self.changed = collections.Counter(), collections.Counter()
        self.examples = {}

    def drop(self, reason, text):
        """Counts a dropped document, with the beginning of its text as an example."""
        self.drop_named(reason, text[:SHOWN].strip())

    def drop_bad(self, bad):
        """Counts a dropped invalid_text.Bad, with its name as an example."""
        self.drop_named(rows_page.BAD + bad.reason, bad.where)

    def drop_named(self, reason, example):
        """Counts a dropped document or file, with its name as an example."""
        self.left_out[reason] += 1
        examples = self.examples.setdefault(reason, [])
        if len(examples) < max_examples(reason) and example:
            examples.append(example)

    def as_dict(self):
        """Returns the counts and examples as plain, sorted dicts."""
        examples = {key: some for key, some in sorted(self.examples.items()) if some}
        return {
            'left_out': dict(sorted(self.left_out.items())),
            'changed': dict(sorted(self.changed.items())),
            'examples': examples,
        }


def documents(work, number, tally):
    """Yields (number, split, text) of the documents of a unit that remain after cleaning,
    before deduplication, and counts the others in `tally`.

    Raises ValueError for an invalid document, unless the settings skip these.
    """
    heldout_every = getattr(next(iter(work.corpora.values())), 'heldout_every', None)
    skips = work.settings.get('bad_documents') == invalid_text.SKIP
    read = _read(work, work.units[number], tally)
    for count, (split, document, name) in enumerate(read):
        if isinstance(document, invalid_text.Bad):
            if not skips:
                raise document.error()
            tally.drop_bad(document)
            continue
        text = document['text']
        if not text or text.isspace():
            tally.drop_named(rows_page.BLANK, name())
            continue
        if work.cleaner is not None:
            before, (text, reason, notes) = text, work.cleaner.clean(text)
            if reason:
                tally.drop(reason, before)
                continue
            tally.changed.update(notes)
        # By the cleaned text, so that texts that become equal are in the same split.
        split = split or reading.split_of(text, heldout_every)
        if split in work.corpora:
            yield count, split, text


def _read(work, pieces, tally):
    """Yields (split or None, document or invalid_text.Bad, function that returns its
    name) of a unit; files are read once for all splits. Counts files without
    documents."""
    if pieces is None:
        source = work.settings['source']['name']
        for split, documents in work.corpora.items():
            where = f'{source}, {split}'
            for number, document in enumerate(invalid_text.with_bad(documents, where), 1):
                yield split, document, functools.partial(invalid_text.NAME, where, number)
        return
    one = next(iter(work.corpora.values()))
    for piece in (corpus.Piece(*fields) for fields in pieces):
        number = 0
        for number, document in enumerate(one.documents(piece), 1):
            yield None, document, functools.partial(piece.describe, number)
        if not number and piece.is_whole:
            tally.drop_named(rows_page.EMPTY, piece.path)
