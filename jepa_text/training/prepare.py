"""Config -> rows on disk: what `jepa-text prepare` does."""

import shutil
import uuid
from pathlib import Path

from jepa_text.config import schema
from jepa_text.data import brought, pipeline, rows, tokenizers
from jepa_text.data.prepare import Config, prepare
from jepa_text.files import addresses, cache, paths, transfer
from jepa_text.hf import adapt, files


def run(config, workdir):
    """The command: `make` of the sections of a config, rows in `workdir`."""
    return make(config.get('prepare'), workdir, config.get('init_from'))


def make(section, folder, source=None):
    """`prepare` with the keywords of a section, rows in the folder; prints counts.

    The section's tokenizer is as `tokenizer_of` says. Raises ValueError for a keyword
    that `prepare` does not take, and whatever `prepare` raises.
    """
    if addresses.is_address(folder):
        return _away(section, folder, source)
    section = schema.resolved(Config, section, 'prepare')
    tokenizer = tokenizer_of(section.pop('tokenizer'), source)
    was_there = Path(folder, rows.MANIFEST).exists()
    manifest = prepare(tokenizer=tokenizer, folder=folder, **section)
    print(f'{folder}: ' + ('already prepared' if was_there else 'prepared'))
    if manifest.get('read'):
        print(f'  {manifest["read"]}')
    for split, counts in manifest['splits'].items():
        print(
            f'  {split}: {counts["documents"]:,} documents, {counts["tokens"]:,} tokens, '
            f'{counts["rows"]:,} rows of {manifest["row_length"]}, '
            f'{counts["efficiency"]:.2%} filled'
        )
    return manifest


def _away(section, address, source):
    """As `make`, at an address: made here, then copied there, the manifest last."""
    transfer.check_free(address)
    held = cache.hold(f'making-{uuid.uuid4().hex[:8]}')
    try:
        manifest = make(section, str(held / 'rows'), source)
        transfer.folder(held / 'rows', address, rows.MANIFEST)
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
    if not (brought.is_there(folder) if away else Path(folder).exists()):
        make(section, folder, source)
    elif changed := pipeline.prepared_otherwise(section, folder):
        print(
            f'Note: {folder} was prepared with other settings than config.prepare has: '
            f'{"; ".join(changed)}. It is used as it is; to prepare anew, name another '
            'config.data.folder.'
        )


def tokenizer_of(name, source=None):
    """The Tokenizer of a path, 'bundled', or 'init_from': what that section names."""
    if name == 'init_from':
        source = source or {}
        if not source.get('path'):
            raise ValueError(
                "prepare.tokenizer='init_from', but init_from.path is not given."
            )
        path = source['path']
        if path.startswith('hf:'):
            folder = files.folder_of(path.removeprefix('hf:'), source.get('revision'))
            return adapt.tokenizer_of(folder, source.get('adapt') or {})
        name = f'{path}/tokenizer.json'
    return tokenizers.load(tokenizers.BUNDLED if name == 'bundled' else name)
