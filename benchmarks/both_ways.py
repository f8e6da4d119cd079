"""Frozen probes of decoders, read with causal and with bidirectional attention.

    python benchmarks/both_ways.py SETS RESULTS.jsonl hf:SMOLLM2 runs/cpt-mlm runs/cpt-clm

SETS is the folder that launch/small_corpus.py writes. A probe is logistic regression on
the mean of the last hidden states, trained on 60 % of the examples, stratified, and
scored on the rest, for five splits that all models share. The first model is also
compared as the bag of its embeddings, and all with TF-IDF. Appends the accuracies to
the file of results, a line for each model, reading and set, so that the same command goes
on after an interruption, and prints them as a table.
"""

import dataclasses
import functools
import itertools
import json
import sys
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit

from jepa_text import load
from jepa_text.evaluation import controls
from jepa_text.measures import probes

LENGTH, EXAMPLES, SPLITS = 64, 4000, 5
SETS = {
    'trec': ('trec.jsonl',),
    'films': ('films.jsonl',),
    'reuters-r52': ('reuters-r52/train.jsonl', 'reuters-r52/test.jsonl'),
}


def read(folder, paths):
    """Returns (texts, labels_N) of examples drawn with a seed, without the rarest
    classes, of which a split could have none."""
    lines = itertools.chain(*((Path(folder) / p).open(encoding='utf-8') for p in paths))
    examples = [json.loads(line) for line in lines]
    chosen = np.random.default_rng(0).permutation(len(examples))[:EXAMPLES]
    texts, labels = zip(*((examples[i]['text'], examples[i]['label']) for i in chosen))
    names, index_N, counts = np.unique(labels, return_inverse=True, return_counts=True)
    kept = [i for i, index in enumerate(index_N) if counts[index] >= 5]
    return [texts[i] for i in kept], names[index_N[kept]]


def splits(labels_N):
    """Yields (seed, training indices, test indices)."""
    drawn = StratifiedShuffleSplit(SPLITS, test_size=0.4, random_state=0)
    for seed, sides in enumerate(drawn.split(labels_N, labels_N)):
        yield seed, *sides


def probed(vectors_ND, labels_N):
    """Returns the accuracy on each split, [S]."""
    return [
        probes.linear_probe(
            vectors_ND[train], labels_N[train], vectors_ND[test], labels_N[test], seed
        )['accuracy']
        for seed, train, test in splits(labels_N)
    ]


def words(texts, labels_N):
    """Returns the accuracy on each split of logistic regression on TF-IDF, [S]."""
    texts, values = np.array(texts, object), []
    for _, train, test in splits(labels_N):
        vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        model = LogisticRegression(max_iter=3000)
        model = GridSearchCV(model, {'C': [1.0, 10.0, 100.0]}, cv=3)
        model.fit(vectorizer.fit_transform(texts[train]), labels_N[train])
        values.append(model.score(vectorizer.transform(texts[test]), labels_N[test]))
    return values


def readings(name, is_first):
    """Yields (reading, texts -> vectors) of a model."""
    model = dataclasses.replace(load(name), length=LENGTH, name=name)
    if is_first:
        yield (
            'bag of its embeddings',
            functools.partial(controls.bag_of_embeddings, model),
        )
    for reading, causal in (('causal', True), ('bidirectional', False)):
        yield reading, dataclasses.replace(model, causal=causal).encode


def measured(folder, names, known):
    """Yields {model, read, set, accuracies} of what is not in `known` keys of these."""
    for task, paths in SETS.items():
        texts, labels_N = read(folder, paths)
        if ('TF-IDF', '', task) not in known:
            values = words(texts, labels_N)
            yield dict(model='TF-IDF', read='', set=task, accuracies=values)
        for name in names:
            for reading, encode in readings(name, name == names[0]):
                line = dict(model=Path(name).name, read=reading, set=task)
                if (*line.values(),) not in known:
                    yield line | dict(accuracies=probed(encode(texts), labels_N))


def table(lines):
    """Prints mean ± standard deviation over splits in Markdown."""
    print('| model | read | ' + ' | '.join(SETS) + ' |')
    print('|---' * (2 + len(SETS)) + '|')
    found = {(one['model'], one['read'], one['set']): one['accuracies'] for one in lines}
    for model, reading in dict.fromkeys((model, reading) for model, reading, _ in found):
        values = [found.get((model, reading, task)) for task in SETS]
        cells = [
            f'{np.mean(v):.3f} ± {np.std(v, ddof=1):.3f}' if v else '' for v in values
        ]
        print('| ' + ' | '.join((model, reading, *cells)) + ' |')


def main(folder, results, names):
    """Measures what is missing in the file of results, and prints the table."""
    results = Path(results)
    lines = list(map(json.loads, results.open())) if results.exists() else []
    known = {(one['model'], one['read'], one['set']) for one in lines}
    with results.open('a') as file:
        for line in measured(folder, names, known):
            lines.append(line)
            print(json.dumps(line), file=file, flush=True)
    table(lines)


if __name__ == '__main__':
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
