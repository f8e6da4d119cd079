"""Tokens a second of reading rows with MLM's corruption, ours beside `datasets`.

    python -m tests.reading_speed FOLDER [--peer PYTHON] [--batches 300] [--rounds 3]

FOLDER holds prepared rows. Both sides give batches of 16 shuffled rows with 30 % of the
tokens masked, all of them as mask tokens: ours with its threads; theirs as a torch
DataLoader of a memory-mapped `datasets` table with DataCollatorForLanguageModeling, in
its own process and in two workers, of which the better counts. They take turns, each in a
process of its own; by the clock, and by the processor's time of all its threads and
children. PYTHON has datasets, transformers and torch.
"""

import argparse
import itertools
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROWS, RATE, WARM = 16, 0.3, 20


def ours(folder, _, batches):
    """Batches of the package."""
    from jepa_text.config import resolve
    from jepa_text.data import mixture, pipeline, stream, tokenizers

    rows = pipeline.Rows(folder, 'train')
    objective = resolve.build(
        'objectives',
        {'name': 'mlm', 'rate': RATE},
        tokenizer=tokenizers.load(f'{folder}/tokenizer.json'),
        length=rows.row_length,
        steps=1,
    )
    whole = mixture.Mixture([mixture.Part(name='', rows=rows)])
    made = stream.batches(whole, objective.corrupt, batch_size=ROWS, seed=0)
    return clocked(made, batches) | {'row_length': rows.row_length}


def theirs(folder, table, batches, workers):
    """Batches of datasets and transformers."""
    import datasets
    import torch
    import transformers

    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=f'{folder}/tokenizer.json',
        mask_token='<mask>',
        pad_token='<pad>',
        bos_token='<bos>',
        eos_token='<eos>',
    )
    rows = datasets.load_from_disk(table).with_format('torch')
    collator = transformers.DataCollatorForLanguageModeling(
        tokenizer, mlm_probability=RATE, mask_replace_prob=1.0, random_replace_prob=0.0
    )
    loader = torch.utils.data.DataLoader(
        rows, ROWS, shuffle=True, collate_fn=collator, num_workers=workers, drop_last=True
    )
    forever = itertools.chain.from_iterable(itertools.repeat(loader))
    return clocked(forever, batches)


def clocked(batches, count):
    """Seconds by the clock and of the processor, for so many batches."""
    batches = iter(batches)
    for _ in range(WARM):
        next(batches)
    began, before = time.perf_counter(), spent()
    for _ in range(count):
        next(batches)
    return {'seconds': time.perf_counter() - began, 'processor': spent() - before}


def spent():
    """Seconds of the processor, of this process and the children that have ended."""
    found = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        found += usage.ru_utime + usage.ru_stime
    return found


def table(folder, to, peer):
    """The rows as a `datasets` table on the disk."""
    import numpy as np

    from jepa_text.data import pipeline

    rows = pipeline.Rows(folder, 'train')
    np.save(
        f'{to}/rows.npy',
        np.stack([row['tokens'] for row in map(rows.__getitem__, range(len(rows)))]),
    )
    program = (
        'import datasets, numpy, sys; '
        'table = datasets.Dataset.from_dict({"input_ids": numpy.load(sys.argv[1])}); '
        'table.save_to_disk(sys.argv[2])'
    )
    asked = [peer, '-c', program, f'{to}/rows.npy', f'{to}/table']
    subprocess.run(asked, check=True, stderr=subprocess.DEVNULL)
    return f'{to}/table'


SIDES = {
    'ours': ours,
    'theirs': lambda *given: theirs(*given, workers=0),
    'theirs, 2 workers': lambda *given: theirs(*given, workers=2),
}


def main():
    """Prints tokens a second of each side, and how many times as fast ours is."""
    parser = argparse.ArgumentParser()
    parser.add_argument('folder')
    parser.add_argument('--peer', default=sys.executable)
    parser.add_argument('--batches', type=int, default=300)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--side', choices=SIDES)
    parser.add_argument('--table')
    given = parser.parse_args()
    if given.side:
        print(json.dumps(SIDES[given.side](given.folder, given.table, given.batches)))
        return
    found = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as place:
        at = table(given.folder, place, given.peer)
        for _, side in itertools.product(range(given.rounds), SIDES):
            python = sys.executable if side == 'ours' else given.peer
            asked = [str(pathlib.Path(__file__)), given.folder, '--table', at]
            asked += ['--side', side, '--batches', str(given.batches)]
            done = subprocess.run(
                [python, *asked], check=True, capture_output=True, text=True
            )
            found[side].append(json.loads(done.stdout.splitlines()[-1]))
    length = found['ours'][0]['row_length']
    tokens = ROWS * given.batches * length
    told = {
        side: {
            name: round(tokens / statistics.median(one[name] for one in rounds) / 1e6, 2)
            for name in ('seconds', 'processor')
        }
        for side, rounds in found.items()
    }
    # Of workers that still run, the processor's time is not known: by the clock alone.
    best = max(told['theirs']['seconds'], told['theirs, 2 workers']['seconds'])
    print(
        json.dumps(
            {
                'million tokens a second': told,
                'ratio by the clock': round(told['ours']['seconds'] / best, 2),
                'ratio by the processor, one process': round(
                    told['ours']['processor'] / told['theirs']['processor'], 2
                ),
            },
            indent=1,
        )
    )


if __name__ == '__main__':
    main()
