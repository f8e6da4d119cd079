"""Synthetic configs, outcomes and lines of members."""

import numpy as np

CONFIG = {
    'model': 'runs/mlm',
    'model_revision': 'f3ab',
    'task': 'trec',
    'data_revision': '77aa',
    'tokenizer': '9c1d',
    'kind': 'labels',
    'metric': 'accuracy',
    'learning_rate': 1e-4,
    'seed': 0,
    'steps': 200,
    'batch_size': 32,
    'max_length': 128,
    'pooling': 'mean',
    'precision': 'float32',
    'template': '',
    'width': 10,
    'how': 'vmap',
}
VERSIONS = {'jax': '0.10.2', 'jepa-text': '0.1.0'}


def outcome(test=0.9, validation=0.91, status='done', losses=(1.8, 0.2)):
    """The outcome of a member with these accuracies; None if it is not finite."""

    def measured(value):
        standard = {'accuracy': value, 'macro_f1': value - 0.02}
        return {'standard': standard, 'paper': {'accuracy': value}}

    both = [x if x is None else measured(x) for x in (validation, test)]
    made = dict(status=status, validation=both[0], test=both[1], losses=list(losses))
    return made | dict(seconds=12.5, versions=VERSIONS)


def lines(models, rates, seeds, task='trec'):
    """Lines of a grid: `models` {name: (mean accuracy, best learning rate)}."""
    rng, found = np.random.default_rng(0), []
    for model, (mean, best) in models.items():
        for rate in rates:
            for member in range(seeds):
                off = 0.05 * np.log10(rate / best) ** 2
                value = mean - off + 0.008 * rng.standard_normal()
                given = {'learning_rate': rate, 'seed': member, 'task': task}
                made = outcome(value, value + 0.01 * rng.standard_normal())
                found.append(CONFIG | given | {'model': model} | made)
    return found
