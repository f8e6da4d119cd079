"""Preparation of one unit of a corpus: fingerprints for deduplication, then shards.

    compare: fingerprint(each unit), decide  -->  make(each unit)

The first step is skipped unless duplicates are dropped.
"""

from jepa_text.data.cleaning import duplicates
from jepa_text.data.preparing import tokenizing
from jepa_text.data.preparing import work as works
from jepa_text.data.rows import shards, writing
from jepa_text.files import atomic, partial

FINGERPRINTS, DECIDED = 'fingerprints', 'decided'
# The format version of a unit's mark; a partial folder of another version starts over.
MARKS = 3
NO_TOKENS = 'no tokens'  # a reason to drop a document
COMPARED = f'{FINGERPRINTS}/*.documents'  # files of the units with fingerprints


def fingerprint(work, number):
    """Writes the fingerprints of the documents of unit `number`."""
    found = works.documents(work, number, works.Tally())
    with shards.clear_disk_errors(work.folder):
        pairs = ((count, text) for count, _, text in found)
        duplicates.write(work.folder / FINGERPRINTS, number, pairs)


def compare(work, run):
    """Finds the duplicates among the documents of all units. `run(work, task, numbers)`
    does a task of processes.TASKS; what is already done is not repeated."""
    folder, numbers = work.folder / FINGERPRINTS, range(len(work.units))
    folder.mkdir(exist_ok=True)
    left = [n for n in numbers if not duplicates.is_written(folder, n)]
    run(work, 'compare', left)
    if not (folder / DECIDED).is_file():
        duplicates.decide(folder, len(numbers))
        atomic.write(folder / DECIDED, '')


def make(work, number):
    """Writes the shards of unit `number` into the folder, and marks it as done.

    Raises ValueError for a long document that cannot be cut, OSError if the disk is full,
    and what the source raises.
    """
    settings, tally = work.settings, works.Tally()
    count = len(work.units)
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
        documents = _originals(work, number, tally)
        for document, ids in tokenizing.encoded(documents, work.tokenizer):
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
        copies = duplicates.copies(work.folder / FINGERPRINTS, number)
    for count, split, text in works.documents(work, number, tally):
        if count in copies:
            tally.drop(duplicates.REASON, text)
        else:
            yield {'split': split, 'text': text}
