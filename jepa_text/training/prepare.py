"""The command `jepa-text prepare`: turns text into rows on disk."""

import dataclasses
import os
import shutil
import time
from pathlib import Path

import numpy as np

from jepa_text.data import pipeline
from jepa_text.data.prepare import prepare
from jepa_text.data.rows import row_folder
from jepa_text.data.section import Prepare
from jepa_text.files import addresses, checksums, copies, paths
from jepa_text.hf import named_tokenizer
from jepa_text.report import rows_page
from jepa_text.settings import schema
from jepa_text.training import tokenizer

REPORT = 'report.html'


def run(config, workdir, verify=False, is_brief=False):
    """Prepares rows in `workdir` from the sections of a config, and prints a report, or
    only sizes and problems.

    With `verify`, compares existing rows with their checksums instead. Returns the
    manifest of the rows.
    """
    if verify:
        manifest = pipeline.verify(workdir)
        files = row_folder.files(manifest)
        size = sum(entry['bytes'] for _, entry in files) / 1e6
        print(f'{workdir}: {len(files):,} files, {size:,.1f} MB, all checksums match')
        return manifest
    data = config.get('data') or {}
    budget = (config.get('steps') or 0) * (data.get('batch_size') or 0)
    if tokens := config.get('tokens'):
        budget = tokens // (data.get('row_length') or tokens)
    source = config.get('init_from')
    return make(config.get('prepare'), workdir, source, budget, is_brief)


def make(section, folder, source=None, budget=0, is_brief=False):
    """Prepares rows in a folder from a section `prepare`, and returns their manifest.

    Prints a report, or only sizes and problems, and writes it next to the rows unless it
    exists. The section's tokenizer is a name as in named_tokenizer; `source` is the
    section `init_from`; `budget` is the number of rows that training needs, 0 if unknown.
    Raises ValueError for a key that `prepare` does not take, and what `prepare` raises.
    """
    if addresses.is_address(folder):
        return _make_remote(section, folder, source, budget, is_brief)
    folder = paths.local('The folder of rows', folder)
    section = schema.resolved(Prepare, section, 'prepare')
    name, texts = section.pop('tokenizer'), section['source']
    opened = _opened(name, texts, folder, source, is_brief)
    existed = Path(folder, row_folder.MANIFEST).exists()
    began = time.monotonic()
    section |= {'tokenizer': opened.tokenizer, 'tokenizer_about': opened.as_dict()}
    manifest = prepare(folder=folder, **section)
    seconds = None if existed else time.monotonic() - began
    print(f'{folder}: ' + ('already prepared' if existed else 'prepared'))
    lines = rows_page.lines(manifest, seconds, budget)
    if is_brief:
        lines = [*rows_page.sizes(manifest), *rows_page.problems(manifest)]
    for line in lines:
        print(f'  {line}')
    # It is missing for rows of a process that was killed after the last of them.
    if not Path(folder, REPORT).exists() and os.access(folder, os.W_OK):
        texts = _sample(folder, manifest, opened.tokenizer)
        rows_page.write(Path(folder, REPORT), manifest, texts, seconds, budget)
        print(f'  {Path(folder, REPORT)}: this report, with {len(texts)} of the rows')
    return manifest


def _opened(name, texts, folder, source, is_brief):
    """Returns the named_tokenizer.Opened; one as 'bpe:8192' is trained on the texts of a
    section `source` first, in a folder beside that of the rows."""
    trained = named_tokenizer.TRAINED.fullmatch(name)
    if not trained:
        return named_tokenizer.opened(name, source)
    place = f'{str(folder).rstrip("/")}-tokenizer'
    train = {'vocab_size': int(trained[1])}
    tokenizer.run({'source': texts, 'train': train}, place, is_brief)
    opened = named_tokenizer.opened(f'{place}/{named_tokenizer.FILE}')
    return dataclasses.replace(opened, name=name)


def _sample(folder, manifest, tokenizer):
    """Returns random rows of the first split as text, with | between documents."""
    data = pipeline.Rows(folder, next(iter(manifest['splits'])))
    count = min(rows_page.ROWS, len(data))
    texts = []
    for index in np.random.default_rng(0).choice(len(data), count, replace=False):
        tokens_L, segments_L = data[index]['tokens'], data[index]['segment_ids']
        pieces = [tokens_L[segments_L == n] for n in range(1, segments_L.max() + 1)]
        text = ' | '.join(tokenizer.decode(piece) for piece in pieces)
        texts.append(' '.join(text.split())[: rows_page.LETTERS])
    return texts


def _make_remote(section, address, source, budget, is_brief):
    # Named by the address, so that the same command continues after an interruption, also
    # of an upload.
    folder = copies.root() / f'prepare-{checksums.checksum(str(address))[:32]}'
    if row_folder.exists(address) or not folder.exists():
        addresses.check_free(address)
    manifest = make(section, f'{folder}/rows', source, budget, is_brief)
    addresses.upload_folder(f'{folder}/rows', address, last=row_folder.MANIFEST)
    shutil.rmtree(folder)
    print(f'{address}: uploaded')
    return manifest


def if_missing(section, folder, source=None):
    """Prepares the rows of a section unless their folder exists.

    Does nothing without a section. Prints a note if the existing rows were prepared with
    other settings.
    """
    if not section:
        return
    if not row_folder.exists(folder):
        make(section, folder, source, is_brief=True)
    elif changed := pipeline.changed_settings(section, folder):
        print(
            f'Note: the settings that {folder} was prepared with differ from '
            f'config.prepare: {"; ".join(changed)}. The existing rows are used. For new '
            'rows, set another config.data.folder.'
        )
