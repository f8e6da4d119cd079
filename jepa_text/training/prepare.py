"""Config -> rows on disk: what `jepa-text prepare` does."""

import shutil
import time
import uuid
from pathlib import Path

import numpy as np

from jepa_text.config import schema
from jepa_text.data import pipeline
from jepa_text.data.prepare import Config, prepare
from jepa_text.data.rows import downloaded, row_folder
from jepa_text.files import addresses, cache, paths, transfer
from jepa_text.report import rows_page
from jepa_text.training import named_tokenizer

REPORT = 'report.html'


def run(config, workdir, verify=False):
    """The command: `make` of the sections of a config, rows in `workdir`; or, to
    `verify`, reads what is there and compares it with its checksums."""
    if verify:
        return _verify(workdir)
    data = config.get('data') or {}
    budget = (config.get('steps') or 0) * (data.get('batch_size') or 0)
    if tokens := config.get('tokens'):
        budget = tokens // (data.get('row_length') or tokens)
    return make(config.get('prepare'), workdir, config.get('init_from'), budget)


def _verify(folder):
    manifest = pipeline.verify(folder)
    files = row_folder.files(manifest)
    size = sum(entry['bytes'] for _, entry in files)
    print(f'{folder}: {len(files):,} files, {size / 1e6:,.1f} MB, all as they were made')
    return manifest


def make(section, folder, source=None, budget=0):
    """`prepare` with the keywords of a section, rows in the folder; prints a report of
    new rows and writes it beside them.

    The section's tokenizer is a name as named_tokenizer has it; `budget` are the rows
    that training asks for, 0 if that is not known. Raises ValueError for a keyword that
    `prepare` does not take, and whatever `prepare` raises.
    """
    if addresses.is_address(folder):
        return _away(section, folder, source, budget)
    section = schema.resolved(Config, section, 'prepare')
    opened = named_tokenizer.opened(section.pop('tokenizer'), source)
    was_there = Path(folder, row_folder.MANIFEST).exists()
    began = time.monotonic()
    section |= {'tokenizer': opened.tokenizer, 'tokenizer_about': opened.about()}
    manifest = prepare(folder=folder, **section)
    seconds = None if was_there else time.monotonic() - began
    print(f'{folder}: ' + ('already prepared' if was_there else 'prepared'))
    for line in rows_page.lines(manifest, seconds, budget):
        print(f'  {line}')
    if not was_there:
        texts = _some(folder, manifest, opened.tokenizer)
        rows_page.write(Path(folder, REPORT), manifest, texts, seconds, budget)
        print(f'  {Path(folder, REPORT)}: all this, and {len(texts)} of the rows')
    return manifest


def _some(folder, manifest, tokenizer):
    """Rows of the first split as text, a | between the documents of one."""
    data = pipeline.Rows(folder, next(iter(manifest['splits'])))
    count = min(rows_page.ROWS, len(data))
    texts = []
    for index in np.random.default_rng(0).choice(len(data), count, replace=False):
        tokens_L, segments_L = data[index]['tokens'], data[index]['segment_ids']
        pieces = [tokens_L[segments_L == n] for n in range(1, segments_L.max() + 1)]
        text = ' | '.join(tokenizer.decode(piece) for piece in pieces)
        texts.append(' '.join(text.split())[: rows_page.LETTERS])
    return texts


def _away(section, address, source, budget):
    """As `make`, at an address: made here, then copied there, the manifest last."""
    transfer.check_free(address)
    held = cache.hold(f'making-{uuid.uuid4().hex[:8]}')
    try:
        manifest = make(section, str(held / 'rows'), source, budget)
        transfer.folder(held / 'rows', address, row_folder.MANIFEST)
    finally:
        shutil.rmtree(held)
    print(f'{address}: copied there')
    return manifest


def if_missing(section, folder, source=None):
    """Makes the rows that a section describes, unless their folder is there; nothing
    without a section."""
    if not section:
        return
    away = addresses.is_address(folder)
    folder = folder if away else paths.local('data.folder', folder)
    if not (downloaded.is_there(folder) if away else Path(folder).exists()):
        make(section, folder, source)
    elif changed := pipeline.prepared_otherwise(section, folder):
        print(
            f'Note: {folder} was prepared with other settings than config.prepare has: '
            f'{"; ".join(changed)}. It is used as it is; to prepare anew, name another '
            'config.data.folder.'
        )
