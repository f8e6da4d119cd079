"""Preparation of documents as rows on disk: tokenize, pack, shuffle and shard.

    source --> units --tokenizer--> [bos] ids [eos] --packing--> rows --by seed--> shards

A folder is written atomically: one with a manifest is complete. Units are distributed to
processes, and each is done once, so that an interrupted run resumes when called again.
The output is the same for any number of processes and interruptions.
"""

import dataclasses
import functools
import json
import os
import pathlib
import shutil

from jepa_text.config import schema
from jepa_text.data.cleaning import cleaner
from jepa_text.data.corpora import invalid_text
from jepa_text.data.preparing import manifest as manifests
from jepa_text.data.preparing import processes, unit
from jepa_text.data.preparing import work as works
from jepa_text.data.rows import packing as packings
from jepa_text.data.rows import row_folder, shards
from jepa_text.files import partial as partial_files
from jepa_text.files import paths

# Fields that are always part of a manifest's settings, in this order.
STORED = ('source', 'tokenizer', 'splits', 'row_length', 'packing', 'shards', 'seed')
STORED = (*STORED, 'add_bos', 'add_eos')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `prepare`."""

    source: dict = schema.field(
        doc='the source of the text, as dict(name=...)',
        folder='data/sources',
        given=('split',),
    )
    tokenizer: str = schema.field(
        doc="a tokenizer.json, 'bundled', 'hf:NAME[@REVISION]', a .model or .tiktoken "
        "file, 'tiktoken:NAME', or 'init_from': the one of the initial checkpoint"
    )
    row_length: int = schema.field(doc='tokens per row', minimum=8)
    splits: tuple[str, ...] = schema.field(('train', 'heldout'), 'splits of the source')
    packing: str = schema.field(
        'best_fit',
        "how rows are packed: 'concat' cuts anywhere, 'paper' follows arXiv 2507.00994",
        choices=tuple(packings.PACKINGS),
    )
    shards: int = schema.field(4, 'files per split', minimum=1, maximum=99_999)
    seed: int = schema.field(0, 'seed of the order of rows', minimum=0)
    add_bos: bool = schema.field(True, 'add <bos> before each document')
    add_eos: bool = schema.field(True, 'add <eos> after each document')
    clean: cleaner.Config = schema.section(cleaner.Config, 'cleaning of the documents')
    bad_documents: str = schema.field(
        invalid_text.ERROR,
        "for invalid text (not UTF-8, NUL, half a surrogate pair, null): 'skip' counts "
        'and reports it',
        choices=(invalid_text.ERROR, invalid_text.SKIP),
    )
    workers: int = schema.field(
        0, 'number of processes; 0 for the number of cores', minimum=0
    )
    engine: str = schema.field(
        'local',
        "'local' processes, or 'beam' for machines that share the folder",
        choices=('local', 'beam'),
    )
    beam: tuple[str, ...] = schema.field((), "Beam flags, such as '--runner=FlinkRunner'")

    def __post_init__(self):
        if not self.splits:
            raise ValueError(
                "prepare.splits is empty: name some, such as ('train', 'heldout')."
            )


def prepare(source, tokenizer, folder, *, tokenizer_about=None, **options):
    """Writes `folder` and returns its manifest; if it is complete, it is unchanged.

    `source` is a section such as dict(name='bundled') or dict(name='text', path=...);
    `options` are the other fields of Config, of which row_length is required.
    `tokenizer_about`, a dict that describes the tokenizer, is stored in the manifest; a
    `commit` in it is one of the settings. A folder made with the same settings counts as
    complete even if the corpus has changed since: delete it to prepare it again. Raises
    ValueError for invalid options or a corpus without text, FileExistsError for a folder
    with other settings or other content, OSError if the disk has too little space.
    """
    given = {'source': dict(source), 'tokenizer': tokenizer.fingerprint, **options}
    config = schema.read(Config, given, 'prepare')
    folder = pathlib.Path(paths.local('The folder of rows', folder))
    about = tokenizer_about or {}
    settings = {key: getattr(config, key) for key in STORED}
    settings |= _non_default(about.get('commit'), config)
    # As in the manifest: tuples become lists, paths strings.
    settings = json.loads(json.dumps(settings, default=os.fspath))
    if finished := _finished(folder, settings):
        return finished
    # Sources are opened before anything is written, so that a wrong name fails early.
    corpora = works.corpora(settings)
    works.check_splits(corpora, settings)
    plan = dict(settings=settings, units=works.units(corpora), marks=unit.MARKS)
    run = _engine(config)
    try:
        with partial_files.open_folder(folder, plan, unit.COMPARED) as partial:
            return _write(partial, corpora, tokenizer, run, about)
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
    usual = schema.as_dict(cleaner.Config())
    clean = schema.as_dict(config.clean)
    changed = {key: value for key, value in clean.items() if value != usual[key]}
    bad = config.bad_documents if config.bad_documents != invalid_text.ERROR else ''
    settings = {'tokenizer_commit': commit, 'clean': changed, 'bad_documents': bad}
    return {key: value for key, value in settings.items() if value}


def _engine(config):
    """Returns run(work, task, numbers), which does a task for the units of `numbers`."""
    if config.engine == 'local':
        return functools.partial(processes.run, workers=config.workers)
    try:
        from jepa_text.data.preparing import beam
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "prepare.engine='beam' needs Apache Beam, here and on the workers: pip "
            f"install 'jepa-text[beam]' ({error})."
        ) from error
    return functools.partial(beam.run, flags=config.beam)


def _write(partial, corpora, tokenizer, run, about):
    """Writes all shards, the tokenizer and the manifest into the partial folder."""
    with shards.clear_disk_errors(partial):
        tokenizer.save(partial / works.TOKENIZER)
    work = works.load(partial, corpora)
    done = partial_files.done_parts(partial)
    left = [n for n in range(len(work.units)) if n not in done]
    if left and work.clean.exact_duplicates:
        unit.compare(work, run)
    run(work, 'prepare', left)
    shutil.rmtree(partial / unit.FINGERPRINTS, ignore_errors=True)
    with shards.clear_disk_errors(partial):
        return row_folder.write_manifest(partial, manifests.build(work, about))
