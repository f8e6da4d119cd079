"""What a process needs to make any unit of a corpus, and the documents of one.

    unit --read--> document --cleaned--> text --by its hash--> (number, split, text)

Documents are numbered within their unit, those that are left out, too.
"""

import collections
import dataclasses
import functools
import pathlib

from jepa_text.config import resolve, schema
from jepa_text.data import tokenizers
from jepa_text.data.cleaning import cleaner
from jepa_text.data.cleaning import settings as cleaning
from jepa_text.data.corpora import corpus, invalid_text, reading
from jepa_text.files import partial
from jepa_text.report import rows_page

TOKENIZER = 'tokenizer.json'
# Of what is left out for a reason; characters of each; and of what is called by its name.
EXAMPLES, SHOWN, NAMED = 2, 80, 100


@dataclasses.dataclass(frozen=True)
class Work:
    """All that does not depend on the unit.

    folder      that is filled
    settings    of `prepare`, as the manifest tells them
    units       [[piece, ...], ...], or [None] of a source without files
    corpora     {split: documents}
    tokenizer   a tokenizers.Tokenizer
    clean       a cleaning.settings.Config; cleaner of it, or None if nothing is cleaned
    """

    folder: pathlib.Path
    settings: dict
    units: list
    corpora: dict
    tokenizer: tokenizers.Tokenizer
    clean: cleaning.Config
    cleaner: cleaner.Cleaner | None


def corpora(settings):
    """{split: its documents} of the settings of `prepare`."""
    source = settings['source']
    return {
        split: resolve.build('data/sources', source, split=split)
        for split in settings['splits']
    }


def units(found):
    """[[piece, ...], ...] of what `corpora` gives: [None] where a source has no files,
    and its documents are one unit."""
    one = next(iter(found.values()))
    return one.units() if isinstance(one, corpus.Corpus) else [None]


def begin(folder, found=None):
    """The Work of a folder that is being filled, with its tokenizer in it; `found` is
    what `corpora` gave, if it was called."""
    plan = partial.plan_of(folder)
    settings = plan['settings']
    clean = schema.read(cleaning.Config, settings.get('clean', {}), 'prepare.clean')
    return Work(
        folder=pathlib.Path(folder),
        settings=settings,
        units=plan['units'],
        corpora=found or corpora(settings),
        tokenizer=tokenizers.load(pathlib.Path(folder, TOKENIZER)),
        clean=clean,
        cleaner=None if clean == cleaning.Config() else cleaner.Cleaner(clean),
    )


def max_examples(reason):
    """How many of what is left out for a reason are told."""
    return NAMED if rows_page.is_named(reason) else EXAMPLES


class Tally:
    """Counts of what is left out of a unit, or changed, by reason; and examples."""

    def __init__(self):
        self.left_out, self.changed = collections.Counter(), collections.Counter()
        self.examples = {}

    def leave(self, reason, text):
        """Counts a document that is left out."""
        self._count(reason, text[:SHOWN].strip())

    def leave_named(self, reason, where):
        """Counts one that has no text to be shown, and names it."""
        self._count(reason, where)

    def leave_bad(self, bad):
        """Counts a invalid_text.Bad, and names it."""
        self.leave_named(rows_page.BAD + bad.reason, bad.where)

    def _count(self, reason, example):
        self.left_out[reason] += 1
        some = self.examples.setdefault(reason, [])
        if len(some) < max_examples(reason) and example:
            some.append(example)

    def as_dict(self):
        """As JSON has it."""
        examples = {why: some for why, some in sorted(self.examples.items()) if some}
        return {
            'left_out': dict(sorted(self.left_out.items())),
            'changed': dict(sorted(self.changed.items())),
            'examples': examples,
        }


def documents(work, number, tally):
    """(number, split, text) of the documents of a unit that stay, copies among them.

    Raises ValueError for a bad one, unless the settings leave these out.
    """
    heldout_every = getattr(next(iter(work.corpora.values())), 'heldout_every', None)
    skips = work.settings.get('bad_documents') == invalid_text.SKIP
    found = _read(work, work.units[number], tally)
    for count, (split, document, name) in enumerate(found):
        if isinstance(document, invalid_text.Bad):
            if not skips:
                raise document.error()
            tally.leave_bad(document)
            continue
        text = document['text']
        if not text or text.isspace():
            tally.leave_named(rows_page.BLANK, name())
            continue
        if work.cleaner is not None:
            before, (text, reason, notes) = text, work.cleaner.clean(text)
            if reason:
                tally.leave(reason, before)
                continue
            tally.changed.update(notes)
        # Texts that cleaning makes equal are on one side.
        split = split or reading.split_of(text, heldout_every)
        if split in work.corpora:
            yield count, split, text


def _read(work, pieces, tally):
    """(split or None, document or invalid_text.Bad, what gives its name) of a unit; a
    file is read once for all splits. Counts files in which there is no document."""
    if pieces is None:
        source = work.settings['source']['name']
        for split, found in work.corpora.items():
            where = f'{source}, {split}'
            for number, document in enumerate(invalid_text.with_bad(found, where), 1):
                yield split, document, functools.partial(invalid_text.NAME, where, number)
        return
    one = next(iter(work.corpora.values()))
    for piece in (corpus.Piece(*given) for given in pieces):
        number = 0
        for number, document in enumerate(one.documents(piece), 1):
            yield None, document, functools.partial(one.named, piece, number)
        if not number and piece.is_whole:
            tally.leave_named(rows_page.EMPTY, piece.path)
