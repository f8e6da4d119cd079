"""Accuracy over seeds of fine-tuning, ours compared with transformers'.

    python -m tests.finetune_means FOLDER TRAIN.jsonl TEST.jsonl [--seeds 5] [--rate 2e-4]

FOLDER is a BERT in transformers' format; rows of the files have a `text` and a `label`.
Both use the same head, batches, schedule, AdamW and clipping, no dropout, and their own
random heads and data orders. Needs torch and transformers.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from scipy import stats

BATCH, WARMUP, LENGTH = 32, 0.1, 64


def read(path):
    """Reads (texts, labels) from a file."""
    lines = Path(path).read_text(encoding='utf-8').splitlines()
    rows = list(map(json.loads, lines))
    return [row['text'] for row in rows], [row['label'] for row in rows]


def ours(folder, train, test, rate, seeds, epochs):
    """Returns the accuracy of each seed, trained by the grid."""
    from jepa_text import load
    from jepa_text.evaluation.members import grid
    from jepa_text.evaluation.sets.task import Examples
    from jepa_text.kinds import labels, prediction

    model = load.load(f'hf:{folder}')
    kind = labels.Labels(labels=tuple(sorted(set(train[1]))), pool='cls', act='tanh')
    reader = prediction.reader(model, LENGTH)
    learned, scored = (Examples(x, None, np.array(y)) for x, y in (train, test))
    rows = kind.rows(reader, learned)
    steps = epochs * -(-len(rows) // BATCH)
    made = grid.Grid(model, kind, grid.Recipe(steps=steps, warmup=WARMUP), LENGTH)
    run, found = prediction.program(made.network, kind), []
    known = kind.rows(reader, scored)
    for _, params, _ in made.train(rows, [grid.Member(rate, n) for n in range(seeds)]):
        outputs = prediction.outputs(model, kind, known, params, run)
        said = [answer['label'] for answer in kind.answers(outputs, known, scored)]
        found.append(float(np.mean(np.array(said) == scored.target)))
    return found


def theirs(folder, train, test, rate, seeds, epochs):
    """Returns the accuracy of each seed, by BertForSequenceClassification."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    names = sorted(set(train[1]))

    def batch(texts):
        told = dict(truncation=True, max_length=LENGTH, padding=True, return_tensors='pt')
        return tokenizer(list(texts), **told)

    steps = epochs * -(-len(train[0]) // BATCH)
    texts, wanted = np.array(train[0]), np.array([names.index(y) for y in train[1]])
    found = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=len(names)
        )
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        # What the folder has of a pooler is as good as none: both heads are fresh.
        model.bert.pooler.dense.reset_parameters()
        decayed = [p for n, p in model.named_parameters() if p.ndim == 2]
        others = [p for n, p in model.named_parameters() if p.ndim != 2]
        optimizer = torch.optim.AdamW(
            [
                {'params': decayed, 'weight_decay': 0.1},
                {'params': others, 'weight_decay': 0},
            ],
            lr=rate,
            betas=(0.9, 0.95),
            eps=1e-5,
        )
        schedule = transformers.get_linear_schedule_with_warmup(
            optimizer, round(WARMUP * steps), steps
        )
        model.train()
        for _ in range(epochs):
            order = torch.randperm(len(texts)).numpy()
            for start in range(0, len(texts), BATCH):
                part = order[start : start + BATCH]
                labels = torch.tensor(wanted[part])
                model(**batch(texts[part]), labels=labels).loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            said = [
                names[i]
                for start in range(0, len(test[0]), 64)
                for i in model(**batch(test[0][start : start + 64])).logits.argmax(-1)
            ]
        found.append(float(np.mean(np.array(said) == np.array(test[1]))))
    return found


def main():
    """Prints the accuracies, both means, and the 95 % interval of their difference."""
    parser = argparse.ArgumentParser()
    for name in ('folder', 'train', 'test'):
        parser.add_argument(name)
    parser.add_argument('--seeds', type=int, default=5)
    parser.add_argument('--epochs', type=int, default=1)
    parser.add_argument('--rate', type=float, default=2e-4)
    given = parser.parse_args()
    data = given.folder, read(given.train), read(given.test)
    found = {}
    for side in (ours, theirs):
        began = time.monotonic()
        found[side.__name__] = side(*data, given.rate, given.seeds, given.epochs)
        seconds = time.monotonic() - began
        mean = np.mean(found[side.__name__])
        said = f'{side.__name__:7} {mean:.4f}', found[side.__name__], f'{seconds:.0f} s'
        print(*said, flush=True)
    interval = stats.ttest_ind(*found.values(), equal_var=False).confidence_interval()
    print(f'difference {np.mean(found["ours"]) - np.mean(found["theirs"]):+.4f}', end=' ')
    print(f'({interval.low:+.4f} to {interval.high:+.4f})')


if __name__ == '__main__':
    main()
