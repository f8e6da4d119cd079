"""Preparation of documents as rows on disk: tokenize, pack, shuffle and shard.

    source --> units --tokenizer--> [bos] ids [eos] --packing--> rows --by seed--> shards

A folder is written atomically: one with a manifest is complete. The engine distributes
the units, and each is done once, so that an interrupted run resumes when called again.
The output is the same for every engine, any number of processes and interruptions.
"""

import collections
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import shutil

from jepa_text import engine
from jepa_text.data import partial as partial_files
from jepa_text.data import units
from jepa_text.data.cleaning import cleaner, duplicates
from jepa_text.data.rows import row_folder, writing
from jepa_text.data.section import Clean, Prepare
from jepa_text.files import paths
from jepa_text.report import rows_page
from jepa_text.settings import schema

TASKS = 100  # at most, in processes of their own, which take a second to start
# Fields that are always part of a manifest's settings, in this order.
STORED = ('source', 'tokenizer', 'splits', 'row_length', 'packing', 'shards', 'seed')
STORED = (*STORED, 'add_bos', 'add_eos')


def prepare(source, tokenizer, folder, *, tokenizer_about=None, **options):
    """Writes `folder` and returns its manifest; if it is complete, it is unchanged.

    `source` is a section such as dict(name='bundled') or dict(name='text', path=...);
    `options` are the other fields of section.Prepare, of which row_length is required.
    `tokenizer_about`, a dict that describes the tokenizer, is stored in the manifest; a
    `commit` in it is one of the settings. A folder made with the same settings counts as
    complete even if the corpus has changed since: delete it to prepare it again. Raises
    ValueError for invalid options or a corpus without text, FileExistsError for a folder
    with other settings or other content, OSError (of ArrayRecord: RuntimeError) if the
    disk is full.
    """
    given = {'source': dict(source), 'tokenizer': tokenizer.fingerprint, **options}
    config = schema.read(Prepare, given, 'prepare')
    folder = pathlib.Path(paths.local('The folder of rows', folder))
    about = tokenizer_about or {}
    settings = {key: getattr(config, key) for key in STORED}
    settings |= _non_default(about.get('commit'), config)
    # As in the manifest: tuples become lists, paths strings.
    settings = json.loads(json.dumps(settings, default=os.fspath))
    if finished := _finished(folder, settings):
        return finished
    # Sources are opened before anything is written, so that a wrong name fails early.
    corpora = units.corpora(settings)
    plan = dict(settings=settings, units=units.of(corpora), marks=units.MARKS)
    # A branch may move meanwhile; tasks list the files again.
    if settings['source']['name'] == 'hub':
        plan['commit'] = next(iter(corpora.values())).listed.commit
    # All units are searched for the same texts. Without sets, older plans stay equal.
    if sets := cleaner.checksums_of(config.clean):
        plan['evaluation_sets'] = sets
    try:
        with partial_files.open_folder(folder, plan) as partial:
            return _write(partial, tokenizer, config.engine, about)
    except OSError:
        # Another process may have completed the folder first.
        if finished := _finished(folder, settings):
            return finished
        raise


def _finished(folder, settings):
    """The manifest of a complete folder with these settings; None if there is none."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not (folder / row_folder.MANIFEST).is_file():
        raise FileExistsError(
            f'{folder} exists, but does not contain prepared rows. Choose another '
            'folder, or move its content away.'
        )
    manifest = row_folder.read_manifest(folder)
    row_folder.check_sizes(folder, manifest)
    before = manifest['settings']
    changed = [
        f'{key} was {before.get(key)!r} and is now {settings.get(key)!r}'
        for key in sorted(before.keys() | settings.keys())
        if before.get(key) != settings.get(key)
    ]
    if changed:
        raise FileExistsError(
            f'{folder} was prepared with other settings: {"; ".join(changed)}. Choose '
            'another folder, or delete this one to prepare it again.'
        )
    return manifest


def _non_default(commit, config):
    """Settings that are stored only if they are not the default."""
    usual = schema.as_dict(Clean())
    clean = schema.as_dict(config.clean)
    changed = {key: value for key, value in clean.items() if value != usual[key]}
    settings = {'tokenizer_commit': commit, 'clean': changed}
    return {key: value for key, value in settings.items() if value}


def _write(partial, tokenizer, options, about):
    tokenizer.save(partial / units.TOKENIZER)
    work = units.load(partial)
    with engine.opened(options, partial / units.SCRATCH) as run:

        def on_end(_, outcome):
            if outcome.error:
                raise outcome.error  # which stops the other tasks

        run(_tasks(work, options), on_end)
    # Of a process that was killed after this line, no task is left to make it again.
    if (partial / units.SCRATCH).exists():
        shutil.rmtree(partial / units.SCRATCH)
    return row_folder.write_manifest(partial, _manifest(work, about))


def _tasks(work, options):
    done, scratch = partial_files.done_parts(work.folder), work.folder / units.SCRATCH
    left = [number for number in range(len(work.units)) if number not in done]
    if not left:
        return []
    if not work.cleaner.config.exact_duplicates:
        return _shared(units.make_shards, work, left, options)
    count = len(work.units)
    new = [n for n in range(count) if not duplicates.is_written(scratch, n)]
    hashed = _shared(units.hash_documents, work, new, options)
    after = tuple(task.name for task in hashed)
    compared = _task(units.find_duplicates, work, count, '', options, after)
    after = (compared.name,)
    return [*hashed, compared, *_shared(units.make_shards, work, left, options, after)]


def _shared(function, work, numbers, options, after=()):
    """Returns tasks that call function(folder, some of the numbers)."""
    limit = 1 if options.is_in_process else TASKS
    some = [numbers[at::limit] for at in range(min(limit, len(numbers)))]
    return [
        _task(function, work, one, f' {at} of {len(some)}', options, after)
        for at, one in enumerate(some, 1)
    ]


def _task(function, work, argument, label, options, after):
    """Returns the engine.Task function(folder, argument), with its share of the cores."""
    threads = options.cpus
    if options.name == 'local':
        threads = (os.cpu_count() or 1) // options.jobs
    return engine.Task(
        f'prepare: {function.__name__.replace("_", " ")}{label}',
        f'{function.__module__}.{function.__name__}',
        [str(work.folder.absolute()), argument],
        after,
        # For the tokenizers library.
        {'RAYON_NUM_THREADS': f'{max(1, threads):.0f}', 'TOKENIZERS_PARALLELISM': 'true'},
    )


def _manifest(work, about):
    """Returns the manifest of a folder whose units are all done. `about` describes the
    tokenizer. Raises ValueError for a split without text."""
    settings, tokenizer = work.settings, work.tokenizer
    parts = [part for _, part in sorted(partial_files.done_parts(work.folder).items())]
    left_out = collections.Counter()
    for part in parts:
        left_out.update(part['left_out'])
    left_out = dict(sorted(left_out.items()))
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
        'files': [row_folder.entry(work.folder / units.TOKENIZER)],
        'left_out': left_out,
        'examples': _examples(part['examples'] for part in parts),
        'splits': {},
    }
    # For a corpus of files: how many were read, and which were skipped.
    if listed := getattr(next(iter(work.corpora.values())), 'listed', None):
        manifest['read'] = str(listed)
    if sets := work.cleaner.sets:
        manifest['evaluation_sets'] = [dataclasses.asdict(one) for one in sets]
    for split in settings['splits']:
        counts = _merged([part['splits'][split] for part in parts])
        if not counts['documents']:
            partial_files.discard_done(work.folder)
            said = ''.join(f'{line}. ' for line in rows_page.problems(manifest))
            raise ValueError(
                f'The corpus has no text in the split {split!r} (source '
                f'{settings["source"]}). {said}Give a source with more documents that '
                'are not blank (a document of a .txt ends at a blank line); of a small '
                'one, change heldout_every, or prepare only one split, as '
                "splits=('train',)."
            )
        capacity = counts['rows'] * settings['row_length']
        manifest['splits'][split] = counts | {'efficiency': counts['tokens'] / capacity}
    return manifest


def _merged(counts):
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


def _examples(parts):
    """The first examples for each reason."""
    merged = {}
    for part in parts:
        for reason, examples in part.items():
            known = merged.setdefault(reason, [])
            known += examples[: units.EXAMPLES - len(known)]
    return dict(sorted(merged.items()))
