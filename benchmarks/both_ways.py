"""Frozen probes of decoders, read with causal and with bidirectional attention.

    python benchmarks/both_ways.py SETS hf:SMOLLM2 runs/cpt-mlm runs/cpt-clm

SETS is the folder that launch/small_corpus.py writes. A probe is logistic regression on
the mean of the last hidden states, trained on 60 % of the examples, stratified, and
scored on the rest, for five splits that all models share. The first model is also
compared as the bag of its embeddings, and all with TF-IDF. Prints a table in Markdown,
mean ± standard deviation over splits, and then the accuracy of each split as JSON.
"""

import dataclasses
import itertools
import json
import sys
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedShuffleSplit

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
        model = LogisticRegressionCV(Cs=(1.0, 10.0, 100.0), cv=3, max_iter=3000)
        model.fit(vectorizer.fit_transform(texts[train]), labels_N[train])
        values.append(model.score(vectorizer.transform(texts[test]), labels_N[test]))
    return values


def rows(sets, names):
    """Yields (name, reading, {set: accuracies [S]})."""
    yield 'TF-IDF', '', {name: words(*data) for name, data in sets.items()}
    for index, name in enumerate(names):
        model = dataclasses.replace(load(name), length=LENGTH, name=name)
        if not index:
            bags = {
                task: probed(controls.bag_of_embeddings(model, texts), labels_N)
                for task, (texts, labels_N) in sets.items()
            }
            yield name, 'bag of its embeddings', bags
        for causal, reading in ((True, 'causal'), (False, 'bidirectional')):
            read_so = dataclasses.replace(model, causal=causal)
            yield (
                name,
                reading,
                {
                    task: probed(read_so.encode(texts), labels_N)
                    for task, (texts, labels_N) in sets.items()
                },
            )


def main(folder, names):
    """Prints the table."""
    sets = {name: read(folder, paths) for name, paths in SETS.items()}
    print('| model | read | ' + ' | '.join(sets) + ' |')
    print('|---' * (2 + len(sets)) + '|')
    everything = []
    for name, reading, values in rows(sets, names):
        cells = (f'{np.mean(v):.3f} ± {np.std(v, ddof=1):.3f}' for v in values.values())
        print('| ' + ' | '.join((Path(name).name, reading, *cells)) + ' |', flush=True)
        everything.append(dict(model=Path(name).name, read=reading, accuracies=values))
    print(json.dumps(everything))


if __name__ == '__main__':
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
