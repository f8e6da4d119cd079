"""A unit of a corpus -> its shards; and, if copies are to be left out, before that its
fingerprints.

    fingerprint(each unit) --> decide(all) --> make(each unit)
"""

import json

from jepa_text.data.cleaning import duplicates, fingerprints, spans
from jepa_text.data.preparing import tokenizing
from jepa_text.data.preparing import work as works
from jepa_text.data.rows import shards, writing
from jepa_text.files import atomic, partial

FINGERPRINTS, DECIDED = 'fingerprints', 'decided.json'
# The version of what is marked of a unit: a folder half filled by another begins anew.
MARKS = 3
COMPARED = f'{FINGERPRINTS}/*.documents'  # files of units that need not be read again


def fingerprint(work, number):
    """Writes what tells the copies among the documents of unit `number`."""
    folder = work.folder / FINGERPRINTS
    with (
        shards.clear_disk_errors(work.folder),
        fingerprints.Writer(folder, number, work.clean) as writer,
    ):
        for count, _, text in works.documents(work, number, works.Tally()):
            writer.add(count, text)


def has_fingerprint(work, number):
    """Is `fingerprint` of this unit done?"""
    return fingerprints.is_complete(work.folder / FINGERPRINTS, number)


def decide(work):
    """Decides which documents are left out as copies, once all units have fingerprints;
    once only."""
    folder = work.folder / FINGERPRINTS
    if not (folder / DECIDED).is_file():
        numbers = range(len(work.units))
        decision = duplicates.decide(folder, numbers, work.clean)
        atomic.write(folder / DECIDED, json.dumps(decision._asdict()))


def make(work, number):
    """Writes the shards of unit `number` into the folder, and marks it as done.

    Raises ValueError for a long document in which no place can be cut, OSError when the
    disk is full, and whatever the source raises.
    """
    settings, tally = work.settings, works.Tally()
    count = len(work.units)
    share = -(-settings['shards'] // count)
    made = {
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
        documents = _originals(work, number, tally)
        for document, ids in tokenizing.encoded(documents, work.tokenizer):
            made[document['split']].add(document['text'], ids)
        splits = {
            split: one.close(number * share, count * share) for split, one in made.items()
        }
    finally:
        for one in made.values():
            one.abandon()
    with shards.clear_disk_errors(work.folder):
        partial.mark(work.folder, number, {'splits': splits, **tally.as_dict()})


def _originals(work, number, tally):
    """Documents of a unit as dicts of split and text, without copies."""
    copies, repeated = {}, {}
    folder = work.folder / FINGERPRINTS
    if work.clean.finds_duplicates:
        copies = duplicates.left_out(folder, number, work.clean)
    if work.clean.repeated_spans:
        repeated = spans.repeated(fingerprints.Part(folder, number, work.clean))
    for count, split, text in works.documents(work, number, tally):
        if count in copies:
            tally.leave(copies[count], text)
            continue
        if count in repeated:
            before, text = text, spans.without(text, repeated[count])
            if not text:
                tally.leave(spans.REASON, before)
                continue
            tally.changed[spans.NOTE] += 1
        yield {'split': split, 'text': text}
