"""A tiny model and toy tasks, for tests of fine-tuning."""

import dataclasses
import functools
import gzip
import json
import random

import jax
import numpy as np

from jepa_text.data import tokenizers
from jepa_text.evaluation.sets import task as tasks
from jepa_text.models import transformer
from jepa_text.models.network import Network
from jepa_text.pretrained import labels, load, saved
from jepa_text.settings import resolve

SEA, LAND = ('whale', 'sea', 'ship'), ('law', 'tax', 'war')


@functools.cache
def model(length=64, depth=2):
    """An untrained encoder of the bundled vocabulary."""
    tokenizer = tokenizers.load(tokenizers.BUNDLED)
    objective = resolve.build(
        'objectives', dict(name='mlm'), tokenizer=tokenizer, length=length, steps=1
    )
    encoder = transformer.make('tiny', vocab_size=tokenizer.vocab_size, depth=depth)
    network = Network(encoder, objective)
    params = jax.jit(lambda: network.init(0))()
    return load.Pretrained(network, params, tokenizer, length, 'toy')


def with_head(model, kind):
    """The model with an untrained head of a kind of task."""
    network = Network(model.network.encoder, kind)
    head = network.modules['task_head']
    params = jax.jit(head.init)(jax.random.key(0), *head.example())['params']
    params = {'encoder': model.params['encoder'], 'task_head': params}
    return dataclasses.replace(model, network=network, params=params, kind=kind)


def saved_model(folder):
    """Saves a classifier to a folder for `load.load`."""
    saved.write(folder, with_head(model(), labels.Labels(labels=('a', 'b'))))
    return folder


def sea_or_land(count, seed=0):
    """Examples whose label depends on one of five words."""
    rng, texts, told = random.Random(seed), [], []
    for number in range(count):
        told.append(rng.choice(['sea', 'land']))
        word = rng.choice(SEA if told[-1] == 'sea' else LAND)
        words = ['the', 'old', 'and', word, str(number)]
        texts.append(' '.join(rng.sample(words, 5)))
    return tasks.Examples(texts, None, np.array(told))


def labeled():
    """A task of such examples."""
    parts = [sea_or_land(count, seed) for seed, count in enumerate((64, 16, 32))]
    return tasks.Task(
        'sea', 'labels', 'accuracy', parts[0], parts[2], validation=parts[1]
    )


def file_of(folder, count=60):
    """Writes such examples to a file."""
    made, path = sea_or_land(count), folder / 'sea.jsonl'
    rows = [{'text': t, 'label': str(y)} for t, y in zip(made.first, made.target)]
    jsonl(path, rows)
    return path


def jsonl(path, rows):
    """Writes rows as JSON lines, also compressed (.gz); returns the path as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (gzip.open if path.suffix == '.gz' else open)(path, 'wt') as file:
        file.write(''.join(json.dumps(row) + '\n' for row in rows))
    return str(path)


def model_of_others(transformers, folder, head, family='Bert', **changes):
    """Saves a random model of two layers, such as a BertFor`head`, with the bundled
    tokenizer."""
    tokenizer = tokenizers.load(tokenizers.BUNDLED)
    sizes = dict(
        vocab_size=tokenizer.vocab_size,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=64,
        pad_token_id=tokenizer.pad_id,
    )
    config = getattr(transformers, f'{family}Config')(**sizes | changes)
    model = getattr(transformers, f'{family}For{head}')(config)
    model.save_pretrained(folder)
    tokenizer.save(folder / 'tokenizer.json')
    return model
