"""Seconds of a grid of members, ours compared with a loop of transformers' Trainer.

    python -m tests.finetune_speed FOLDER [--members 30] [--steps 50] [--width 1]

FOLDER is a model in transformers' format, e.g. MiniLM. Both run in their own process,
which loads the model and trains on the same 1,600 sentences of 5 to 25 words in batches
of 32: theirs are padded to the longest text of a batch, ours are packed. Start-up and
compilation are included. Needs torch and transformers.
"""

import argparse
import json
import random
import subprocess
import sys
import time

WORDS = ('whale', 'sea', 'law', 'tax', 'war', 'ship', 'people', 'house', 'hand', 'state')
RATES = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4)


def sentences():
    """Returns (texts, labels) with six classes."""
    rng = random.Random(0)
    made = [rng.choices(WORDS, k=rng.randint(5, 25)) for _ in range(1600)]
    return [' '.join(words) for words in made], [len(words) % 6 for words in made]


def ours(folder, members, steps, width):
    """Trains members by one program."""
    import numpy as np

    from jepa_text import load
    from jepa_text.evaluation.members import grid
    from jepa_text.evaluation.sets.task import Examples
    from jepa_text.kinds import labels, prediction

    texts, told = sentences()
    model = load.load(f'hf:{folder}')
    kind = labels.Labels(labels=tuple('012345'), pool='cls', act='tanh')
    examples = Examples(texts, None, np.array(list(map(str, told))))
    rows = kind.rows(prediction.reader(model, 128), examples)
    made = grid.Grid(model, kind, grid.Recipe(steps=steps), 128)
    chosen = [grid.Member(RATES[i % 6], i // 6) for i in range(members)]
    return [float(losses[-1]) for *_, losses in made.train(rows, chosen, width)]


def theirs(folder, members, steps, width):
    """Trains members one after another with transformers."""
    import tempfile

    import torch
    import transformers

    texts, told = sentences()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(texts, truncation=True, max_length=128)
    data = [
        {'input_ids': ids, 'attention_mask': mask, 'labels': label}
        for ids, mask, label in zip(encoded['input_ids'], encoded['attention_mask'], told)
    ]
    losses = []
    for number in range(members):
        torch.manual_seed(number // 6)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=6
        )
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        with tempfile.TemporaryDirectory() as output:
            given = transformers.TrainingArguments(
                output_dir=output,
                max_steps=steps,
                per_device_train_batch_size=32,
                learning_rate=RATES[number % 6],
                warmup_steps=steps // 10,
                weight_decay=0.1,
                save_strategy='no',
                report_to=[],
                disable_tqdm=True,
                seed=number // 6,
            )
            collator = transformers.DataCollatorWithPadding(tokenizer)
            trainer = transformers.Trainer(
                model, given, train_dataset=data, data_collator=collator
            )
            losses.append(trainer.train().training_loss)
    return losses


SIDES = {'ours': ours, 'theirs': theirs}


def main():
    """Prints the seconds of both, and the speedup of ours."""
    parser = argparse.ArgumentParser()
    parser.add_argument('folder')
    parser.add_argument('--members', type=int, default=30)
    parser.add_argument('--steps', type=int, default=50)
    parser.add_argument('--width', type=int, default=1)
    parser.add_argument('--side', choices=SIDES)
    given = parser.parse_args()
    asked = given.folder, given.members, given.steps, given.width
    if given.side:
        print(json.dumps(SIDES[given.side](*asked)))
        return
    seconds = {}
    for side in SIDES:
        began = time.monotonic()
        subprocess.run([sys.executable, *sys.argv, '--side', side], check=True)
        seconds[side] = time.monotonic() - began
    print(json.dumps(seconds | {'ratio': seconds['theirs'] / seconds['ours']}))


if __name__ == '__main__':
    main()
