"""Tests that remote corpora equal local ones."""

import fsspec
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from jepa_text.data import prepare, tokenizers
from jepa_text.data.rows import row_folder
from jepa_text.data.sources import jsonl, text
from jepa_text.data.sources import parquet as parquet_source

SUFFIXED = {
    'text': (text, '.txt', lambda texts: '\n\n'.join(texts).encode()),
    'zst': (
        text,
        '.txt.zst',
        lambda texts: pyarrow.compress(
            '\n\n'.join(texts).encode(), codec='zstd', asbytes=True
        ),
    ),
    'jsonl': (
        jsonl,
        '.jsonl',
        lambda texts: ''.join(f'{{"text": "{one}"}}\n' for one in texts).encode(),
    ),
    'parquet': (parquet_source, '.parquet', lambda texts: packed(texts)),
}


def packed(texts):
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table({'text': texts}), sink, row_group_size=20)
    return sink.getvalue().to_pybytes()


@pytest.fixture(params=SUFFIXED)
def both(request, tmp_path, units_of):
    """(the module of the source, a local folder, the address of a copy)."""
    units_of(1500)
    module, ending, written = SUFFIXED[request.param]
    rng, store = np.random.default_rng(0), fsspec.filesystem('memory')
    folder = tmp_path / 'texts'
    folder.mkdir()
    name = f'/corpus-{tmp_path.name}'
    for number in range(4):
        words = ['the', 'whale', 'sea', 'é']
        texts = [' '.join(rng.choice(words, rng.integers(3, 30))) for _ in range(70)]
        (folder / f'{number}{ending}').write_bytes(written(texts))
        store.pipe_file(f'{name}/{number}{ending}', written(texts))
    return module, folder, f'memory:/{name}'


def test_remote_documents_units_and_rows_match_local_ones(both, tmp_path):
    module, folder, address = both
    here, there = (module.make('train', str(top)) for top in (folder, address))
    assert list(here) == list(there) and len(list(here)) > 250
    sizes = [[piece[1:4] for piece in pieces] for pieces in here.units()]
    assert sizes == [[piece[1:4] for piece in pieces] for pieces in there.units()]
    assert len(sizes) > 3
    sums = []
    for name, top in (('here', folder), ('there', address)):
        source = {'name': module.__name__.rpartition('.')[2], 'path': str(top)}
        manifest = prepare.prepare(
            source | {'heldout_every': 5},
            tokenizers.load(tokenizers.BUNDLED),
            tmp_path / name,
            row_length=32,
        )
        assert manifest['read'].startswith('4 files read')
        sums.append([entry['sha256'] for _, entry in row_folder.files(manifest)])
    assert sums[0] == sums[1] and len(sums[0]) > 8
