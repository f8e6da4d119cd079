"""What the units of a corpus say of themselves, together: the manifest of the rows."""

import collections
import dataclasses
import hashlib

from jepa_text.data.preparing import work as works
from jepa_text.data.rows import row_folder, writing
from jepa_text.files import partial
from jepa_text.report import rows_page


def made(work, about):
    """The manifest of a folder whose units are all done; ValueError for a split without
    text. `about` is what the tokenizer was."""
    settings, tokenizer = work.settings, work.tokenizer
    parts = [one for _, one in sorted(partial.marked(work.folder).items())]
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
    # Of a corpus in files: how many were read, and what was left out.
    if found := getattr(next(iter(work.corpora.values())), 'found', None):
        manifest['read'] = str(found)
    if sets := work.cleaner.sets if work.cleaner else ():
        manifest['evaluation_sets'] = [dataclasses.asdict(one) for one in sets]
    for split in settings['splits']:
        counts = _together([part['splits'][split] for part in parts])
        if not counts['documents']:
            partial.forget(work.folder)
            left = rows_page.counted(manifest['left_out'])
            raise ValueError(
                f'The corpus has no text in the split {split!r} (source '
                f'{settings["source"]}); documents left out of all splits: '
                f'{left or "none"}. Give a source with at least one document that is not '
                'blank; of a small one hold out more (heldout_every), or leave out less.'
            )
        places = counts['rows'] * settings['row_length']
        manifest['splits'][split] = counts | {'efficiency': counts['tokens'] / places}
    return manifest


def _together(counts):
    """The counts of a split in all units."""
    digests = [one['text_sha256'] for one in counts]
    longest = max(len(one['lengths']) for one in counts)
    lengths = [one['lengths'] + [0] * (longest - len(one['lengths'])) for one in counts]
    return {
        **{key: sum(one[key] for one in counts) for key in writing.COUNTED},
        'lengths': [sum(column) for column in zip(*lengths)],
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
    """The first ones for each reason."""
    together = {}
    for part in parts:
        for reason, some in part.items():
            known = together.setdefault(reason, [])
            known += some[: works.max_examples(reason) - len(known)]
    return dict(sorted(together.items()))
