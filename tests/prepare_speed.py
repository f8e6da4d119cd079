"""`prepare` beside the bare library: seconds of `encode_batch` / seconds of rows.

    python tests/prepare_speed.py FOLDER_OF_TEXT [ROUNDS] [JOBS]

Both sides get the same documents and cores: the bare one from a list in memory, ours from
the files, up to rows with checksums on the disk. Prints wall-clock and CPU seconds of
each round, and the median ratio of both.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time

from jepa_text.data import prepare, section, tokenizers, units


def timed(call):
    """(wall-clock seconds, CPU seconds) of this process and the children it waits for."""
    began, before = time.perf_counter(), os.times()
    call()
    after = os.times()
    return time.perf_counter() - began, sum(after[:4]) - sum(before[:4])


def main(folder, rounds=3, jobs=1):
    tokenizer = tokenizers.load(tokenizers.BUNDLED)
    source = {'name': 'text', 'path': folder}
    splits = section.Prepare.splits
    found = units.corpora({'source': source, 'splits': splits})
    texts = [one['text'] for documents in found.values() for one in documents]
    print(f'{len(texts):,} documents, {sum(map(len, texts)) / 1e6:.1f} M characters')

    def bare():
        for at in range(0, len(texts), 1000):
            tokenizer.backend.encode_batch(texts[at : at + 1000])

    def ours():
        rows = tempfile.mkdtemp()
        prepare.prepare(
            source, tokenizer, rows, row_length=512, engine={'jobs': int(jobs)}
        )
        shutil.rmtree(rows)

    ratios = []
    for _ in range(int(rounds)):
        one, other = timed(bare), timed(ours)
        ratios.append([a / b for a, b in zip(one, other)])
        print('bare {:.1f} s, {:.1f} CPU-s; '.format(*one), end='')
        print('rows {:.1f} s, {:.1f} CPU-s'.format(*other), flush=True)
    wall, cpu = (statistics.median(column) for column in zip(*ratios))
    print(f'bare / rows: {wall:.2f} wall-clock, {cpu:.2f} CPU')


if __name__ == '__main__':
    main(*sys.argv[1:])
