"""Documents to rows on disk: tokenize, pack, shuffle, shard. Written whole or not at all.

    source --> units --tokenizer--> [bos] ids [eos] --packing--> rows --by seed--> shards

A folder that has a manifest is finished. Units are shared among processes, and each is
done once: killed and called again, it goes on. The same input gives the same bytes,
whoever made them and however often they were stopped.
"""

import collections
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import shutil

from jepa_text.config import resolve, schema
from jepa_text.data.cleaning import settings as cleaning
from jepa_text.data.preparing import processes, unit
from jepa_text.data.preparing import work as works
from jepa_text.data.rows import packing as packings
from jepa_text.data.rows import shards, stored, writing
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
        doc="a tokenizer.json, 'bundled', or 'init_from': that of what the run starts "
        'from'
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
    workers=Config.workers,
    engine=Config.engine,
    beam=Config.beam,
):
    """Writes `folder` and returns its manifest; a finished one is left as it is.

    `source` is a section such as dict(name='bundled') or dict(name='text', path=...),
    `clean` one of cleaning.settings.Config.
    A folder made with the same settings counts as finished even when the corpus has
    changed since: delete it to make it anew. Raises ValueError for unusable settings,
    FileExistsError for a folder of other settings or of something else, ValueError for
    a corpus without text, OSError when the disk has too little room.
    """
    _check(row_length, packing, shards, splits, seed)
    folder = pathlib.Path(paths.local('The folder of rows', folder))
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
    }
    if changed := _cleaning(clean or {}):
        settings['clean'] = changed
    # As the manifest will say it: tuples become lists, paths strings.
    settings = json.loads(json.dumps(settings, default=os.fspath))
    finished = _finished(folder, settings)
    if finished:
        return finished
    # Sources are looked up before anything is written: a wrong name costs nothing.
    corpora = works.corpora(settings)
    plan = {'settings': settings, 'units': works.units(corpora)}
    do = _engine(engine, workers, beam)
    try:
        with partial_files.filled(folder, plan) as here:
            return _write(here, corpora, tokenizer, do)
    except OSError:
        # Another process may have been first.
        finished = _finished(folder, settings)
        if finished is None:
            raise
        return finished


def _check(row_length, packing, shards, splits, seed):
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
    if not splits or isinstance(splits, str):
        raise ValueError(
            f"splits={splits!r} must be a list such as ('train', 'heldout')."
        )


def _finished(folder, settings):
    """The manifest of a finished folder of these settings; None when there is none."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not (folder / stored.MANIFEST).is_file():
        raise FileExistsError(
            f'{folder} exists and holds something other than prepared rows. Name another '
            'folder, or move what is there out of the way.'
        )
    manifest = stored.read_manifest(folder)
    stored.check_sizes(folder, manifest)
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


def _cleaning(section):
    """What a section `clean` asks for, without what is so by default."""
    asked = schema.as_dict(schema.read(cleaning.Config, section, 'prepare.clean'))
    usual = schema.as_dict(cleaning.Config())
    return {key: value for key, value in asked.items() if value != usual[key]}


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


def _write(partial, corpora, tokenizer, do):
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
        return stored.write_manifest(partial, _manifest(work))


def _manifest(work):
    """What the parts say, together; ValueError for a split without text."""
    settings, tokenizer = work.settings, work.tokenizer
    parts = [made for _, made in sorted(partial_files.marked(work.folder).items())]
    manifest = {
        'format': stored.FORMAT,
        'settings': settings,
        'tokenizer_fingerprint': tokenizer.fingerprint,
        'vocab_size': tokenizer.vocab_size,
        'pad_id': tokenizer.pad_id,
        'dtype': stored.dtype_for(tokenizer.vocab_size, settings['row_length']),
        'row_length': settings['row_length'],
        'packing': settings['packing'],
        'files': [stored.entry(work.folder / works.TOKENIZER)],
        'left_out': _sum(part['left_out'] for part in parts),
        'changed': _sum(part['changed'] for part in parts),
        'examples': _examples(part['examples'] for part in parts),
        'splits': {},
    }
    # Of a corpus in files: how many were read, and what was left out.
    if found := getattr(next(iter(work.corpora.values())), 'found', None):
        manifest['read'] = str(found)
    for split in settings['splits']:
        counts = _together([part['splits'][split] for part in parts])
        if not counts['documents']:
            partial_files.forget(work.folder)
            raise ValueError(
                f'The corpus has no text in the split {split!r} (source '
                f'{settings["source"]}). Give a source with at least one document that '
                'is not blank; for small text or jsonl corpora lower heldout_every.'
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
            known += some[: works.EXAMPLES - len(known)]
    return dict(sorted(together.items()))
