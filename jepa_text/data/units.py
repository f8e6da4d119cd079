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
import json
import pathlib

from jepa_text.data import partial, sources, tokenizers, tokenizing
from jepa_text.data.cleaning import cleaner, duplicates
from jepa_text.data.corpora import corpus, invalid_text, reading
from jepa_text.data.rows import writing
from jepa_text.data.section import Clean
from jepa_text.parallel import exits
from jepa_text.report import progress, rows_page
from jepa_text.settings import schema

TOKENIZER, SCRATCH = 'tokenizer.json', 'work'  # names in the partial folder
# The format version of a unit's mark; a partial folder of another version starts over.
MARKS = 4
NO_TOKENS = 'no tokens'  # a reason to drop a document
EXAMPLES, SHOWN = 10, 200  # of what is dropped for a reason; characters of a text


@dataclasses.dataclass(frozen=True)
class Work:
    """Everything that does not depend on the unit.

    settings    of `prepare`, as in the manifest
    units       [[piece, ...], ...], or [None] for a source without files
    corpora     {split: documents}
    """

    folder: pathlib.Path
    settings: dict
    units: list
    corpora: dict
    tokenizer: tokenizers.Tokenizer
    cleaner: cleaner.Cleaner


def corpora(settings, commit=''):
    """Returns {split: documents} of the source in the settings of `prepare`, of a name on
    the hub at a `commit`."""
    source = settings['source']
    if commit:
        source = {**source, 'path': f'{source["path"].partition("@")[0]}@{commit}'}
    return {split: sources.build(source, split) for split in settings['splits']}


def of(corpora):
    """Returns the units of `corpora`, [[piece, ...], ...]; [None] if the source has no
    files, so that its documents are one unit."""
    one = next(iter(corpora.values()))
    return one.units() if isinstance(one, corpus.Corpus) else [None]


def load(folder):
    """Returns the Work of a partial folder that has a tokenizer."""
    plan = json.loads(pathlib.Path(folder, partial.PLAN).read_text(encoding='utf-8'))
    settings = plan['settings']
    clean = schema.read(Clean, settings.get('clean', {}), 'prepare.clean')
    return Work(
        folder=pathlib.Path(folder),
        settings=settings,
        units=plan['units'],
        corpora=corpora(settings, plan.get('commit')),
        tokenizer=tokenizers.load(pathlib.Path(folder, TOKENIZER)),
        cleaner=cleaner.Cleaner(clean),
    )


def hash_documents(folder, numbers):
    """Writes the hashes of the documents of units."""
    _for_each('hash', _hash, folder, numbers)


def find_duplicates(folder, count):
    """Finds the duplicates among the documents of all units, so many."""
    duplicates.decide(pathlib.Path(folder, SCRATCH), count)


def make_shards(folder, numbers):
    """Writes the shards of units into the folder, and marks each as done.

    Raises ValueError for a long document that cannot be cut, and what the source raises.
    """
    _for_each('prepare', _make_shards, folder, numbers)


def _for_each(label, call, folder, numbers):
    with exits.config_errors(), progress.Progress(label, len(numbers)) as bar:
        work = load(folder)
        for count, number in enumerate(numbers, 1):
            call(work, number)
            bar.update(count)


def _hash(work, number):
    pairs = ((count, text) for count, _, text in documents(work, number, Tally()))
    duplicates.write(work.folder / SCRATCH, number, pairs)


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
    partial.mark_done(work.folder, number, {'splits': splits, **tally.as_dict()})


def _originals(work, number, tally):
    """Yields the documents of a unit as dicts of split and text, without duplicates."""
    copies = set()
    if work.cleaner.config.exact_duplicates:
        copies = duplicates.copies(work.folder / SCRATCH, number)
    for count, split, text in documents(work, number, tally):
        if count in copies:
            tally.drop(duplicates.REASON, text)
        else:
            yield {'split': split, 'text': text}


class Tally:
    """Counts of dropped documents by reason, with the first EXAMPLES of each."""

    def __init__(self):
        self.left_out, self.examples = collections.Counter(), {}

    def drop(self, reason, example):
        """Counts a dropped document; `example` is its name, or the beginning of its
        text."""
        self.left_out[reason] += 1
        examples = self.examples.setdefault(reason, [])
        if len(examples) < EXAMPLES:
            is_name = rows_page.is_named(reason)
            examples.append(example if is_name else example[:SHOWN].strip())

    def drop_bad(self, bad):
        self.drop(rows_page.BAD + bad.reason, bad.where)

    def as_dict(self):
        return {
            'left_out': dict(sorted(self.left_out.items())),
            'examples': dict(sorted(self.examples.items())),
        }


def documents(work, number, tally):
    """Yields (number, split, text) of the documents of a unit that remain after cleaning,
    before deduplication, and counts the others in `tally`."""
    heldout_every = getattr(next(iter(work.corpora.values())), 'heldout_every', None)
    read = _read(work, work.units[number])
    for count, (split, document, name) in enumerate(read):
        if isinstance(document, invalid_text.Bad):
            tally.drop_bad(document)
            continue
        text = document['text']
        if not text or text.isspace():
            tally.drop(rows_page.BLANK, name())
            continue
        before, (text, reason) = text, work.cleaner.clean(text)
        if reason:
            tally.drop(reason, before)
            continue
        # By the cleaned text, so that texts that become equal are in the same split.
        split = reading.split_of(text, heldout_every) if heldout_every else split
        if split in work.corpora:
            yield count, split, text


def _read(work, pieces):
    """Yields (split or None, document or invalid_text.Bad, function that returns its
    name) of a unit; files are read once for all splits."""
    if pieces is None:
        source = work.settings['source']['name']
        for split, documents in work.corpora.items():
            describe = functools.partial(invalid_text.NAME, f'{source}, {split}')
            checked = invalid_text.with_bad(documents, describe)
            for number, document in enumerate(checked, 1):
                yield split, document, functools.partial(describe, number)
        return
    one = next(iter(work.corpora.values()))
    for piece in (corpus.Piece(*fields) for fields in pieces):
        for number, document in enumerate(one.documents(piece), 1):
            yield None, document, functools.partial(piece.describe, number)
