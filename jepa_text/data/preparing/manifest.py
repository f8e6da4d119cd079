"""The manifest of prepared rows, aggregated from the counts of all units."""

import collections
import dataclasses
import hashlib
import itertools

from jepa_text.data.preparing import work as works
from jepa_text.data.rows import row_folder, writing
from jepa_text.files import partial
from jepa_text.report import rows_page


def build(work, about):
    """Returns the manifest of a folder whose units are all done. `about` describes the
    tokenizer. Raises ValueError for a split without text."""
    settings, tokenizer = work.settings, work.tokenizer
    parts = [part for _, part in sorted(partial.done_parts(work.folder).items())]
    manifest = {
        'format': row_folder.FORMAT,
        'settings': settings,
        'tokenizer': about,
        'tokenizer_fingerprint': tokenizer.fingerprint,
        'vocab_size': tokenizer.vocab_size,
        'pad_id': tokenizer.pad_id,
        'dtype': row_folder.dtype_for(tokenizer.vocab_size, settings['row_length']),
        'row_length': settings['row_length'],
        'packing': settings['packing'],
        'files': [row_folder.entry(work.folder / works.TOKENIZER)],
        'left_out': _sum(part['left_out'] for part in parts),
        'changed': _sum(part['changed'] for part in parts),
        'examples': _examples(part['examples'] for part in parts),
        'splits': {},
    }
    # For a corpus of files: how many were read, and which were skipped.
    if found := getattr(next(iter(work.corpora.values())), 'found', None):
        manifest['read'] = str(found)
    if sets := work.cleaner.sets if work.cleaner else ():
        manifest['evaluation_sets'] = [dataclasses.asdict(one) for one in sets]
    for split in settings['splits']:
        counts = _merged([part['splits'][split] for part in parts])
        if not counts['documents']:
            partial.discard_done(work.folder)
            left_out = rows_page.counted(manifest['left_out'])
            raise ValueError(
                f'The corpus has no text in the split {split!r} (source '
                f'{settings["source"]}); documents dropped from all splits: '
                f'{left_out or "none"}. Give a source with more documents that are not '
                'blank; of a small one, change heldout_every, drop less, or prepare only '
                "one split, as splits=('train',)."
            )
        capacity = counts['rows'] * settings['row_length']
        manifest['splits'][split] = counts | {'efficiency': counts['tokens'] / capacity}
    return manifest


def _merged(counts):
    """The counts of a split over all units."""
    digests = [one['text_sha256'] for one in counts]
    lengths = itertools.zip_longest(*(one['lengths'] for one in counts), fillvalue=0)
    return {
        **{key: sum(one[key] for one in counts) for key in writing.COUNTED},
        'lengths': [sum(column) for column in lengths],
        'max_documents': max(one['max_documents'] for one in counts),
        'text_sha256': digests[0]
        if len(digests) == 1
        else hashlib.sha256(''.join(digests).encode()).hexdigest(),
        'files': [file for one in counts for file in one['files']],
    }


def _sum(counts):
    total = collections.Counter()
    for one in counts:
        total.update(one)
    return dict(sorted(total.items()))


def _examples(parts):
    """The first examples for each reason."""
    merged = {}
    for part in parts:
        for reason, examples in part.items():
            known = merged.setdefault(reason, [])
            known += examples[: works.max_examples(reason) - len(known)]
    return dict(sorted(merged.items()))
