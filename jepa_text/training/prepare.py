"""Config -> rows on disk: what `jepa-text prepare` does."""

from pathlib import Path

from jepa_text.config import schema
from jepa_text.data import pipeline, rows, tokenizers
from jepa_text.data.prepare import Config, prepare
from jepa_text.files import paths
from jepa_text.hf import adapt, files


def run(config, workdir):
    """`prepare` with the keywords of config['prepare'], rows in `workdir`; prints counts.

    The section's tokenizer is as `tokenizer_of` says. Raises ValueError for a keyword
    that `prepare` does not take, and whatever `prepare` raises.
    """
    section = schema.resolved(Config, config.get('prepare'), 'prepare')
    del section['tokenizer']
    tokenizer = tokenizer_of(config)
    was_there = Path(workdir, rows.MANIFEST).exists()
    manifest = prepare(tokenizer=tokenizer, folder=workdir, **section)
    print(f'{workdir}: ' + ('already prepared' if was_there else 'prepared'))
    if manifest.get('read'):
        print(f'  {manifest["read"]}')
    for split, counts in manifest['splits'].items():
        print(
            f'  {split}: {counts["documents"]:,} documents, {counts["tokens"]:,} tokens, '
            f'{counts["rows"]:,} rows of {manifest["row_length"]}, '
            f'{counts["efficiency"]:.2%} filled'
        )
    return manifest


def if_missing(config):
    """Makes the rows of a config that says how, unless their folder is there."""
    if 'prepare' not in config:
        return
    folder = Path(paths.local('data.folder', config['data']['folder']))
    if not folder.exists():
        run(config, str(folder))
    elif changed := pipeline.prepared_otherwise(config['prepare'], folder):
        print(
            f'Note: {folder} was prepared with other settings than config.prepare has: '
            f'{"; ".join(changed)}. It is used as it is; to prepare anew, name another '
            'config.data.folder.'
        )


def tokenizer_of(config):
    """The Tokenizer that config['prepare'] names: by a path, 'bundled', or 'start', the
    one of what config['start'] starts from."""
    name = config['prepare']['tokenizer']
    if name == 'start':
        start = config.get('start') or {}
        if not start.get('path'):
            raise ValueError("prepare.tokenizer='start', but start.path is not given.")
        path = start['path']
        if path.startswith('hf:'):
            folder = files.folder_of(path.removeprefix('hf:'), start.get('revision'))
            return adapt.tokenizer_of(folder, start.get('become') or {})
        name = f'{path}/tokenizer.json'
    return tokenizers.load(tokenizers.BUNDLED if name == 'bundled' else name)
