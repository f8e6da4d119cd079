"""The texts of a task as rows of features: TF-IDF, sparse, or the bag of embeddings."""

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.evaluation.controls import words
from jepa_text.evaluation.metrics import base
from jepa_text.measures import probes


def counted(task, grams):
    """[(first, second or None)] of train, validation, test: sparse TF-IDF of all words
    of the training texts, of pairs of words that come twice too if `grams` is 2."""
    text = base.extra('sklearn.feature_extraction.text')
    known = task.train.texts()
    if not any(map(words.words, known)):
        raise ValueError(
            f'{task.name}: no training text has a word, so TF-IDF has nothing to count.'
        )

    def split(text):
        found = words.words(text)
        pairs = zip(found, found[1:]) if grams == 2 else ()
        return found + [' '.join(pair) for pair in pairs]

    rare = dict(min_df=2) if grams == 2 and len(known) > 2 else {}
    vectorizer = text.TfidfVectorizer(analyzer=split, sublinear_tf=True, **rare)
    vectorizer.fit(known)
    return _sides(task, vectorizer.transform)


def bags(task, model):
    """The same of the bag of a model's embeddings, dense."""
    return _sides(task, lambda texts: controls.bag_of_embeddings(model, texts))


def _sides(task, encode):
    parts = (task.train, task.validation, task.test)
    return [
        (encode(part.first), None if part.second is None else encode(part.second))
        for part in parts
    ]


def joined(task, parts):
    """One matrix of each part; of pairs u, v, |u - v|, u v."""
    if task.train.second is None:
        return [first for first, _ in parts]
    if isinstance(parts[0][0], np.ndarray):
        return [probes.pair_features(*pair) for pair in parts]
    from scipy import sparse

    return [
        sparse.hstack([one, two, abs(one - two), one.multiply(two)], format='csr')
        for one, two in parts
    ]


def standardized(parts):
    """By mean and deviation of the first, the training part."""
    deviation_D = parts[0].std(axis=0)
    scale_D = np.where(deviation_D > 0, deviation_D, 1.0)
    mean_D = parts[0].mean(axis=0)
    return [(part - mean_D) / scale_D for part in parts]


def fitted(model, features, target):
    """[answers to validation, to test] of a model of scikit-learn."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    # Threads within products of this size wait for each other.
    with threadpool_limits(1):
        model.fit(features[0], target)
        return [model.predict(part) for part in features[1:]]


def cosine(first, second):
    """[N]: of each pair of rows."""
    if isinstance(first, np.ndarray):
        return probes.pair_cosine(first, second)
    return np.asarray(first.multiply(second).sum(axis=1)).ravel()  # of length 1 each
