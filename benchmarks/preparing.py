"""`prepare` beside `encode_batch` of the bare library `tokenizers`.

    python benchmarks/preparing.py FOLDER_OF_TEXT [JOBS] [--rounds=3]

Both get the same documents: the bare one from a list in memory, ours from the files, up
to rows with checksums on the disk.
"""

import tempfile

import harness

from jepa_text.data import prepare, tokenizers, units


def ours(folder, jobs='1'):
    """Rows from the files."""
    tokenizer = tokenizers.load(tokenizers.BUNDLED)
    source = {'name': 'text', 'path': folder}
    how = dict(splits=('train',), row_length=512, engine={'jobs': int(jobs)})

    def work():
        with tempfile.TemporaryDirectory() as rows:
            prepare.prepare(source, tokenizer, f'{rows}/rows', **how)

    return work


def theirs(folder, _='1'):
    """Token ids of a list of texts."""
    encode = tokenizers.load(tokenizers.BUNDLED).backend.encode_batch
    section = {'source': {'name': 'text', 'path': folder}, 'splits': ('train',)}
    texts = [one['text'] for part in units.corpora(section).values() for one in part]

    def work():
        for start in range(0, len(texts), 1000):
            encode(texts[start : start + 1000])

    return work


if __name__ == '__main__':
    harness.main(__doc__, {'ours': ours, 'tokenizers': theirs})
