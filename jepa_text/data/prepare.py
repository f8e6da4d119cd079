"""Documents to rows on disk: tokenize, pack, shuffle, shard. Written whole or not at all.

    source --> units --tokenizer--> [bos] ids [eos] --packing--> rows --by seed--> shards

A folder that has a manifest is finished. Units are shared among processes, and each is
done once: killed and called again, it goes on. The same input gives the same bytes,
whoever made them and however often they were stopped.
"""

import dataclasses
import functools
import json
import os
import pathlib
import shutil

from jepa_text.config import resolve, schema
from jepa_text.data.cleaning import settings as cleaning
from jepa_text.data.corpora import invalid_text
from jepa_text.data.preparing import manifest as manifests
from jepa_text.data.preparing import processes, unit
from jepa_text.data.preparing import work as works
from jepa_text.data.rows import packing as packings
from jepa_text.data.rows import row_folder, shards
from jepa_text.files import partial as partial_files
from jepa_text.files import paths

MIN_ROW_LENGTH = 8
ENGINES = ('local', 'beam')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `prepare`."""

    source: dict = schema.field(
        doc='where text comes from, as dict(name=...)',
        folder='data/sources',
        given=('split',),
    )
    tokenizer: str = schema.field(
        doc="a tokenizer.json, 'bundled', 'hf:NAME[@REVISION]', a .model or .tiktoken "
        "file, 'tiktoken:NAME', or 'init_from': that of what the run starts from"
    )
    row_length: int = schema.field(doc='tokens in a row', minimum=MIN_ROW_LENGTH)
    splits: tuple[str, ...] = schema.field(('train', 'heldout'), 'of the source')
    packing: str = schema.field(
        'best_fit',
        "documents into rows: 'concat' cuts at any place, 'paper' as arXiv 2507.00994",
        choices=tuple(packings.PACKINGS),
    )
    shards: int = schema.field(4, 'files of each split', minimum=1)
    seed: int = schema.field(0, 'of the order of rows', minimum=0)
    add_bos: bool = schema.field(True, '<bos> before a document')
    add_eos: bool = schema.field(True, '<eos> after it')
    clean: cleaning.Config = schema.section(cleaning.Config, 'what is left out')
    bad_documents: str = schema.field(
        invalid_text.ERROR,
        "what is no text (not UTF-8, NULs, halves of surrogate pairs, null): 'skip' "
        'leaves it out, counted and named',
        choices=(invalid_text.ERROR, invalid_text.SKIP),
    )
    workers: int = schema.field(
        0, 'processes, on large corpora; 0: as many as there are cores', minimum=0
    )
    engine: str = schema.field(
        'local',
        "of the work: processes here, or 'beam': machines that all see the folder",
        choices=ENGINES,
    )
    beam: tuple[str, ...] = schema.field((), "its flags, such as '--runner=FlinkRunner'")


def prepare(
    source,
    tokenizer,
    folder,
    *,
    row_length,
    splits=Config.splits,
    packing=Config.packing,
    shards=Config.shards,
    seed=Config.seed,
    add_bos=Config.add_bos,
    add_eos=Config.add_eos,
    clean=None,
    bad_documents=Config.bad_documents,
    workers=Config.workers,
    engine=Config.engine,
    beam=Config.beam,
    tokenizer_about=None,
):
    """Writes `folder` and returns its manifest; a finished one is left as it is.

    `source` is a section such as dict(name='bundled') or dict(name='text', path=...),
    `clean` one of cleaning.settings.Config. The manifest gets `tokenizer_about`, a dict
    of what the tokenizer was; a `commit` in it is one of the settings.
    A folder made with the same settings counts as finished even when the corpus has
    changed since: delete it to make it anew. Raises ValueError for unusable settings,
    FileExistsError for a folder of other settings or of something else, ValueError for
    a corpus without text, OSError when the disk has too little room.
    """
    _check(row_length, packing, shards, splits, seed, bad_documents)
    folder = pathlib.Path(paths.local('The folder of rows', folder))
    about = tokenizer_about or {}
    settings = {
        'source': dict(source),
        'tokenizer': tokenizer.fingerprint,
        'splits': list(splits),
        'row_length': row_length,
        'packing': packing,
        'shards': shards,
        'seed': seed,
        'add_bos': add_bos,
        'add_eos': add_eos,
        **_unusual(about.get('commit'), clean or {}, bad_documents),
    }
    # As the manifest will say it: tuples become lists, paths strings.
    settings = json.loads(json.dumps(settings, default=os.fspath))
    if finished := _finished(folder, settings):
        return finished
    # Sources are looked up before anything is written: a wrong name costs nothing.
    corpora = works.corpora(settings)
    plan = dict(settings=settings, units=works.units(corpora), marks=unit.MARKS)
    do = _engine(engine, workers, beam)
    try:
        with partial_files.filled(folder, plan, unit.COMPARED) as here:
            return _write(here, corpora, tokenizer, do, about)
    except OSError:
        # Another process may have been first.
        if finished := _finished(folder, settings):
            return finished
        raise


def _check(row_length, packing, shards, splits, seed, bad_documents):
    is_whole = isinstance(row_length, int) and not isinstance(row_length, bool)
    if not is_whole or row_length < MIN_ROW_LENGTH:
        raise ValueError(
            f'row_length={row_length!r} must be a whole number of tokens, at least '
            f'{MIN_ROW_LENGTH}; 64 to 8192 are usual.'
        )
    if packing not in packings.PACKINGS:
        raise ValueError(
            f'There is no packing {packing!r}.'
            f'{resolve.nearest(str(packing), packings.PACKINGS)}'
        )
    if not isinstance(shards, int) or not 1 <= shards <= 99_999:
        raise ValueError(f'shards={shards!r} must be a whole number from 1 to 99999.')
    if not isinstance(seed, int) or seed < 0:
        raise ValueError(f'seed={seed!r} must be a whole number from 0 on.')
    if bad_documents not in (invalid_text.ERROR, invalid_text.SKIP):
        raise ValueError(
            f'bad_documents={bad_documents!r}: take {invalid_text.ERROR!r} or '
            f'{invalid_text.SKIP!r}.'
        )
    if not splits or isinstance(splits, str):
        raise ValueError(
            f"splits={splits!r} must be a list such as ('train', 'heldout')."
        )


def _finished(folder, settings):
    """The manifest of a finished folder of these settings; None when there is none."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not (folder / row_folder.MANIFEST).is_file():
        raise FileExistsError(
            f'{folder} exists and holds something other than prepared rows. Name another '
            'folder, or move what is there out of the way.'
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
            f'{folder} was prepared with other settings: {"; ".join(changed)}. Name '
            'another folder, or delete this one to prepare it anew.'
        )
    return manifest


def _unusual(commit, clean, bad_documents):
    """Settings that are told only where they are not the default."""
    asked = schema.as_dict(schema.read(cleaning.Config, clean, 'prepare.clean'))
    usual = schema.as_dict(cleaning.Config())
    changed = {key: value for key, value in asked.items() if value != usual[key]}
    skips = bad_documents if bad_documents != invalid_text.ERROR else ''
    told = {'tokenizer_commit': commit, 'clean': changed, 'bad_documents': skips}
    return {key: value for key, value in told.items() if value}


def _engine(engine, workers, flags):
    """do(work, task, numbers): who does the work."""
    if engine not in ENGINES:
        raise ValueError(
            f'There is no engine {engine!r}.{resolve.nearest(engine, ENGINES)}'
        )
    if engine == 'local':
        return functools.partial(processes.run, workers=workers)
    try:
        from jepa_text.data.preparing import beam
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "prepare.engine='beam' needs Apache Beam, here and on its workers: pip "
            f"install 'jepa-text[beam]' ({error})."
        ) from error
    return functools.partial(beam.run, flags=flags)


def _write(partial, corpora, tokenizer, do, about):
    """Writes all shards, the tokenizer and the manifest into the partial folder."""
    with shards.clear_disk_errors(partial):
        tokenizer.save(partial / works.TOKENIZER)
    work = works.begin(partial, corpora)
    numbers = range(len(work.units))
    if work.clean.finds_duplicates:
        (partial / unit.FINGERPRINTS).mkdir(exist_ok=True)
        left = [n for n in numbers if not unit.has_fingerprint(work, n)]
        do(work, 'compare', left)
        unit.decide(work)
    done = partial_files.marked(partial)
    do(work, 'prepare', [n for n in numbers if n not in done])
    shutil.rmtree(partial / unit.FINGERPRINTS, ignore_errors=True)
    with shards.clear_disk_errors(partial):
        return row_folder.write_manifest(partial, manifests.made(work, about))
