"""Tests that remote corpora equal local ones."""

import pyarrow
import pytest
from pyarrow import parquet

from jepa_text.data import prepare
from jepa_text.data.rows import row_folder
from jepa_text.data.sources import parquet as parquet_source
from jepa_text.data.sources import text


def blocks(texts):
    return '\n\n'.join(texts).encode()


def row_groups(texts):
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table({'text': texts}), sink, row_group_size=20)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    'name, module, pack',
    [('text', text, blocks), ('parquet', parquet_source, row_groups)],
)
def test_remote_documents_units_and_rows_match_local_ones(
    name, module, pack, tmp_path, ours, units_of, memory, rng
):
    units_of(1500)
    folder, address = tmp_path / 'texts', 'memory://corpus'
    folder.mkdir()
    for number in range(4):
        words = ['the', 'whale', 'sea', 'é']
        texts = [' '.join(rng.choice(words, rng.integers(3, 30))) for _ in range(70)]
        file = f'{number}.{"txt" if name == "text" else name}'
        (folder / file).write_bytes(pack(texts))
        memory.pipe_file(f'{address}/{file}', pack(texts))
    here, there = (module.make('train', str(top)) for top in (folder, address))
    assert list(here) == list(there) and len(list(here)) > 250
    sizes = [[piece[1:4] for piece in pieces] for pieces in here.units()]
    assert sizes == [[piece[1:4] for piece in pieces] for pieces in there.units()]
    assert len(sizes) > 3
    sums = []
    for rows, top in (('here', folder), ('there', address)):
        source = {'name': name, 'path': str(top), 'heldout_every': 5}
        manifest = prepare.prepare(source, ours, tmp_path / rows, row_length=32)
        assert manifest['read'].startswith('4 files read')
        sums.append([entry['sha256'] for _, entry in row_folder.files(manifest)])
    assert sums[0] == sums[1] and len(sums[0]) > 8
