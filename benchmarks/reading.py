"""Reading rows with MLM's corruption, beside a torch DataLoader of `datasets`.

    python benchmarks/reading.py FOLDER [BATCHES] [--rounds=3]

FOLDER has prepared rows. Both sides read 300 batches of 16 shuffled rows with 30 % of the
tokens masked, all as mask tokens: ours with its threads; theirs from a memory-mapped
table with DataCollatorForLanguageModeling, in the process itself and in two workers.
"""

import functools
import itertools
import tempfile

import harness
import numpy as np

ROWS, RATE = 16, 0.3


def reading(batches, count):
    """The work of reading `count` batches; the first ones start the threads."""
    batches = iter(batches)

    def work():
        for _ in range(int(count)):
            next(batches)

    return work


def ours(folder, count='300'):
    """Batches of the package."""
    from jepa_text.data import mixture, pipeline, stream, tokenizers
    from jepa_text.settings import resolve

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
    return reading(made, count)


def theirs(folder, count='300', workers=0):
    """Batches of datasets, transformers and torch."""
    import datasets
    import torch
    import transformers

    from jepa_text.data import pipeline

    rows = pipeline.Rows(folder, 'train')
    ids_NL = np.stack([rows[index]['tokens'] for index in range(len(rows))])
    place = tempfile.mkdtemp()
    datasets.Dataset.from_dict({'input_ids': ids_NL}).save_to_disk(place)
    special = {f'{name}_token': f'<{name}>' for name in ('mask', 'pad', 'bos', 'eos')}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=f'{folder}/tokenizer.json', **special
    )
    collate = transformers.DataCollatorForLanguageModeling(
        tokenizer, mlm_probability=RATE, mask_replace_prob=1.0, random_replace_prob=0.0
    )
    table = datasets.load_from_disk(place).with_format('torch')
    how = dict(shuffle=True, collate_fn=collate, num_workers=workers, drop_last=True)
    loader = torch.utils.data.DataLoader(table, ROWS, **how)
    return reading(itertools.chain.from_iterable(itertools.repeat(loader)), count)


if __name__ == '__main__':
    two = functools.partial(theirs, workers=2)
    harness.main(__doc__, {'ours': ours, 'datasets': theirs, 'datasets, 2 workers': two})
