"""Documents to rows on disk: tokenize, pack, shuffle, shard. Written whole or not at all.

    source --tokenizer--> [bos] ids [eos] --packing--> rows --shuffled by seed--> shards

A folder that has a manifest is finished. The tokens of one split are held in memory (2 or
4 bytes each), of its text one document. The same input gives the same bytes.
"""

import dataclasses
import json
import os
import pathlib

import numpy as np

from jepa_text.config import resolve, schema
from jepa_text.data import packing as packings
from jepa_text.data import rows, tokenizing
from jepa_text.data import shards as shard_files
from jepa_text.files import atomic, paths

MIN_ROW_LENGTH = 8


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
        'best_fit', "documents into rows: 'best_fit', or 'concat' to cut at any place"
    )
    shards: int = schema.field(4, 'files of each split', minimum=1)
    seed: int = schema.field(0, 'of the order of rows', minimum=0)
    add_bos: bool = schema.field(True, '<bos> before a document')
    add_eos: bool = schema.field(True, '<eos> after it')


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
):
    """Writes `folder` and returns its manifest; a finished one is left as it is.

    `source` is a section such as dict(name='bundled') or dict(name='text', path=...).
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
    # As the manifest will say it: tuples become lists, paths strings.
    settings = json.loads(json.dumps(settings, default=os.fspath))
    finished = _finished(folder, settings)
    if finished:
        return finished
    # Sources are looked up before anything is written: a wrong name costs nothing.
    corpus = {s: resolve.build('data/sources', source, split=s) for s in splits}
    try:
        with atomic.folder(folder) as partial:
            return _write(partial, corpus, tokenizer, settings)
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
    if not (folder / rows.MANIFEST).is_file():
        raise FileExistsError(
            f'{folder} exists and holds something other than prepared rows. Name another '
            'folder, or move what is there out of the way.'
        )
    manifest = rows.read_manifest(folder)
    rows.check_sizes(folder, manifest)
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


def _write(partial, corpus, tokenizer, settings):
    """Writes all shards, the tokenizer and the manifest into the partial folder."""
    with shard_files.clear_disk_errors(partial):
        tokenizer.save(partial / 'tokenizer.json')
    manifest = {
        'format': rows.FORMAT,
        'settings': settings,
        'tokenizer_fingerprint': tokenizer.fingerprint,
        'vocab_size': tokenizer.vocab_size,
        'pad_id': tokenizer.pad_id,
        'dtype': rows.dtype_for(tokenizer.vocab_size, settings['row_length']),
        'row_length': settings['row_length'],
        'packing': settings['packing'],
        'files': [rows.entry(partial / 'tokenizer.json')],
        'splits': {},
    }
    # Of a corpus in files: how many were read, and what was left out.
    if found := getattr(next(iter(corpus.values())), 'found', None):
        manifest['read'] = str(found)
    for number, (split, documents) in enumerate(corpus.items()):
        tokens, counts = tokenizing.tokenize(
            documents, tokenizer, settings, manifest['dtype']
        )
        if not counts['documents']:
            raise ValueError(
                f'The corpus has no text in the split {split!r} (source '
                f'{settings["source"]}). Give a source with at least one document that '
                'is not blank; for small text or jsonl corpora lower heldout_every.'
            )
        rng = np.random.default_rng([settings['seed'], number])
        manifest['splits'][split] = counts | _write_split(
            partial, split, tokens, manifest, rng
        )
    with shard_files.clear_disk_errors(partial):
        return rows.write_manifest(partial, manifest)


def _write_split(partial, split, tokens, manifest, rng):
    """Packs the documents of a split and writes its shards; returns their counts."""
    row_length, dtype = manifest['row_length'], manifest['dtype']
    pack = packings.PACKINGS[manifest['packing']]
    packed = pack([len(document) for document in tokens], row_length)
    # Full rows come first out of the packing: shuffled, so every shard is alike and the
    # first n rows are a fair sample.
    order = rng.permutation(len(packed))
    shards = np.array_split(order, min(manifest['settings']['shards'], len(order)))
    values = len(packed) * row_length + len(packed.length)
    # A record costs about 100 bytes beside its values, a file 64 KiB blocks.
    needed = values * np.dtype(dtype).itemsize + 100 * len(packed) + 2**18 * len(shards)
    shard_files.check_free_space(partial, needed)

    def record(row):
        pieces = [tokens[d][start : start + n] for d, start, n in packed[row]]
        return rows.to_record(pieces, row_length, manifest['pad_id'], dtype)

    entries = []
    for number, row_numbers in enumerate(shards):
        path = partial / rows.shard_name(split, number, len(shards))
        shard_files.write_shard(path, map(record, row_numbers))
        entries.append(rows.entry(path) | {'rows': len(row_numbers)})
    return {
        'tokens': packed.tokens,
        'rows': len(packed),
        'efficiency': packed.tokens / (len(packed) * row_length),
        'files': entries,
    }
