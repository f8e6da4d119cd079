"""A grid of fine-tuned members beside a loop of transformers' Trainer.

    python benchmarks/finetuning.py FOLDER [MEMBERS] [STEPS] [WIDTH] [--rounds=1]

FOLDER is a model in transformers' format, e.g. MiniLM. Both train 30 members for 50 steps
on the same 1,600 sentences of 5 to 25 words in batches of 32: theirs are padded to the
longest text of a batch, ours are packed. Loading and compilation are included.
"""

import random
import tempfile

import harness

WORDS = ('whale', 'sea', 'law', 'tax', 'war', 'ship', 'people', 'house', 'hand', 'state')
RATES = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4)


def sentences():
    """(texts, labels) with six classes."""
    rng = random.Random(0)
    made = [rng.choices(WORDS, k=rng.randint(5, 25)) for _ in range(1600)]
    return [' '.join(words) for words in made], [len(words) % 6 for words in made]


def ours(folder, members='30', steps='50', width='1'):
    """Trains members by one program."""
    import numpy as np

    from jepa_text.evaluation.config import Finetuning
    from jepa_text.evaluation.members import grid
    from jepa_text.evaluation.sets.task import Examples
    from jepa_text.pretrained import labels, load, prediction

    def work():
        texts, classes = sentences()
        model = load.load(f'hf:{folder}')
        kind = labels.Labels(labels=tuple('012345'), pool='cls', act='tanh')
        examples = Examples(texts, None, np.array(list(map(str, classes))))
        rows = kind.rows(prediction.reader(model, 128), examples)
        made = grid.Grid(model, kind, Finetuning(steps=int(steps)), 128)
        chosen = [grid.Member(RATES[i % 6], i // 6) for i in range(int(members))]
        list(made.train(rows, chosen, int(width)))

    return work


def theirs(folder, members='30', steps='50', _='1'):
    """Trains members one after another with transformers."""
    import transformers

    def work():
        texts, classes = sentences()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        encoded = tokenizer(texts, truncation=True, max_length=128)
        keys = ('input_ids', 'attention_mask')
        columns = zip(*(encoded[key] for key in keys), classes)
        rows = [dict(zip((*keys, 'labels'), column)) for column in columns]
        for number in range(int(members)):
            model = transformers.AutoModelForSequenceClassification.from_pretrained(
                folder, num_labels=6
            )
            given = transformers.TrainingArguments(
                output_dir=tempfile.mkdtemp(),
                max_steps=int(steps),
                per_device_train_batch_size=32,
                learning_rate=RATES[number % 6],
                save_strategy='no',
                report_to=[],
                disable_tqdm=True,
                seed=number // 6,
            )
            collator = transformers.DataCollatorWithPadding(tokenizer)
            how = dict(train_dataset=rows, data_collator=collator)
            transformers.Trainer(model, given, **how).train()

    return work


if __name__ == '__main__':
    sides = {'ours': ours, 'transformers': theirs}
    harness.main(__doc__, sides, cold=sides)
